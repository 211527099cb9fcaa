/** Trees made of a tree: without some functions, without recursion. */

import { at, type Tree } from "./tree";
import { Trie } from "./trie";

export interface Reshaped {
  readonly tree: Tree;
  /** For each node of the tree before, its node here; for one left out, that of its caller. */
  readonly image: Int32Array;
  /** For each node here, one it was made from. */
  readonly source: Int32Array;
  /** Value that is not in this tree any more. */
  readonly hidden: number;
}

export interface Wish {
  /** 1 for every function to leave out. What these called moves up to their caller. */
  readonly without: Uint8Array;
  /** Calls of a function by itself become one. */
  readonly collapse: boolean;
}

/** Reshape a tree; what it leaves out is told, never spread over the rest. */
export function reshape(tree: Tree, wish: Wish): Reshaped {
  const trie = new Trie();
  const made = new Int32Array(tree.size);
  let hidden = 0;
  for (let node = 1; node < tree.size; node++) {
    const fn = at(tree.fn, node);
    const above = at(made, at(tree.parent, node));
    if (at(wish.without, fn) === 1) {
      hidden += at(tree.self, node);
      made[node] = above;
      continue;
    }
    const parent = at(tree.parent, node);
    const again = wish.collapse && above > 0 && callsItself(tree, wish, parent, fn);
    const here = again ? above : trie.child(above, fn);
    trie.add(here, at(tree.self, node), at(tree.samples, node));
    made[node] = here;
  }
  const grown = trie.grow();
  const image = new Int32Array(tree.size);
  const source = new Int32Array(grown.tree.size).fill(-1);
  for (let node = 0; node < tree.size; node++) {
    const here = at(grown.place, at(made, node));
    image[node] = here;
    const shown = node === 0 || at(wish.without, at(tree.fn, node)) === 0;
    if (shown && at(source, here) === -1) source[here] = node;
  }
  return { tree: grown.tree, image, source, hidden };
}

/** Whether the nearest caller that is not left out is the same function. */
function callsItself(tree: Tree, wish: Wish, parent: number, fn: number): boolean {
  let caller = parent;
  while (caller > 0 && at(wish.without, at(tree.fn, caller)) === 1)
    caller = at(tree.parent, caller);
  return caller > 0 && at(tree.fn, caller) === fn;
}
