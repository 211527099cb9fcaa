import { describe, expect, test } from "vitest";
import { functionHashes, functionKey, functionOf, nodeKey, nodeOf } from "../src/flame/keys";
import { compareText, rowsOf } from "../src/flame/order";
import { ProfileUnreadable, readProfile } from "../src/flame/profile";
import { reshape } from "../src/flame/reshape";
import { sandwich } from "../src/flame/sandwich";
import { search } from "../src/flame/search";
import { coveredBy, sumsOf } from "../src/flame/sums";
import { checkColumns, childrenOf, depthOf, grow, pathOf } from "../src/flame/tree";
import { documentOf, named, profileOf, written } from "./trees";

const SHOP = [
  { at: "fetch", self: 5 },
  { at: "fetch render", self: 10, samples: 2 },
  { at: "fetch render mask", self: 1 },
  { at: "fetch render mask mask", self: 2 },
  { at: "fetch render mask mask mask", self: 40, samples: 8 },
  { at: "fetch render mask mask mask (garbage collector)", self: 7 },
  { at: "fetch mask", self: 3 },
  { at: "(program)", self: 32, samples: 4 },
];

describe("tree", () => {
  test("totals, ends, parents and places", () => {
    const { tree } = profileOf(SHOP);
    expect([...tree.level]).toEqual([0, 1, 2, 3, 4, 5, 6, 2, 1]);
    expect([...tree.parent]).toEqual([-1, 0, 1, 2, 3, 4, 5, 1, 0]);
    expect([...tree.end]).toEqual([9, 8, 7, 7, 7, 7, 7, 8, 9]);
    expect([...tree.total]).toEqual([100, 68, 60, 50, 49, 47, 7, 3, 32]);
    expect([...tree.x]).toEqual([0, 0, 0, 0, 0, 0, 0, 60, 68]);
    expect(depthOf(tree)).toBe(6);
    expect(pathOf(tree, 4)).toEqual([1, 2, 3, 4]);
    expect(childrenOf(tree, 1)).toEqual([2, 7]);
    expect(childrenOf(tree, 0)).toEqual([1, 8]);
  });

  test("no node, and one node", () => {
    expect(grow({ level: [], fn: [], self: [], samples: [] }).size).toBe(1);
    const { tree } = profileOf([{ at: "only", self: 7 }]);
    expect([...tree.total]).toEqual([7, 7]);
    expect([...tree.width]).toEqual([7, 7]);
  });

  test("values below zero and of zero have no width, and are told", () => {
    const { tree } = profileOf([
      { at: "a", self: 0 },
      { at: "a lost", self: -4 },
      { at: "a kept", self: 10 },
      { at: "a none", self: 0 },
    ]);
    expect(tree.total[0]).toBe(6);
    expect(tree.width[0]).toBe(10);
    expect([...tree.width]).toEqual([10, 10, 0, 10, 0]);
    expect(tree.negative).toBe(-4);
    // Levels on which nothing has a width are no rows of the picture.
    expect(tree.shownLevels).toBe(3);
    const flat = profileOf([
      { at: "a", self: 5 },
      { at: "a b c d", self: 0 },
    ]).tree;
    expect(flat.shownLevels).toBe(2);
  });

  test("two thousand calls deep", () => {
    const depth = 2_000;
    const level = Array.from({ length: depth }, (_, index) => index);
    const zeros = level.map(() => 0);
    const self = zeros.slice();
    self[depth - 1] = 1;
    const tree = grow({ level, fn: zeros, self, samples: zeros });
    expect(depthOf(tree)).toBe(depth);
    expect(tree.total[1]).toBe(1);
    expect(pathOf(tree, depth)).toHaveLength(depth);
    const whole = reshape(tree, { without: new Uint8Array(1), collapse: true });
    expect(depthOf(whole.tree)).toBe(1);
    expect(whole.tree.total[1]).toBe(1);
  });

  test.each([
    ["a level jumped", { level: [0, 2], fn: [0, 0], self: [1, 1], samples: [1, 1] }, "level 2"],
    ["no root", { level: [1], fn: [0], self: [1], samples: [1] }, "level 1"],
    ["an unknown function", { level: [0], fn: [1], self: [1], samples: [1] }, "function 1 of 1"],
    ["no number", { level: [0], fn: [0], self: [Number.NaN], samples: [1] }, "no number"],
    ["short columns", { level: [0], fn: [], self: [1], samples: [1] }, "differ in length"],
  ])("refuses %s", (_, columns, why) => {
    expect(checkColumns(columns, 1)).toContain(why);
  });
});

describe("document", () => {
  test.each([
    ["nothing", null],
    ["a list", []],
    ["another version", { ...documentOf(SHOP), v: 2 }],
    ["no nodes", { ...documentOf(SHOP), nodes: undefined }],
    [
      "text for numbers",
      { ...documentOf(SHOP), nodes: { level: ["0"], fn: [0], self: [1], samples: [1] } },
    ],
    ["an unknown string", { ...documentOf(SHOP), strings: [] }],
    ["no total", { ...documentOf(SHOP), total: "100" }],
  ])("refuses %s with a reason", (_, document) => {
    expect(() => readProfile(document)).toThrow(ProfileUnreadable);
  });

  test("tells what was cut", () => {
    const cut = { nodes: 1234, value: 1, samples: 1, max_nodes: 200000 };
    expect(readProfile({ ...documentOf(SHOP), cut }).cut).toContain("1,234");
  });

  test("a kind of a later server is drawn as any code", () => {
    const document = { ...documentOf(SHOP), kinds: ["unheard-of"] };
    expect(readProfile(document).functions.kind[0]).toBe("native");
  });
});

