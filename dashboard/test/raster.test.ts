import { describe, expect, test } from "vitest";
import { colourAll, fade, hsl, INK, packageOf, pixel } from "../src/flame/colours";
import { spread } from "../src/flame/paint";
import { neighbour, nodeAt, type Picture, rasterise } from "../src/flame/raster";
import { Fitting, plain } from "../src/flame/text";
import { grow, type Tree } from "../src/flame/tree";
import { profileOf } from "./trees";

const TREE = profileOf([
  { at: "a", self: 25 },
  { at: "a b", self: 25 },
  { at: "c", self: 50 },
]).tree;

function drawn(tree: Tree, from: number, to: number, width: number, rows: number): Picture {
  const canvas = { width, rows, levelOf: (row: number) => row, labelFrom: 3, gap: 0 };
  return rasterise(tree, { from, to }, canvas, (node) => node + 1);
}

function row(picture: Picture, width: number, index: number): number[] {
  return [...picture.pixels.subarray(index * width, (index + 1) * width)];
}

describe("raster", () => {
  test("boxes stand where their value does", () => {
    const picture = drawn(TREE, 0, 100, 8, 3);
    expect(row(picture, 8, 0)).toEqual([1, 1, 1, 1, 1, 1, 1, 1]);
    expect(row(picture, 8, 1)).toEqual([2, 2, 2, 2, 4, 4, 4, 4]);
    expect(row(picture, 8, 2)).toEqual([3, 3, 0, 0, 0, 0, 0, 0]);
    expect(picture.labels.map(({ node, left, width }) => [node, left, width])).toEqual([
      [0, 0, 8],
      [1, 0, 4],
      [3, 4, 4],
    ]);
  });

  test("a window fills the width, callers across all of it", () => {
    const picture = drawn(TREE, 0, 25, 4, 3);
    expect(row(picture, 4, 0)).toEqual([1, 1, 1, 1]);
    expect(row(picture, 4, 2)).toEqual([3, 3, 3, 3]);
  });

  test("what is narrower than a pixel still leaves a mark, and costs no more than the pixels", () => {
    const count = 100_000;
    const zeros = new Array<number>(count).fill(0);
    const tree = grow({ level: zeros, fn: zeros, self: zeros.map(() => 1), samples: zeros });
    let asked = 0;
    const canvas = { width: 100, rows: 2, levelOf: (one: number) => one, labelFrom: 30, gap: 1 };
    const picture = rasterise(tree, { from: 0, to: count }, canvas, () => {
      asked++;
      return 9;
    });
    expect(row(picture, 100, 1)).toEqual(new Array(100).fill(9));
    expect(asked).toBeLessThan(300);
  });

  test("a profile of nothing draws nothing", () => {
    const tree = grow({ level: [], fn: [], self: [], samples: [] });
    expect(row(drawn(tree, 0, 0, 4, 2), 4, 0)).toEqual([0, 0, 0, 0]);
  });

  test("a million nodes are laid out and drawn", () => {
    const count = 1_000_000;
    const level = new Int32Array(count);
    const fn = new Int32Array(count);
    const self = new Float64Array(count);
    for (let node = 0; node < count; node++) {
      level[node] = node % 100;
      fn[node] = node % 977;
      self[node] = node % 3;
    }
    const tree = grow({ level, fn, self, samples: fn });
    expect(tree.total[0]).toBe(tree.width[0]);
    const picture = drawn(tree, 0, tree.width[0] ?? 0, 1280, 30);
    expect(row(picture, 1280, 1).filter((colour) => colour === 0)).toEqual([]);
  });

  test("the node under a point, and its neighbours", () => {
    expect(nodeAt(TREE, 1, 10)).toBe(1);
    expect(nodeAt(TREE, 1, 60)).toBe(3);
    expect(nodeAt(TREE, 2, 30)).toBe(-1);
    expect(nodeAt(TREE, 9, 30)).toBe(-1);
    expect(nodeAt(TREE, -1, 30)).toBe(-1);
    expect(neighbour(TREE, 1, 1)).toBe(3);
    expect(neighbour(TREE, 3, 1)).toBe(-1);
    expect(neighbour(TREE, 3, -1)).toBe(1);
  });

  test("lines are copied down to rows, a gap between them", () => {
    const image = new Uint32Array(2 * 7);
    const picture = { pixels: Uint32Array.from([5, 6, 7, 8]), labels: [] };
    spread(picture, 2, image, 7, { ratio: 1, rowHeight: 3, offset: -1 });
    expect([...image]).toEqual([5, 6, 0, 0, 7, 8, 7, 8, 0, 0, 0, 0, 0, 0]);
  });
});

describe("text", () => {
  const fitting = new Fitting((text) => text.length * 10);

  test("fits, is shortened, or is left out", () => {
    expect(fitting.fit("abc", 30)).toBe("abc");
    expect(fitting.fit("abcdef", 40)).toBe("abc…");
    expect(fitting.fit("abcdef", 20)).toBe("");
    expect(fitting.fit("", 20)).toBe("");
  });

  test("never cuts a character in two", () => {
    expect(fitting.fit("😀😀😀", 50)).toBe("😀😀…");
  });

  test("is one line that can't turn the text around it", () => {
    expect(plain("a\nb\u0000c\u202ed")).toBe("a\ufffdb\ufffdc\ufffdd");
    expect(plain("<img src=x onerror=alert(1)>")).toBe("<img src=x onerror=alert(1)>");
    expect(plain("x".repeat(10_000)).length).toBe(401);
  });
});

describe("colours", () => {
  const { functions } = profileOf([
    { at: "own@src/a.ts:1", self: 1 },
    { at: "lib@node_modules/@scope/pkg/x.js:1", self: 1 },
    { at: "JSON.parse", self: 1 },
    { at: "(program)", self: 1 },
    { at: "(idle)", self: 1 },
    { at: "(garbage collector)", self: 1 },
  ]);

  test.each(["light", "dark"] as const)("labels are readable on every box, %s", (theme) => {
    for (const by of ["package", "kind"] as const)
      for (const colour of colourAll(functions, by, theme))
        expect(contrast(rgbOf(colour), ink())).toBeGreaterThanOrEqual(4.5);
  });

  test.each([
    ["light", "#5b6470"],
    ["dark", "#b4bcc8"],
  ] as const)("and on faded ones, %s", (theme, text) => {
    for (const colour of fade(colourAll(functions, "package", theme), theme))
      expect(contrast(rgbOf(colour), hex(text))).toBeGreaterThanOrEqual(4.5);
  });

  test("a package is the innermost of a path", () => {
    expect(packageOf("node_modules/a/node_modules/@b/c/x.js", "library")).toBe("@b/c");
    expect(packageOf("src/x.ts", "own")).toBe("src/x.ts");
    expect(packageOf("", "gc")).toBe("garbage collection");
  });

  test("pixels and hues", () => {
    expect(pixel([1, 2, 3])).toBe(0xff030201);
    expect(hsl(0, 100, 50)).toEqual([255, 0, 0]);
    expect(hsl(120, 100, 50)).toEqual([0, 255, 0]);
  });
});

type Triple = [number, number, number];

function rgbOf(colour: number): Triple {
  return [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
}

function hex(text: string): Triple {
  return [1, 3, 5].map((at) => Number.parseInt(text.slice(at, at + 2), 16)) as Triple;
}

function ink(): Triple {
  return hex(INK);
}

function contrast(one: Triple, other: Triple): number {
  const [dark = 0, light = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (light + 0.05) / (dark + 0.05);
}

function luminance(rgb: Triple): number {
  const [red = 0, green = 0, blue = 0] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
