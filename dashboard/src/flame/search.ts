/** Which functions a search finds. */

import type { Functions } from "./profile";

export interface Found {
  /** 1 for every function that matches. */
  readonly matches: Uint8Array;
  readonly count: number;
  /** Why the search cannot be run; empty when it could. */
  readonly wrong: string;
}

/**
 * Find functions by name or file: text anywhere in either, upper and lower case alike, or a
 * regular expression between slashes.
 */
export function search(functions: Functions, text: string): Found {
  const matches = new Uint8Array(functions.count);
  const wanted = text.trim();
  if (wanted === "") return { matches, count: 0, wrong: "" };
  let fits: (candidate: string) => boolean;
  if (wanted.length > 2 && wanted.startsWith("/") && wanted.endsWith("/")) {
    try {
      const pattern = new RegExp(wanted.slice(1, -1), "iu");
      // Names reach 64 KiB, and a pattern can take time that grows with their square.
      fits = (candidate) => pattern.test(candidate.slice(0, LONGEST_FOR_PATTERNS));
    } catch {
      return { matches, count: 0, wrong: "This is not a regular expression." };
    }
  } else {
    const lower = wanted.toLowerCase();
    fits = (candidate) => candidate.toLowerCase().includes(lower);
  }
  let count = 0;
  for (let fn = 0; fn < functions.count; fn++) {
    if (fits(functions.name[fn] ?? "") || fits(functions.file[fn] ?? "")) {
      matches[fn] = 1;
      count++;
    }
  }
  return { matches, count, wrong: "" };
}

const LONGEST_FOR_PATTERNS = 1_000;