describe("sums", () => {
  test("a recursive function counts once in its total", () => {
    const profile = profileOf(SHOP);
    const sums = sumsOf(profile.tree, profile.functions.count);
    const mask = named(profile, "mask");
    expect(sums.self[mask]).toBe(46);
    expect(sums.total[mask]).toBe(53);
    expect(sums.samples[mask]).toBe(11);
    expect(sums.total[named(profile, "fetch")]).toBe(68);
  });

  test("what several functions cover counts once", () => {
    const profile = profileOf(SHOP);
    const { matches, count } = search(profile.functions, "MA");
    expect(count).toBe(1);
    expect(coveredBy(profile.tree, matches)).toBe(53);
    expect(coveredBy(profile.tree, search(profile.functions, "/^(fetch|mask)$/").matches)).toBe(68);
  });
});

describe("search", () => {
  const { functions } = profileOf([
    { at: "a@src/Cart.ts:3", self: 1 },
    { at: "b[0]@src/cart.ts:9", self: 1 },
  ]);

  test("text is text, in names and files", () => {
    expect(search(functions, "cart").count).toBe(2);
    expect(search(functions, "b[0]").count).toBe(1);
    expect(search(functions, "  ").count).toBe(0);
  });

  test("a broken pattern is told", () => {
    expect(search(functions, "/(/").wrong).not.toBe("");
    expect(search(functions, "/b.0/").count).toBe(1);
  });
});

describe("reshape", () => {
  test("hiding tells how much is gone and keeps what hidden frames called", () => {
    const profile = profileOf([
      { at: "a", self: 1 },
      { at: "a (program)", self: 20 },
      { at: "a (program) b", self: 5 },
      { at: "a b", self: 6 },
    ]);
    const without = new Uint8Array(profile.functions.count);
    without[named(profile, "(program)")] = 1;
    const shown = reshape(profile.tree, { without, collapse: false });
    expect(shown.hidden).toBe(20);
    expect(written(profile, shown.tree)).toEqual(["a 12", "  b 11"]);
    // The node left out stands for its caller; both b are one.
    expect([...shown.image]).toEqual([0, 1, 1, 2, 2]);
    expect(shown.source[2]).toBe(3);
  });

  test("calls of itself become one, wherever they lead", () => {
    const profile = profileOf(SHOP);
    const shown = reshape(profile.tree, {
      without: new Uint8Array(profile.functions.count),
      collapse: true,
    });
    expect(written(profile, shown.tree)).toEqual([
      "fetch 68",
      "  render 60",
      "    mask 50",
      "      (garbage collector) 7",
      "  mask 3",
      "(program) 32",
    ]);
    expect(shown.tree.total[0]).toBe(100);
  });
});

describe("sandwich", () => {
  test("callers and callees of all outermost calls", () => {
    const profile = profileOf(SHOP);
    const two = sandwich(profile.tree, named(profile, "mask"));
    expect(written(profile, two.callers)).toEqual([
      "mask 53",
      "  render 50",
      "    fetch 50",
      "  fetch 3",
    ]);
    expect(written(profile, two.callees)).toEqual([
      "mask 53",
      "  mask 49",
      "    mask 47",
      "      (garbage collector) 7",
    ]);
  });
});

describe("keys", () => {
  test("name the same node whatever the order of siblings", () => {
    const one = profileOf([
      { at: "a b", self: 1 },
      { at: "a c", self: 2 },
    ]);
    const other = profileOf([
      { at: "a c", self: 2 },
      { at: "a b", self: 1 },
    ]);
    const key = nodeKey(one.tree, functionHashes(one.functions), 3);
    expect(nodeOf(other.tree, functionHashes(other.functions), key)).toBe(2);
    expect(nodeOf(other.tree, functionHashes(other.functions), "nonsense")).toBe(-1);
  });

  test("two functions of one name are two", () => {
    const { functions } = profileOf([
      { at: "run@a.js:6", self: 1 },
      { at: "run@a.js:17", self: 1 },
    ]);
    const hashes = functionHashes(functions);
    expect(functionKey(hashes, 0)).not.toBe(functionKey(hashes, 1));
    expect(functionOf(hashes, functionKey(hashes, 1))).toBe(1);
    expect(functionOf(hashes, "-")).toBe(-1);
  });
});

describe("order", () => {
  test("is that of the API's top: self, total, name, file, line", () => {
    const profile = profileOf([
      { at: "z@b.js:1", self: 5 },
      { at: "a@b.js:2", self: 5 },
      { at: "a@a.js:9", self: 5 },
      { at: "caller@a.js:1 leaf@a.js:2", self: 5 },
      { at: "top@a.js:1", self: 9 },
    ]);
    const sums = sumsOf(profile.tree, profile.functions.count);
    const rows = rowsOf(profile.functions, sums, new Uint8Array(9), "self", true);
    expect(
      [...rows].map((fn) => profile.functions.name[fn] + (profile.functions.file[fn] ?? "")),
    ).toEqual(["topa.js", "aa.js", "ab.js", "leafa.js", "zb.js", "callera.js"]);
  });

  test("compares by code points", () => {
    expect(compareText("😀", "\uff00")).toBeGreaterThan(0);
    expect(compareText("a", "ab")).toBeLessThan(0);
    expect(compareText("x", "x")).toBe(0);
  });
});
