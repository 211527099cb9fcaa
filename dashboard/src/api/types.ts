/** Shapes of the REST API, as far as the dashboard reads them. */

export interface Worker {
  readonly id: string;
  readonly name: string;
  readonly created_on: string;
  readonly updated_on: string;
}

export interface Version {
  readonly id: string;
  readonly number: number;
  readonly created_on: string;
}

export type SessionState =
  | "queued"
  | "capturing"
  | "finishing"
  | "ready"
  | "failed"
  | "cancelled"
  | "expired";

export type ProfileType = "cpu" | "heap";

export interface Hold {
  readonly start_hold_us: number;
  readonly stop_hold_us: number;
  readonly gap_us: number;
  readonly sampled_us: number;
  readonly samples: number;
  readonly nodes: number;
}

export interface Capture {
  readonly n: number;
  readonly metal: string;
  readonly datacenter: string;
  readonly isolate: string;
  readonly state: string;
  readonly reason: string | null;
  readonly message: string;
  readonly sampled_ms: number;
  readonly samples: number | null;
  readonly lock_held_us: number | null;
  readonly holds: readonly Hold[];
  readonly truncated: string;
}

export interface Session {
  readonly id: string;
  readonly state: SessionState;
  readonly reason: string | null;
  readonly message: string;
  readonly origin: string;
  readonly worker: { readonly id: string; readonly name: string };
  readonly version: string;
  readonly profile_type: ProfileType;
  readonly duration_ms: number;
  readonly sampling_interval_us: number;
  readonly namespace_id: string | null;
  readonly actor_id: string | null;
  readonly actor_name: string | null;
  readonly datacenters: readonly string[];
  readonly isolates: {
    readonly asked: number;
    readonly taken: number;
    readonly live: number;
    readonly lost: number;
    /** Why there are fewer than were asked for; empty when there are not. */
    readonly fewer: string;
  };
  readonly labels: Readonly<Record<string, string>>;
  readonly created_at: string;
  readonly ended_at: string | null;
  /** When asking again can help, where that is known. */
  readonly retry_at: string | null;
  readonly captures: readonly Capture[];
  readonly profile: {
    readonly size: number;
    readonly sha256: string;
    readonly samples: number;
    readonly window_ms: number;
  } | null;
}

/** Whether it is still at work. */
export function isLive(session: Session): boolean {
  return ["queued", "capturing", "finishing"].includes(session.state);
}
