/** A session's events as they come (Server-Sent Events), read so that a token can be sent along. */

import { send, sessionPath } from "./client";
import type { Credentials } from "./credentials";

/**
 * Follow a session until its stream ends; `heard` is told that something happened, not what:
 * the session itself is then asked for, so that there is one truth about it.
 *
 * Rejects when there is no stream, or it breaks: whoever asked then goes on by asking.
 */
export async function follow(
  who: Credentials,
  id: string,
  heard: () => void,
  signal: AbortSignal,
): Promise<void> {
  const headers = { Accept: "text/event-stream" };
  const response = await send(who, `${sessionPath(id)}/events`, { headers, signal });
  const body = response.body;
  if (body === null) return;
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const blocks = new Blocks();
  for (let part = await reader.read(); !part.done; part = await reader.read())
    if (blocks.take(part.value)) heard();
}

/** Cuts a stream of text into events. */
export class Blocks {
  private rest = "";

  /** Take a part of the stream; true when an event with data ended in it. */
  take(part: string): boolean {
    const blocks = (this.rest + part).replaceAll("\r\n", "\n").split("\n\n");
    this.rest = blocks.pop() ?? "";
    return blocks.some((block) => block.split("\n").some((line) => line.startsWith("data:")));
  }
}
