/** Names of nodes and functions for links: they hold for the same profile whatever is hidden. */

import { type Functions, identity } from "./profile";
import { at, pathOf, type Tree } from "./tree";

/** One 32-bit number per function, from what identifies it. */
export function functionHashes(functions: Functions): Uint32Array {
  const hashes = new Uint32Array(functions.count);
  for (let fn = 0; fn < functions.count; fn++) hashes[fn] = hashText(identity(functions, fn));
  return hashes;
}

/** Key of a function. */
export function functionKey(hashes: Uint32Array, fn: number): string {
  return at(hashes, fn).toString(36);
}

/** The function of a key; -1 when this profile has none. */
export function functionOf(hashes: Uint32Array, key: string): number {
  const wanted = Number.parseInt(key, 36);
  return Number.isNaN(wanted) ? -1 : hashes.indexOf(wanted);
}

/** Key of a node: of the whole way to it. */
export function nodeKey(tree: Tree, hashes: Uint32Array, node: number): string {
  let high = SEED_HIGH;
  let low = SEED_LOW;
  for (const one of pathOf(tree, node)) {
    const hash = at(hashes, at(tree.fn, one));
    high = step(high, hash);
    low = step(low, ~hash);
  }
  return joined(high, low).toString(36);
}

/** The node of a key; -1 when this tree has none. */
export function nodeOf(tree: Tree, hashes: Uint32Array, key: string): number {
  const wanted = Number.parseInt(key, 36);
  const high = new Uint32Array(tree.size);
  const low = new Uint32Array(tree.size);
  high[0] = SEED_HIGH;
  low[0] = SEED_LOW;
  for (let node = 1; node < tree.size; node++) {
    const above = at(tree.parent, node);
    const hash = at(hashes, at(tree.fn, node));
    high[node] = step(at(high, above), hash);
    low[node] = step(at(low, above), ~hash);
    if (joined(at(high, node), at(low, node)) === wanted) return node;
  }
  return -1;
}

const SEED_HIGH = 0x811c9dc5;
const SEED_LOW = 0x01234567;

function step(state: number, hash: number): number {
  const mixed = Math.imul(state ^ hash, 0x9e3779b1);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}

/** 53 bits: what a number holds exactly. */
function joined(high: number, low: number): number {
  return (high % 0x200000) * 0x100000000 + low;
}

function hashText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index++)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x01000193);
  return (hash ^ (hash >>> 13)) >>> 0;
}
