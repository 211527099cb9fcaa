/** One function seen from both sides: who calls it, and what it calls. */

import { outermost } from "./sums";
import { at, type Tree } from "./tree";
import { Trie } from "./trie";

export interface Sandwich {
  /** The function at level 1, its callers above one another from there. */
  readonly callers: Tree;
  /** The function at level 1, all it called below. */
  readonly callees: Tree;
}

/** Merge all outermost calls of a function: recursion inside it counts once. */
export function sandwich(tree: Tree, fn: number): Sandwich {
  const calls = outermost(tree, fn);
  return { callers: callersOf(tree, fn, calls), callees: calleesOf(tree, fn, calls) };
}

function callersOf(tree: Tree, fn: number, calls: readonly number[]): Tree {
  const trie = new Trie();
  for (const call of calls) {
    let here = trie.child(0, fn);
    for (let above = at(tree.parent, call); above > 0; above = at(tree.parent, above))
      here = trie.child(here, at(tree.fn, above));
    // All of the call's value stands at the far end of its way up: that widens the whole way.
    trie.add(here, at(tree.total, call), 0);
  }
  return trie.grow().tree;
}

function calleesOf(tree: Tree, fn: number, calls: readonly number[]): Tree {
  const trie = new Trie();
  const top = trie.child(0, fn);
  const made = new Map<number, number>();
  for (const call of calls) {
    made.clear();
    made.set(call, top);
    trie.add(top, at(tree.self, call), at(tree.samples, call));
    for (let node = call + 1; node < at(tree.end, call); node++) {
      const above = made.get(at(tree.parent, node)) as number;
      const here = trie.child(above, at(tree.fn, node));
      trie.add(here, at(tree.self, node), at(tree.samples, node));
      made.set(node, here);
    }
  }
  return trie.grow().tree;
}
