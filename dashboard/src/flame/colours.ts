/** Colours of boxes. Text on any of them is dark, in both themes, at 4.5:1 or better. */

import type { Functions, Kind } from "./profile";

export type Theme = "light" | "dark";
export type Colouring = "package" | "kind";

/** Text drawn on boxes. */
export const INK = "#16181d";

/** Red, green and blue, 0..255. */
export type Rgb = readonly [number, number, number];

/** One pixel as ImageData holds it on the machines there are: little-endian RGBA. */
export function pixel([red, green, blue]: Rgb): number {
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** A colour for each function, by what it belongs to; entry 0 is the root's, function f is f+1. */
export function colourAll(functions: Functions, by: Colouring, theme: Theme): Uint32Array {
  const colours = new Uint32Array(functions.count + 1);
  colours[0] = pixel(ROOT[theme]);
  for (let fn = 0; fn < functions.count; fn++)
    colours[fn + 1] = pixel(colourOf(functions, fn, by, theme));
  return colours;
}

/** The same colours, faded towards the background: what a search did not find. */
export function fade(colours: Uint32Array, theme: Theme): Uint32Array {
  const [red, green, blue] = PAPER[theme];
  const share = theme === "light" ? 0.25 : 0.2;
  return colours.map((colour) =>
    pixel([
      mix(colour & 255, red, share),
      mix((colour >> 8) & 255, green, share),
      mix((colour >> 16) & 255, blue, share),
    ]),
  );
}

/** What a function belongs to: a package, else its file, else what runs it. */
export function packageOf(file: string, kind: Kind): string {
  const packages = [...file.matchAll(/node_modules\/((?:@[^/]+\/)?[^/]+)/g)];
  const innermost = packages[packages.length - 1]?.[1];
  if (innermost !== undefined) return innermost;
  return kind === "own" || kind === "library" ? file : KIND_NAME[kind];
}

export const KIND_NAME: Record<Kind, string> = {
  own: "your code",
  library: "libraries",
  native: "native",
  runtime: "runtime",
  idle: "idle",
  gc: "garbage collection",
  program: "program",
  mark: "cut or filtered",
};

/** A colour for people to find a kind by, as CSS. */
export function kindSwatch(kind: Kind, theme: Theme): string {
  return css(kindColour(kind, theme));
}

function colourOf(functions: Functions, fn: number, by: Colouring, theme: Theme): Rgb {
  const kind = functions.kind[fn] ?? "own";
  if (by === "kind" || (kind !== "own" && kind !== "library")) return kindColour(kind, theme);
  const place = hash(packageOf(functions.file[fn] ?? "", kind));
  // Own code is warm, what came with it cool.
  const hue = kind === "own" ? 14 + (place % 9) * 5.5 : 150 + (place % 12) * 10;
  // Functions of one file differ a little, so that neighbours can be told apart.
  const shade = hash(functions.name[fn] ?? "") % 5;
  return hsl(hue, kind === "own" ? 82 : 52, LIGHT[theme] + (shade - 2) * 2.5);
}

const LIGHT: Record<Theme, number> = { light: 70, dark: 64 };
const ROOT: Record<Theme, Rgb> = { light: [203, 209, 218], dark: [139, 148, 163] };
const PAPER: Record<Theme, Rgb> = { light: [255, 255, 255], dark: [22, 25, 31] };

function kindColour(kind: Kind, theme: Theme): Rgb {
  const light = LIGHT[theme];
  switch (kind) {
    case "own":
      return hsl(30, 82, light);
    case "library":
      return hsl(205, 55, light);
    case "native":
      return hsl(265, 34, light + 3);
    case "gc":
      return hsl(345, 45, light);
    case "idle":
    case "mark":
      return hsl(215, 10, light + 12);
    case "runtime":
    case "program":
      return hsl(215, 14, light + 1);
  }
}

function css([red, green, blue]: Rgb): string {
  return `rgb(${red} ${green} ${blue})`;
}

/** Convert hue (degrees), saturation and lightness (percent). */
export function hsl(hue: number, saturation: number, lightness: number): Rgb {
  const light = lightness / 100;
  const strength = (saturation / 100) * Math.min(light, 1 - light);
  const part = (offset: number): number => {
    const turn = (offset + hue / 30) % 12;
    return Math.round(255 * (light - strength * Math.max(-1, Math.min(turn - 3, 9 - turn, 1))));
  };
  return [part(0), part(8), part(4)];
}

function mix(one: number, other: number, share: number): number {
  return Math.round(one * share + other * (1 - share));
}

function hash(text: string): number {
  let sum = 7;
  for (let index = 0; index < Math.min(text.length, 200); index++)
    sum = Math.imul(sum, 31) + text.charCodeAt(index);
  return (sum ^ (sum >>> 15)) >>> 0;
}
