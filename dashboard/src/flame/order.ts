/** Rows of the table and their order, which by default is that of the API's `top`. */

import type { Functions } from "./profile";
import type { Sums } from "./sums";
import { at } from "./tree";

export type Column = "name" | "self" | "total" | "samples";

/** Functions that stand in the tree and are not left out, in order. */
export function rowsOf(
  functions: Functions,
  sums: Sums,
  without: Uint8Array,
  by: Column,
  descending: boolean,
): Int32Array {
  const rows: number[] = [];
  for (let fn = 0; fn < functions.count; fn++)
    if (at(sums.present, fn) === 1 && at(without, fn) === 0) rows.push(fn);
  const first = comparison(functions, sums, by);
  const sign = descending ? -1 : 1;
  rows.sort((a, b) => sign * first(a, b) || usual(functions, sums, a, b));
  return Int32Array.from(rows);
}

type Compare = (a: number, b: number) => number;

function comparison(functions: Functions, sums: Sums, by: Column): Compare {
  if (by === "name") return (a, b) => compareText(functions.name[a] ?? "", functions.name[b] ?? "");
  const values = sums[by];
  return (a, b) => at(values, a) - at(values, b);
}

function usual(functions: Functions, sums: Sums, a: number, b: number): number {
  return (
    at(sums.self, b) - at(sums.self, a) ||
    at(sums.total, b) - at(sums.total, a) ||
    compareText(functions.name[a] ?? "", functions.name[b] ?? "") ||
    compareText(functions.file[a] ?? "", functions.file[b] ?? "") ||
    at(functions.line, a) - at(functions.line, b)
  );
}

/** By code points, as the API orders: `<` would go by UTF-16 and place emoji before U+FF00. */
export function compareText(one: string, other: string): number {
  const length = Math.min(one.length, other.length);
  for (let index = 0; index < length; index++) {
    if (one.charCodeAt(index) === other.charCodeAt(index)) continue;
    // The same first half of a pair before: then the second halves are in order as they are.
    return (one.codePointAt(index) ?? 0) - (other.codePointAt(index) ?? 0);
  }
  return one.length - other.length;
}
