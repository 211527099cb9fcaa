/** The address is the state: where one is, and how one looks at it. */

import { useCallback, useMemo, useSyncExternalStore } from "react";

/** Path and query of the page. */
export interface Place {
  readonly path: string;
  readonly query: URLSearchParams;
}

const MOVED = "isoprof:moved";

/** Go to an address of this page; in place of the one now when it only looks different. */
export function go(href: string, how: "push" | "replace" = "push"): void {
  if (how === "push") history.pushState(null, "", href);
  else history.replaceState(null, "", href);
  window.dispatchEvent(new Event(MOVED));
  if (how === "push" && !href.startsWith("?")) window.scrollTo(0, 0);
}

export function usePlace(): Place {
  const href = useSyncExternalStore(subscribe, hrefNow);
  return useMemo(() => {
    const url = new URL(href, window.location.origin);
    return { path: url.pathname, query: url.searchParams };
  }, [href]);
}

/** One value of the query; an empty one leaves the address. */
export function useQuery(
  name: string,
): [string, (value: string, how?: "push" | "replace") => void] {
  const { query } = usePlace();
  const set = useCallback(
    (value: string, how: "push" | "replace" = "replace") => setQuery({ [name]: value }, how),
    [name],
  );
  return [query.get(name) ?? "", set];
}

/** Change several values of the query at once. */
export function setQuery(values: Record<string, string>, how: "push" | "replace"): void {
  const query = new URLSearchParams(window.location.search);
  for (const [name, value] of Object.entries(values))
    if (value === "") query.delete(name);
    else query.set(name, value);
  const text = query.toString();
  const href = window.location.pathname + (text === "" ? "" : `?${text}`);
  if (href !== window.location.pathname + window.location.search) go(href, how);
}

function subscribe(moved: () => void): () => void {
  window.addEventListener("popstate", moved);
  window.addEventListener(MOVED, moved);
  return () => {
    window.removeEventListener("popstate", moved);
    window.removeEventListener(MOVED, moved);
  };
}

function hrefNow(): string {
  return window.location.pathname + window.location.search;
}
