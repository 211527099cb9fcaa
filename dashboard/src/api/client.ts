/** Calls of the REST API: envelope in, result or Problem out. */

import type { Credentials } from "./credentials";
import { type FieldProblem, Problem } from "./problem";

const BASE = "/client/v4/accounts";

export interface Call {
  readonly method?: "GET" | "POST" | "DELETE";
  readonly body?: unknown;
  readonly query?: Readonly<Record<string, string | number | undefined>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

export interface Answer<Result> {
  readonly result: Result;
  /** Where the list goes on; empty at its end. */
  readonly cursor: string;
  readonly total: number;
}

/** Call a path below the account and read its envelope. */
export async function call<Result>(
  who: Credentials,
  path: string,
  how: Call = {},
): Promise<Answer<Result>> {
  const response = await send(who, path, how);
  const body = (await response.json()) as {
    result: Result;
    result_info?: { cursor?: string; total_count?: number };
  };
  const info = body.result_info;
  return { result: body.result, cursor: info?.cursor ?? "", total: info?.total_count ?? 0 };
}

/** Call a path below the account and hand over the answer, which went well. */
export async function send(who: Credentials, path: string, how: Call = {}): Promise<Response> {
  const headers: Record<string, string> = { Authorization: `Bearer ${who.token}`, ...how.headers };
  if (how.body !== undefined) headers["Content-Type"] = "application/json";
  const init: RequestInit = { method: how.method ?? "GET", headers };
  if (how.body !== undefined) init.body = JSON.stringify(how.body);
  if (how.signal !== undefined) init.signal = how.signal;
  let response: Response;
  try {
    response = await fetch(urlOf(who.account, path, how.query), init);
  } catch (error) {
    if (how.signal?.aborted === true) throw error;
    throw new Problem("The control plane does not answer.", 0, 0, "", null, "", []);
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

/** Address of a path below the account. */
export function urlOf(account: string, path: string, query: Call["query"] = {}): string {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== "") asked.set(name, String(value));
  const text = asked.toString();
  return `${BASE}/${encodeURIComponent(account)}${path}${text === "" ? "" : `?${text}`}`;
}

/** Path of a session below its account. */
export function sessionPath(id: string): string {
  return `/profile-sessions/${encodeURIComponent(id)}`;
}

async function problemOf(response: Response): Promise<Problem> {
  const requestId = response.headers.get("X-Request-Id") ?? "";
  const seconds = Number(response.headers.get("Retry-After") ?? Number.NaN);
  const retryAfterS = Number.isFinite(seconds) ? seconds : null;
  let errors: WireError[] = [];
  try {
    errors = ((await response.json()) as { errors?: WireError[] }).errors ?? [];
  } catch {
    // Something on the way answered in the API's place.
  }
  const first = errors[0];
  const fields: FieldProblem[] = errors.flatMap((error) =>
    error.source === undefined ? [] : [{ pointer: error.source.pointer, message: error.message }],
  );
  const message =
    first === undefined
      ? `The control plane answered with HTTP ${response.status}.`
      : errors.map((error) => error.message).join(" ");
  const documentation = first?.documentation_url ?? "";
  return new Problem(
    message,
    response.status,
    first?.code ?? 0,
    requestId,
    retryAfterS,
    documentation,
    fields,
  );
}

interface WireError {
  readonly code: number;
  readonly message: string;
  readonly documentation_url?: string;
  readonly source?: { readonly pointer: string };
}
