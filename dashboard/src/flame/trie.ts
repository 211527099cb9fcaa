/** Grows trees whose stacks are told one frame at a time, equal stacks falling together. */

import { at, type Columns, grow, type Tree } from "./tree";

/** A tree under construction; node 0 is the root. */
export class Trie {
  private readonly fns: number[] = [-1];
  private readonly parents: number[] = [-1];
  private readonly selves: number[] = [0];
  private readonly counts: number[] = [0];
  private readonly known: Map<number, number>[] = [];

  /** The child of a node for a function, made when it is new. */
  child(parent: number, fn: number): number {
    let children = this.known[parent];
    if (children === undefined) {
      children = new Map();
      this.known[parent] = children;
    }
    const found = children.get(fn);
    if (found !== undefined) return found;
    const made = this.fns.length;
    this.fns.push(fn);
    this.parents.push(parent);
    this.selves.push(0);
    this.counts.push(0);
    children.set(fn, made);
    return made;
  }

  add(node: number, self: number, samples: number): void {
    this.selves[node] = at(this.selves, node) + self;
    this.counts[node] = at(this.counts, node) + samples;
  }

  /** Lay it out, dearest children first. `place[node of the trie]` is its node in the tree. */
  grow(): { tree: Tree; place: Int32Array } {
    const size = this.fns.length;
    const totals = Float64Array.from(this.selves);
    // A child is always made after its parent.
    for (let node = size - 1; node > 0; node--) {
      const parent = at(this.parents, node);
      totals[parent] = at(totals, parent) + at(totals, node);
    }
    const level: number[] = [];
    const fn: number[] = [];
    const self: number[] = [];
    const samples: number[] = [];
    const place = new Int32Array(size);
    const waiting: [node: number, level: number][] = [[0, -1]];
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [node, depth] = next;
      if (node > 0) {
        level.push(depth);
        fn.push(at(this.fns, node));
        self.push(at(this.selves, node));
        samples.push(at(this.counts, node));
        place[node] = level.length;
      }
      const children = [...(this.known[node]?.values() ?? [])];
      children.sort((a, b) => at(totals, a) - at(totals, b) || b - a);
      for (const child of children) waiting.push([child, depth + 1]);
    }
    const columns: Columns = { level, fn, self, samples };
    return { tree: grow(columns), place };
  }
}
