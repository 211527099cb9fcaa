/** Puts a picture onto a canvas: lines of pixels, then labels. */

import type { Picture } from "./raster";
import { type Fitting, plain } from "./text";

export interface Measures {
  /** Device pixels per CSS pixel. */
  readonly ratio: number;
  /** Height of a row, in device pixels, its gap included. */
  readonly rowHeight: number;
  /** Where the first row begins, in device pixels: negative when it is partly scrolled away. */
  readonly offset: number;
}

/** Copy every line down to its row's height. */
export function spread(
  picture: Picture,
  width: number,
  image: Uint32Array,
  height: number,
  measures: Measures,
): void {
  const rows = picture.pixels.length / width;
  for (let row = 0; row < rows; row++) {
    const line = picture.pixels.subarray(row * width, (row + 1) * width);
    const top = Math.max(0, measures.offset + row * measures.rowHeight);
    // The last pixel of a row stays free: it is what parts it from the next.
    const bottom = Math.min(height, measures.offset + (row + 1) * measures.rowHeight - 1);
    for (let y = top; y < bottom; y++) image.set(line, y * width);
  }
}

/** Draw the labels. `nameOf` gives the name of a node. */
export function write(
  context: CanvasRenderingContext2D,
  picture: Picture,
  measures: Measures,
  fitting: Fitting,
  nameOf: (node: number) => string,
  faded: (node: number) => boolean,
  inks: Inks,
): void {
  const pad = 4 * measures.ratio;
  context.textBaseline = "middle";
  context.direction = "ltr";
  for (const label of picture.labels) {
    const text = fitting.fit(plain(nameOf(label.node)), label.width - 2 * pad);
    if (text === "") continue;
    const middle = measures.offset + (label.row + 0.5) * measures.rowHeight;
    context.fillStyle = faded(label.node) ? inks.faded : inks.ink;
    context.fillText(text, label.left + pad, middle);
  }
}

/** Colours of labels, on boxes as they are and on faded ones. */
export interface Inks {
  readonly ink: string;
  readonly faded: string;
}
