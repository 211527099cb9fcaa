/** A session at work: where it was placed, how far it is, and how to end it. */

import { useMutation, useQueryClient } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { call, sessionPath } from "../api/client";
import type { Problem } from "../api/problem";
import { sessionKey, useWho } from "../api/queries";
import type { Session } from "../api/types";
import { millis } from "../format";
import { Attempts, SessionHead } from "./session";

export function LiveSession({ session }: { session: Session }): ReactElement {
  const who = useWho();
  const cache = useQueryClient();
  const ending = useMutation<Session, Problem, "stop" | "cancel">({
    mutationFn: async (how) => {
      const path = sessionPath(session.id);
      const answer =
        how === "stop"
          ? call<Session>(who, `${path}/stop`, { method: "POST" })
          : call<Session>(who, path, { method: "DELETE" });
      return (await answer).result;
    },
    onSuccess: (ended) => cache.setQueryData(sessionKey(who, session.id), ended),
  });
  const last = session.captures[session.captures.length - 1];
  const sampled = furthest(session);
  const share = session.state === "finishing" ? 1 : sampled / session.duration_ms;
  return (
    <>
      <SessionHead session={session} />
      <section className="card live">
        <h2 aria-live="polite">{headline(session)}</h2>
        <progress
          max={1}
          value={session.state === "queued" ? undefined : share}
          aria-label="Sampled so far"
        />
        <ol className="steps">
          <Step done={last !== undefined} name="Placed">
            {placed(session)}
          </Step>
          <Step done={session.state !== "queued"} name="Sampling">
            {session.state === "queued"
              ? "not yet"
              : `${millis(sampled)} of ${millis(session.duration_ms)}`}
          </Step>
          <Step done={session.state === "finishing"} name="Uploading">
            {session.state === "finishing" ? "the profile is on its way" : "not yet"}
          </Step>
        </ol>
        {ending.error === null ? null : (
          <p className="notice notice-bad" role="alert">
            <strong>{ending.error.message}</strong>
          </p>
        )}
        <div className="row">
          <button
            type="button"
            onClick={() => ending.mutate("stop")}
            disabled={ending.isPending || session.state !== "capturing"}
          >
            Stop and keep what there is
          </button>
          <button
            type="button"
            className="danger"
            onClick={() => ending.mutate("cancel")}
            disabled={ending.isPending}
          >
            Cancel
          </button>
        </div>
        <p className="hint">
          You can leave this page: the capture goes on, and this address finds it again.
        </p>
      </section>
      <Attempts session={session} />
    </>
  );
}

/** How far the capture is that is furthest. */
function furthest(session: Session): number {
  const done = session.captures.map((one) => Math.min(one.sampled_ms, session.duration_ms));
  return Math.max(0, ...done);
}

function placed(session: Session): string {
  const { asked, taken, live } = session.isolates;
  const last = session.captures[session.captures.length - 1];
  if (last === undefined) return "looking for a loaded isolate";
  if (asked === 1) return `${last.metal} in ${last.datacenter}`;
  return `${live} of ${asked} isolates at work, ${taken} taken`;
}

function headline(session: Session): string {
  switch (session.state) {
    case "queued":
      return "Capturing… finding an isolate";
    case "finishing":
      return "Capturing… fetching the profile";
    default:
      return "Capturing…";
  }
}

interface StepProps {
  readonly done: boolean;
  readonly name: string;
  readonly children: string;
}

function Step({ done, name, children }: StepProps): ReactElement {
  return (
    <li className={done ? "step step-done" : "step"}>
      <strong>{name}</strong>
      <span>{children}</span>
    </li>
  );
}
