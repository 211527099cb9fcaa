/**
 * Boxes as pixels: one line of pixels per level, which the painter copies down to a row's height.
 *
 * The cost of a line is bounded by its pixels, not by the tree: nodes of one level stand left to
 * right, so whatever is narrower than a pixel is jumped over by bisection.
 */

import { at, type Tree } from "./tree";

/** The stretch of value that is shown. */
export interface Window {
  readonly from: number;
  readonly to: number;
}

/** A box wide enough for a label. */
export interface Label {
  readonly node: number;
  readonly row: number;
  /** First pixel, and how many. */
  readonly left: number;
  readonly width: number;
}

export interface Picture {
  /** Colours, `width` per row; 0 where there is no box. */
  readonly pixels: Uint32Array;
  readonly labels: Label[];
}

export interface Canvas {
  /** Pixels of the device in a row, and rows. */
  readonly width: number;
  readonly rows: number;
  /** Level that a row shows; below 0 when none. */
  readonly levelOf: (row: number) => number;
  /** Narrowest box that gets a label. */
  readonly labelFrom: number;
  /** Pixels kept free at the right of a box. */
  readonly gap: number;
}

/** Draw the visible levels. */
export function rasterise(
  tree: Tree,
  window: Window,
  canvas: Canvas,
  colourOf: (node: number) => number,
): Picture {
  const { width, rows } = canvas;
  const pixels = new Uint32Array(width * rows);
  const labels: Label[] = [];
  const span = window.to - window.from;
  if (span <= 0) return { pixels, labels };
  const scale = width / span;
  for (let row = 0; row < rows; row++) {
    const level = canvas.levelOf(row);
    if (level < 0 || level >= tree.levelStart.length - 1) continue;
    const line = pixels.subarray(row * width, (row + 1) * width);
    drawLevel(tree, level, window, scale, canvas, row, line, labels, colourOf);
  }
  return { pixels, labels };
}

function drawLevel(
  tree: Tree,
  level: number,
  window: Window,
  scale: number,
  canvas: Canvas,
  row: number,
  line: Uint32Array,
  labels: Label[],
  colourOf: (node: number) => number,
): void {
  const last = at(tree.levelStart, level + 1);
  let place = firstEnding(tree, level, window.from);
  while (place < last) {
    const node = at(tree.order, place);
    const x = at(tree.x, node);
    if (x >= window.to) break;
    const begin = (x - window.from) * scale;
    const finish = begin + at(tree.width, node) * scale;
    const left = Math.max(0, Math.round(begin));
    const right = Math.min(canvas.width, Math.round(finish));
    if (right - left < 2) {
      // Too narrow to be told apart: one pixel, and on to what begins beyond it.
      const pixel = Math.min(canvas.width - 1, Math.max(0, Math.floor(begin)));
      if (at(tree.width, node) > 0 && line[pixel] === 0) line[pixel] = colourOf(node);
      const beyond = window.from + (pixel + 1) / scale;
      place =
        x + at(tree.width, node) >= beyond
          ? place + 1
          : firstEndingAfter(tree, place, last, beyond);
      continue;
    }
    const painted =
      right - left > 2 + canvas.gap && right < canvas.width ? right - canvas.gap : right;
    line.fill(colourOf(node), left, painted);
    if (right - left >= canvas.labelFrom) labels.push({ node, row, left, width: painted - left });
    place++;
  }
}

/** Place in `order` of the level's first node that reaches beyond `value`. */
export function firstEnding(tree: Tree, level: number, value: number): number {
  return firstEndingAfter(tree, at(tree.levelStart, level), at(tree.levelStart, level + 1), value);
}

function firstEndingAfter(tree: Tree, from: number, to: number, value: number): number {
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const node = at(tree.order, middle);
    if (at(tree.x, node) + at(tree.width, node) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** The node of a level that covers a value; -1 when there is none. */
export function nodeAt(tree: Tree, level: number, value: number): number {
  if (level < 0 || level >= tree.levelStart.length - 1) return -1;
  const place = firstEnding(tree, level, value);
  if (place >= at(tree.levelStart, level + 1)) return -1;
  const node = at(tree.order, place);
  return at(tree.x, node) <= value ? node : -1;
}

/** The neighbour of a node on its level, `step` places on; -1 beyond the ends. */
export function neighbour(tree: Tree, node: number, step: number): number {
  const level = at(tree.level, node);
  const from = at(tree.levelStart, level);
  const to = at(tree.levelStart, level + 1);
  // Nodes of a level are in preorder, so they can be bisected by their number too.
  let low = from;
  let high = to;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (at(tree.order, middle) < node) low = middle + 1;
    else high = middle;
  }
  const place = low + step;
  return place >= from && place < to ? at(tree.order, place) : -1;
}
