/** What went wrong with a call, as the API tells it, and what a person can do next. */

export interface FieldProblem {
  /** JSON pointer into the body, or `query/<name>`. */
  readonly pointer: string;
  readonly message: string;
}

export class Problem extends Error {
  constructor(
    message: string,
    /** HTTP status; 0 when no answer came. */
    readonly status: number,
    /** The API's number of the case; 0 when there is none. */
    readonly code: number,
    readonly requestId: string,
    readonly retryAfterS: number | null,
    readonly documentation: string,
    readonly fields: readonly FieldProblem[],
  ) {
    super(message);
  }
}

const NEXT: ReadonlyMap<number, string> = new Map([
  [10000, "Sign in again with a token that is still valid."],
  [9109, "Use a token of this account that carries the permission named above."],
  [10390, "Ask an operator to enable profiling for this account."],
  [10007, "Choose one of the account's Workers."],
  [10391, "Choose one of the Worker's versions."],
  [10392, "Give more of the version's id."],
  [10393, "No traffic: send requests to this version, then capture again."],
  [10394, "Send it a few requests so that it is loaded again, then capture."],
  [10395, "Choose a Worker that runs on a runtime with a profiler."],
  [10396, "Capture again; if it goes on, tell an operator the request id."],
  [10397, "Profiling is switched off here. Ask an operator, or try again later."],
  [10398, "Every isolate of it is being captured. Wait until one is free, then capture again."],
  [10399, "The account has used up its quota. Wait, or ask an operator to raise it."],
  [10400, "Send a request to the Durable Object so that it is active, then capture again."],
  [10402, "Look for it among the account's sessions; profiles are kept for a limited time."],
  [10410, "Capture again."],
  [10411, "Capture again, and let it run for a second at least."],
  [10500, "Nothing was done. It is tried again by itself."],
  [10502, "Capture again in a few seconds."],
  [10503, "Capture again."],
  [10504, "Capture again: another isolate will be chosen."],
  [10505, "Capture again once no other inspector is attached."],
  [10506, "Capture again, for a shorter time."],
  [10507, "Look for a synchronous loop in the Worker, and capture again for a shorter time."],
  [10508, "Capture again: another metal will be chosen."],
  [10510, "Capture again, for a shorter time."],
]);

/** What to do about it: one sentence. */
export function nextStep(code: number, status: number): string {
  const known = NEXT.get(code);
  if (known !== undefined) return known;
  if (status === 0) return "Check that the control plane runs and can be reached from here.";
  if (status === 429 || status >= 500) return "Try again in a few seconds.";
  return "Check what was asked for.";
}

/** The same for a session that ended badly, which has a reason instead of a code. */
export function nextStepOfReason(reason: string | null): string {
  return nextStep(CODE_OF.get(reason ?? "") ?? 0, 500);
}

const CODE_OF: ReadonlyMap<string, number> = new Map([
  ["no_recent_execution", 10393],
  ["not_loaded", 10394],
  ["runtime_unsupported", 10395],
  ["runtime_start_failed", 10396],
  ["dispatch_off", 10397],
  ["isolates_busy", 10398],
  ["account_quota", 10399],
  ["actor_inactive", 10400],
  ["session_cancelled", 10410],
  ["capture_stopped", 10411],
  ["store_unavailable", 10502],
  ["agent_unreachable", 10502],
  ["agent_restarted", 10503],
  ["target_exited", 10504],
  ["inspector_lost", 10505],
  ["deadline_passed", 10506],
  ["runtime_timeout", 10507],
  ["capture_lost", 10508],
  ["profile_too_large", 10510],
]);
