/**
 * A call tree as flat arrays over its nodes in preorder, laid out along one axis of value.
 *
 * Node 0 is the whole profile; every other node is one function called from one place. Callers
 * come before what they call. Values are in the profile's unit, levels count from 0 at the root.
 */

/** What a tree is grown from: nodes in preorder, level 0 being the outermost calls. */
export interface Columns {
  readonly level: ArrayLike<number>;
  readonly fn: ArrayLike<number>;
  readonly self: ArrayLike<number>;
  readonly samples: ArrayLike<number>;
}

export interface Tree {
  /** How many nodes there are, the root included. */
  readonly size: number;
  /** Function of each node; ALL for the root. */
  readonly fn: Int32Array;
  readonly level: Int32Array;
  /** Caller of each node; -1 for the root. */
  readonly parent: Int32Array;
  /** One past the last node of each node's subtree. */
  readonly end: Int32Array;
  readonly self: Float64Array;
  readonly total: Float64Array;
  /** Samples in which the node was the innermost frame. */
  readonly samples: Float64Array;
  /** Where each node's box begins, in value. */
  readonly x: Float64Array;
  /** How wide its box is: its total, but for parts below zero, which have no width. */
  readonly width: Float64Array;
  /** Nodes by level, left to right within one. */
  readonly order: Int32Array;
  /** Where each level begins in `order`; one more entry than there are levels. */
  readonly levelStart: Int32Array;
  /** How many levels, from the root, hold anything that has a width. */
  readonly shownLevels: number;
  /** Sum of the values below zero, which no box can show. */
  readonly negative: number;
}

/** The root's function. */
export const ALL = -1;

/** Lay a tree out. The columns must be in preorder; see `checkColumns`. */
export function grow(columns: Columns): Tree {
  const size = columns.level.length + 1;
  const fn = new Int32Array(size);
  const level = new Int32Array(size);
  const parent = new Int32Array(size);
  const end = new Int32Array(size);
  const self = new Float64Array(size);
  const total = new Float64Array(size);
  const samples = new Float64Array(size);
  const x = new Float64Array(size);
  const width = new Float64Array(size);
  fn[0] = ALL;
  parent[0] = -1;

  let negative = 0;
  let depth = 0;
  const open: number[] = [0];
  for (let node = 1; node < size; node++) {
    const here = at(columns.level, node - 1) + 1;
    // Whatever is at this level or below has ended.
    for (let above = open.length - 1; above >= here; above--) end[at(open, above)] = node;
    open.length = here;
    level[node] = here;
    parent[node] = at(open, here - 1);
    open.push(node);
    fn[node] = at(columns.fn, node - 1);
    const value = at(columns.self, node - 1);
    self[node] = value;
    total[node] = value;
    samples[node] = at(columns.samples, node - 1);
    if (value > 0) width[node] = value;
    else negative += value;
    if (here > depth) depth = here;
  }
  for (const node of open) end[node] = size;

  for (let node = size - 1; node > 0; node--) {
    const above = at(parent, node);
    total[above] = at(total, above) + at(total, node);
    width[above] = at(width, above) + at(width, node);
  }
  // Children stand from their caller's left edge on; what is left on the right is its own time.
  const next = new Float64Array(size);
  for (let node = 1; node < size; node++) {
    const above = at(parent, node);
    const left = at(next, above);
    x[node] = left;
    next[node] = left;
    next[above] = left + at(width, node);
  }

  let shownLevels = 1;
  for (let node = 1; node < size; node++)
    if (at(width, node) > 0 && at(level, node) >= shownLevels) shownLevels = at(level, node) + 1;

  const levelStart = new Int32Array(depth + 2);
  for (let node = 0; node < size; node++) {
    const below = at(level, node) + 1;
    levelStart[below] = at(levelStart, below) + 1;
  }
  for (let one = 1; one < levelStart.length; one++)
    levelStart[one] = at(levelStart, one) + at(levelStart, one - 1);
  const order = new Int32Array(size);
  const filled = levelStart.slice();
  for (let node = 0; node < size; node++) {
    const here = at(level, node);
    const place = at(filled, here);
    order[place] = node;
    filled[here] = place + 1;
  }
  return {
    size,
    fn,
    level,
    parent,
    end,
    self,
    total,
    samples,
    x,
    width,
    order,
    levelStart,
    shownLevels,
    negative,
  };
}

/** Say what is wrong with columns from outside; empty when they make a tree. */
export function checkColumns(columns: Columns, functions: number): string {
  const { level, fn, self, samples } = columns;
  if (fn.length !== level.length || self.length !== level.length || samples.length !== level.length)
    return "its columns differ in length";
  let before = -1;
  for (let node = 0; node < level.length; node++) {
    const here = at(level, node);
    if (!Number.isInteger(here) || here < 0 || here > before + 1)
      return `node ${node} stands at level ${here} after level ${before}`;
    const callee = at(fn, node);
    if (!Number.isInteger(callee) || callee < 0 || callee >= functions)
      return `node ${node} names function ${callee} of ${functions}`;
    if (!Number.isFinite(at(self, node)) || !Number.isFinite(at(samples, node)))
      return `node ${node} has no number for a value`;
    before = here;
  }
  return "";
}

/** How many levels of frames there are below the root. */
export function depthOf(tree: Tree): number {
  return tree.levelStart.length - 2;
}

/** The node and its callers, outermost first, the root left out. */
export function pathOf(tree: Tree, node: number): number[] {
  const path: number[] = [];
  for (let one = node; one > 0; one = at(tree.parent, one)) path.push(one);
  return path.reverse();
}

/** Direct children, left to right. */
export function childrenOf(tree: Tree, node: number): number[] {
  const found: number[] = [];
  for (let child = node + 1; child < at(tree.end, node); child = at(tree.end, child))
    found.push(child);
  return found;
}

/** Read an index that is known to be there. */
export function at(values: ArrayLike<number>, index: number): number {
  return values[index] as number;
}
