import { describe, expect, test } from "vitest";
import { Blocks } from "../src/api/events";
import { INK } from "../src/flame/colours";
import { change, changeColour, changePixels, readComparison } from "../src/flame/comparison";
import { documentOf } from "./trees";

const NODES = [
  { at: "fetch", self: 10 },
  { at: "fetch slow", self: 0 },
  { at: "fetch quick", self: 20 },
];

function document(): Record<string, unknown> {
  const whole = documentOf(NODES);
  const nodes = whole["nodes"] as Record<string, number[]>;
  nodes["base_self"] = [5, 40, 0];
  nodes["base_samples"] = [1, 4, 0];
  const functions = whole["functions"] as Record<string, unknown>;
  functions["status"] = ["changed", "gone", "new"];
  return { ...whole, diff: { normalize: "total", scale: 2 } };
}

describe("comparison", () => {
  test("has both sides on one tree, the first scaled", () => {
    const both = readComparison(document());
    expect([...both.after.tree.total]).toEqual([30, 30, 0, 20]);
    expect([...both.before.tree.total]).toEqual([90, 90, 80, 0]);
    expect(both.before.total).toBe(90);
    expect(both.measuredBefore).toBe(45);
    expect(both.status).toEqual(["changed", "gone", "new"]);
  });

  test.each([
    ["no other side", documentOf(NODES)],
    [
      "a short side",
      { ...document(), nodes: { ...(document()["nodes"] as object), base_self: [1] } },
    ],
    ["no statuses", { ...document(), functions: documentOf(NODES)["functions"] }],
  ])("refuses %s", (_, whole) => {
    expect(() => readComparison(whole)).toThrow("comparison");
  });

  test("a change goes from gone to new", () => {
    expect(change(10, 0)).toBe(-1);
    expect(change(0, 10)).toBe(1);
    expect(change(10, 10)).toBe(0);
    expect(change(10, 5)).toBe(-0.5);
    expect(change(0, 0)).toBe(0);
    expect(change(-5, 0)).toBe(0);
  });

  test.each(["light", "dark"] as const)("more and less differ to every eye, %s", (theme) => {
    const more = changeColour(1, theme);
    const less = changeColour(-1, theme);
    // Apart in blue, which the red-green blind see as everybody does.
    expect(less[2] - more[2]).toBeGreaterThan(120);
    expect(changeColour(0, theme)).not.toEqual(more);
    for (const share of [-1, -0.5, 0, 0.5, 1])
      expect(contrast(changeColour(share, theme))).toBeGreaterThanOrEqual(4.5);
  });

  test("nodes are coloured by their totals", () => {
    const { before, after } = readComparison(document());
    const pixels = changePixels(before.tree, after.tree, "light");
    expect(pixels).toHaveLength(4);
    expect(pixels[2]).not.toBe(pixels[3]);
  });
});

test("events are told when they are whole, comments are not", () => {
  const blocks = new Blocks();
  expect(blocks.take("retry: 2000\n\n")).toBe(false);
  expect(blocks.take("id: 1\nevent: state\nda")).toBe(false);
  expect(blocks.take('ta: {"a":1}\n')).toBe(false);
  expect(blocks.take("\n: still here\n\n")).toBe(true);
  expect(blocks.take(": still here\r\n\r\n")).toBe(false);
});

function contrast(colour: readonly [number, number, number]): number {
  const ink = [1, 3, 5].map((at) => Number.parseInt(INK.slice(at, at + 2), 16));
  return (luminance(colour) + 0.05) / (luminance(ink as [number, number, number]) + 0.05);
}

function luminance(rgb: readonly [number, number, number]): number {
  const [red = 0, green = 0, blue = 0] = rgb.map((value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
