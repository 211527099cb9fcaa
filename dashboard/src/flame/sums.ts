/** What each function costs, over all the places it stands in. */

import { at, type Tree } from "./tree";

export interface Sums {
  readonly self: Float64Array;
  /** Each stack once, however often the function recurs in it. */
  readonly total: Float64Array;
  /** Samples in which the function was innermost. */
  readonly samples: Float64Array;
  /** 1 where the function stands anywhere in the tree. */
  readonly present: Uint8Array;
}

/** Add a tree up by function. `functions` is how many there are. */
export function sumsOf(tree: Tree, functions: number): Sums {
  const sums: Sums = {
    self: new Float64Array(functions),
    total: new Float64Array(functions),
    samples: new Float64Array(functions),
    present: new Uint8Array(functions),
  };
  // Until where the outermost open call of each function reaches.
  const covered = new Int32Array(functions);
  for (let node = 1; node < tree.size; node++) {
    const fn = at(tree.fn, node);
    sums.present[fn] = 1;
    sums.self[fn] = at(sums.self, fn) + at(tree.self, node);
    sums.samples[fn] = at(sums.samples, fn) + at(tree.samples, node);
    if (node >= at(covered, fn)) {
      covered[fn] = at(tree.end, node);
      sums.total[fn] = at(sums.total, fn) + at(tree.total, node);
    }
  }
  return sums;
}

/** Sum of the parts of a tree where any of the chosen functions runs, each stack counted once. */
export function coveredBy(tree: Tree, chosen: Uint8Array): number {
  let sum = 0;
  for (let node = 1; node < tree.size; ) {
    if (at(chosen, at(tree.fn, node)) === 1) {
      sum += at(tree.total, node);
      node = at(tree.end, node);
    } else node++;
  }
  return sum;
}

/** The outermost calls of one function. */
export function outermost(tree: Tree, fn: number): number[] {
  const found: number[] = [];
  for (let node = 1; node < tree.size; ) {
    if (at(tree.fn, node) === fn) {
      found.push(node);
      node = at(tree.end, node);
    } else node++;
  }
  return found;
}
