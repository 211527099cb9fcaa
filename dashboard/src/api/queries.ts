/** Reads of the API as the views use them: cached by account and asked again while things move. */

import { queryOptions, type UseQueryResult, useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, useContext, useEffect, useState } from "react";
import { type Comparison, readComparison } from "../flame/comparison";
import { type Profile, readProfile } from "../flame/profile";
import { type Answer, call, send, sessionPath } from "./client";
import type { Credentials } from "./credentials";
import { follow } from "./events";
import type { Problem } from "./problem";
import { isLive, type Session, type Version, type Worker } from "./types";

/** Who is signed in; views stand below a provider of it. */
export const Who = createContext<Credentials | null>(null);

export function useWho(): Credentials {
  const who = useContext(Who);
  if (who === null) throw new Error("no one is signed in");
  return who;
}

const LIVE_MS = 500;
// While events come, asking is only for what they might have missed.
const HEARD_MS = 5_000;
const LIST_MS = 10_000;

export function useWorkers(page: number): UseQueryResult<Answer<Worker[]>, Problem> {
  const who = useWho();
  return useQuery({
    queryKey: [who.account, "workers", page],
    queryFn: ({ signal }) =>
      call<Worker[]>(who, "/workers/workers", { query: { page, per_page: 50 }, signal }),
    refetchInterval: LIST_MS,
  });
}

export function useVersions(worker: string): UseQueryResult<Answer<Version[]>, Problem> {
  const who = useWho();
  return useQuery({
    queryKey: [who.account, "versions", worker],
    queryFn: ({ signal }) =>
      call<Version[]>(who, `/workers/workers/${encodeURIComponent(worker)}/versions`, {
        query: { per_page: 50 },
        signal,
      }),
    enabled: worker !== "",
    refetchInterval: LIST_MS,
  });
}

export interface SessionFilter {
  readonly worker?: string | undefined;
  readonly state?: string | undefined;
  readonly cursor?: string | undefined;
}

export function useSessions(filter: SessionFilter): UseQueryResult<Answer<Session[]>, Problem> {
  const who = useWho();
  return useQuery({
    queryKey: [who.account, "sessions", filter.worker, filter.state, filter.cursor],
    queryFn: ({ signal }) =>
      call<Session[]>(who, "/profile-sessions", { query: { ...filter, limit: 50 }, signal }),
    refetchInterval: (query) => (query.state.data?.result.some(isLive) ? 2_000 : LIST_MS),
  });
}

/** A session, followed while it lives: by its events, and by asking where these do not come. */
export function useSession(id: string): UseQueryResult<Session, Problem> {
  const who = useWho();
  const [hearing, setHearing] = useState(false);
  const session = useQuery<Session, Problem>({
    queryKey: sessionKey(who, id),
    queryFn: async ({ signal }) => (await call<Session>(who, sessionPath(id), { signal })).result,
    enabled: id !== "",
    refetchInterval: (query) => {
      const { data, error } = query.state;
      if (data === undefined ? error !== null : !isLive(data)) return false;
      return hearing ? HEARD_MS : LIVE_MS;
    },
  });
  const live = session.data !== undefined && isLive(session.data);
  const cache = useQueryClient();
  useEffect(() => {
    if (!live) return;
    const stop = new AbortController();
    const heard = (): void => {
      setHearing(true);
      void cache.invalidateQueries({ queryKey: sessionKey(who, id) });
    };
    follow(who, id, heard, stop.signal)
      .catch(() => undefined)
      .finally(() => {
        if (stop.signal.aborted) return;
        setHearing(false);
        void cache.invalidateQueries({ queryKey: sessionKey(who, id) });
      });
    return () => stop.abort();
  }, [live, who, id, cache]);
  return session;
}

/** The profile of a session that is ready. It never changes, so it is read once. */
export function useProfile(id: string): UseQueryResult<Profile, Error> {
  return useQuery(profileOf(useWho(), id));
}

/** Begin to read a profile before it is known to be there; when it is not, nothing happens. */
export function useProfileAhead(id: string, wanted: boolean): void {
  const who = useWho();
  const cache = useQueryClient();
  useEffect(() => {
    if (wanted) void cache.prefetchQuery({ ...profileOf(who, id), retry: false });
  }, [cache, who, id, wanted]);
}

function profileOf(who: Credentials, id: string) {
  return queryOptions({
    queryKey: [who.account, "profile", id],
    queryFn: async ({ signal }) => {
      const query = { format: "flamegraph" };
      const response = await send(who, `${sessionPath(id)}/profile`, { query, signal });
      return readProfile(await response.json());
    },
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
    structuralSharing: false,
  });
}

/** A profile against another; neither ever changes. `by`: what the two are made equal in first. */
export function useComparison(
  id: string,
  base: string,
  by: "window" | "total",
): UseQueryResult<Comparison, Error> {
  const who = useWho();
  return useQuery({
    queryKey: [who.account, "diff", id, base, by],
    queryFn: async ({ signal }) => {
      const path = `${sessionPath(id)}/diff/${encodeURIComponent(base)}`;
      const query = { format: "flamegraph", normalize: by };
      const response = await send(who, path, { query, signal });
      return readComparison(await response.json());
    },
    staleTime: Number.POSITIVE_INFINITY,
    structuralSharing: false,
  });
}

export function sessionKey(who: Credentials, id: string): readonly string[] {
  return [who.account, "session", id];
}
