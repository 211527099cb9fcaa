/** The stored bytes: saved to the reader's disk, or opened in another viewer. */

import { send, sessionPath } from "../../api/client";
import type { Credentials } from "../../api/credentials";

/** Save the whole pprof, whatever is focused, hidden or searched for. */
export async function download(who: Credentials, session: string): Promise<void> {
  const response = await send(who, `${sessionPath(session)}/profile`, {
    query: { format: "pprof.gz" },
  });
  const disposition = response.headers.get("Content-Disposition") ?? "";
  const name = /filename="([\w.-]+)"/.exec(disposition)?.[1] ?? `${session}.pprof.gz`;
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  // The browser reads it after this turn.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Address of speedscope with this profile in it. It is read from this tab's memory. */
export async function speedscopeUrl(who: Credentials, session: string): Promise<string> {
  const response = await send(who, `${sessionPath(session)}/profile`);
  const url = URL.createObjectURL(await response.blob());
  const asked = new URLSearchParams({ profileURL: url, title: session });
  return `/speedscope/#${asked}`;
}
