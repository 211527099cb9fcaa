/** A profile as the API sends it (`format=flamegraph`), checked and laid out. */

import { at, type Columns, checkColumns, grow, type Tree } from "./tree";

/** What runs in a frame; `mark` is a frame that stands for what was cut or filtered. */
export const KINDS = [
  "own",
  "library",
  "runtime",
  "native",
  "program",
  "gc",
  "idle",
  "mark",
] as const;
export type Kind = (typeof KINDS)[number];

export interface Functions {
  readonly count: number;
  readonly name: readonly string[];
  readonly file: readonly string[];
  /** First line, from 1; 0 when not known. */
  readonly line: ArrayLike<number>;
  /** Where the running code has it, `url:line:column`; empty when that is not another place. */
  readonly generated: readonly string[];
  readonly kind: readonly Kind[];
}

export interface Profile {
  /** `cpu`, `alloc_space` ... */
  readonly type: string;
  readonly unit: string;
  /** The whole capture's value: what every percentage is of. */
  readonly total: number;
  readonly totalSamples: number;
  /** What the counts count: `samples`, `alloc_objects`; empty when nothing does. */
  readonly samplesType: string;
  readonly functions: Functions;
  readonly tree: Tree;
  /** What the profile says of itself. */
  readonly about: Readonly<Record<string, readonly string[]>>;
  /** What was folded together before it came here; empty when nothing was. */
  readonly cut: string;
}

/** The bytes are not a profile; the message says why, for a person. */
export class ProfileUnreadable extends Error {}

/** What makes a function itself: name, file, first line, and where the running code has it. */
export function identity(functions: Functions, fn: number): string {
  const { name, file, line, generated } = functions;
  return `${name[fn]}\0${file[fn]}\0${at(line, fn)}\0${generated[fn]}`;
}

/**
 * Read a document of `docs/flamegraph-format.md`.
 *
 * Throws ProfileUnreadable when it is none, or holds what cannot be: the page then says so
 * instead of drawing something.
 */
export function readProfile(document: unknown): Profile {
  const whole = record(document, "the document");
  if (whole["v"] !== 1) throw unreadable(`its version is ${JSON.stringify(whole["v"])}, not 1`);
  const functions = readFunctions(whole);
  const nodes = record(whole["nodes"], "nodes");
  const columns: Columns = {
    level: numbers(nodes["level"], "nodes.level"),
    fn: numbers(nodes["fn"], "nodes.fn"),
    self: numbers(nodes["self"], "nodes.self"),
    samples: numbers(nodes["samples"], "nodes.samples"),
  };
  const wrong = checkColumns(columns, functions.count);
  if (wrong !== "") throw unreadable(wrong);
  return {
    type: text(whole["type"]),
    unit: text(whole["unit"]),
    total: number(whole["total"], "total"),
    totalSamples: number(whole["total_samples"], "total_samples"),
    samplesType: text(whole["samples_type"]),
    functions,
    tree: grow(columns),
    about: about(whole["about"]),
    cut: cut(whole["cut"]),
  };
}

/** Columns of functions, of a flame or of a difference. */
export function readFunctions(whole: Record<string, unknown>): Functions {
  const strings = list(whole["strings"], "strings").map(text);
  const kinds = list(whole["kinds"], "kinds").map(text);
  const columns = record(whole["functions"], "functions");
  const texts = (name: string): string[] =>
    Array.from(numbers(columns[name], `functions.${name}`), (index) => {
      const found = strings[index];
      if (found === undefined) throw unreadable(`functions.${name} names string ${index}`);
      return found;
    });
  const name = texts("name");
  const functions: Functions = {
    count: name.length,
    name,
    file: texts("file"),
    line: numbers(columns["line"], "functions.line"),
    generated: texts("generated"),
    kind: Array.from(numbers(columns["kind"], "functions.kind"), (index) => asKind(kinds[index])),
  };
  const lengths = [functions.file, functions.line, functions.generated, functions.kind];
  if (lengths.some((column) => column.length !== name.length))
    throw unreadable("its columns of functions differ in length");
  return functions;
}

// A kind of a later server is shown as any code is.
function asKind(name: string | undefined): Kind {
  return KINDS.find((kind) => kind === name) ?? "native";
}

function about(value: unknown): Record<string, readonly string[]> {
  const found: Record<string, readonly string[]> = {};
  for (const [key, all] of Object.entries(record(value ?? {}, "about")))
    if (Array.isArray(all)) found[key] = all.map(text);
  return found;
}

function cut(value: unknown): string {
  if (value === null || value === undefined) return "";
  const { nodes, max_nodes: limit } = record(value, "cut");
  return (
    `The ${Number(nodes).toLocaleString("en")} smallest calls are folded into (cut) frames: ` +
    `a picture holds ${Number(limit).toLocaleString("en")}. The download has all.`
  );
}

function record(value: unknown, what: string): Record<string, unknown> {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw unreadable(`${what} is missing`);
  return value as Record<string, unknown>;
}

function list(value: unknown, what: string): unknown[] {
  if (!Array.isArray(value)) throw unreadable(`${what} is missing`);
  return value;
}

function numbers(value: unknown, what: string): number[] {
  const found = list(value, what);
  if (found.some((one) => typeof one !== "number")) throw unreadable(`${what} holds no numbers`);
  return found as number[];
}

function number(value: unknown, what: string): number {
  if (typeof value !== "number" || !Number.isFinite(value)) throw unreadable(`${what} is missing`);
  return value;
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function unreadable(why: string): ProfileUnreadable {
  return new ProfileUnreadable(`The control plane sent a profile that cannot be read: ${why}.`);
}
