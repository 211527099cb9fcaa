import type { ReactElement } from "react";
import type { SessionState } from "../api/types";

const TONE: Record<SessionState, string> = {
  queued: "wait",
  capturing: "live",
  finishing: "live",
  ready: "good",
  failed: "bad",
  cancelled: "idle",
  expired: "bad",
};

/** The state of a session, by word first and by colour besides. */
export function StateBadge({ state }: { state: SessionState }): ReactElement {
  return <span className={`badge badge-${TONE[state] ?? "idle"}`}>{state}</span>;
}
