/** Small profiles written as stacks, for tests. */

import { type Profile, readProfile } from "../src/flame/profile";

export interface Stack {
  /** Frames from the outermost to the innermost, parted by spaces: `name` or `name@file:line`. */
  readonly at: string;
  readonly self: number;
  readonly samples?: number;
}

/** The document the API would send for these stacks, in the order they are written. */
export function documentOf(
  stacks: readonly Stack[],
  unit = "nanoseconds",
): Record<string, unknown> {
  const strings = [""];
  const text = (one: string): number => {
    const known = strings.indexOf(one);
    if (known >= 0) return known;
    strings.push(one);
    return strings.length - 1;
  };
  const frames: string[] = [];
  const functions = { name: [], file: [], line: [], generated: [], kind: [] } as Record<
    string,
    number[]
  >;
  const frame = (one: string): number => {
    const known = frames.indexOf(one);
    if (known >= 0) return known;
    frames.push(one);
    const [name = "", place = ""] = one.split("@");
    const [file = "", line = "0"] = place.split(":");
    functions["name"]?.push(text(name));
    functions["file"]?.push(text(file));
    functions["line"]?.push(Number(line));
    functions["generated"]?.push(0);
    functions["kind"]?.push(KIND[name] ?? (file === "" ? 3 : 0));
    return frames.length - 1;
  };
  const nodes = { level: [], fn: [], self: [], samples: [] } as Record<string, number[]>;
  let open: string[] = [];
  for (const stack of stacks) {
    const path = stack.at.match(/\([^)]*\)|\S+/g) ?? [];
    let shared = 0;
    while (shared < path.length && open[shared] === path[shared]) shared++;
    // The whole path is known only when the stack before lay deeper: then it is one node more.
    for (let level = Math.min(shared, path.length - 1); level < path.length; level++) {
      nodes["level"]?.push(level);
      nodes["fn"]?.push(frame(path[level] as string));
      nodes["self"]?.push(level === path.length - 1 ? stack.self : 0);
      nodes["samples"]?.push(level === path.length - 1 ? (stack.samples ?? 1) : 0);
    }
    open = path;
  }
  const sum = (values: number[] | undefined): number => (values ?? []).reduce((a, b) => a + b, 0);
  return {
    v: 1,
    type: "cpu",
    unit,
    samples_type: "samples",
    period: 1_000_000,
    about: {},
    cut: null,
    total: sum(nodes["self"]),
    total_samples: sum(nodes["samples"]),
    kinds: ["own", "library", "runtime", "native", "program", "gc", "idle", "mark"],
    functions,
    nodes,
    strings,
  };
}

const KIND: Readonly<Record<string, number>> = {
  "(program)": 4,
  "(garbage collector)": 5,
  "(idle)": 6,
};

export function profileOf(stacks: readonly Stack[], unit?: string): Profile {
  return readProfile(documentOf(stacks, unit));
}

/** The function of a name. */
export function named(profile: Profile, name: string): number {
  const fn = profile.functions.name.indexOf(name);
  if (fn < 0) throw new Error(`no function ${name}`);
  return fn;
}

/** Names along the way to every node, with its total: how a tree reads. */
export function written(profile: Profile, tree = profile.tree): string[] {
  const lines: string[] = [];
  for (let node = 1; node < tree.size; node++) {
    const indent = "  ".repeat((tree.level[node] ?? 1) - 1);
    lines.push(`${indent}${profile.functions.name[tree.fn[node] ?? 0]} ${tree.total[node]}`);
  }
  return lines;
}
