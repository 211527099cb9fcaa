/** How one looks at a profile: read from the address, made into what is drawn. */

import { useMemo } from "react";
import type { Colouring } from "../../flame/colours";
import { functionHashes, functionOf, nodeOf } from "../../flame/keys";
import type { Column } from "../../flame/order";
import type { Kind, Profile } from "../../flame/profile";
import { type Reshaped, reshape } from "../../flame/reshape";
import { type Found, search } from "../../flame/search";
import { coveredBy, type Sums, sumsOf } from "../../flame/sums";
import { at, type Tree } from "../../flame/tree";
import { usePlace } from "../../routing";

export const VIEWS = ["both", "flame", "table", "sandwich"] as const;
export type ViewName = (typeof VIEWS)[number];

/** What can be hidden, and the kinds of frames that means. */
export const HIDDEN: Readonly<Record<string, { name: string; kinds: readonly Kind[] }>> = {
  idle: { name: "idle", kinds: ["idle"] },
  gc: { name: "garbage collection", kinds: ["gc"] },
  runtime: { name: "runtime and (program)", kinds: ["runtime", "program"] },
};

export interface Look {
  readonly profile: Profile;
  readonly hashes: Uint32Array;
  readonly view: ViewName;
  readonly hide: ReadonlySet<string>;
  readonly without: Uint8Array;
  readonly collapse: boolean;
  readonly colouring: Colouring;
  /** The tree that is drawn. */
  readonly tree: Tree;
  readonly reshaped: Reshaped | null;
  /** Of the whole tree, whatever is hidden. */
  readonly sums: Sums;
  readonly text: string;
  readonly found: Found;
  /** Value of all stacks in which something found runs. */
  readonly foundValue: number;
  /** Node of the drawn tree that fills the width; 0 for all. */
  readonly focus: number;
  /** The chosen function; -1 for none. */
  readonly fn: number;
  readonly sort: Column;
  readonly descending: boolean;
}

export function useLook(profile: Profile, views: readonly ViewName[] = VIEWS): Look {
  const { query } = usePlace();
  const read = (name: string): string => query.get(name) ?? "";
  const view = views.find((one) => one === read("view")) ?? views[0] ?? "both";
  const hideText = read("hide");
  const collapse = read("collapse") === "1";
  const text = read("q");
  const focusKey = read("focus");
  const functionKey = read("fn");
  const sort = COLUMNS.find((one) => one === read("sort")) ?? "self";
  const descending = read("dir") === "" ? sort !== "name" : read("dir") === "desc";
  const { functions, tree } = profile;

  const hashes = useMemo(() => functionHashes(functions), [functions]);
  const sums = useMemo(() => sumsOf(tree, functions.count), [tree, functions]);
  const { hide, without } = useMemo(() => hidden(functions.kind, hideText), [functions, hideText]);
  const reshaped = useMemo(
    () => (hide.size === 0 && !collapse ? null : reshape(tree, { without, collapse })),
    [tree, hide, without, collapse],
  );
  const found = useMemo(() => search(functions, text), [functions, text]);
  const foundValue = useMemo(() => coveredBy(tree, found.matches), [tree, found]);
  const focused = useMemo(
    () => (focusKey === "" ? 0 : Math.max(0, nodeOf(tree, hashes, focusKey))),
    [tree, hashes, focusKey],
  );
  return {
    profile,
    hashes,
    view,
    hide,
    without,
    collapse,
    reshaped,
    sums,
    text,
    found,
    foundValue,
    sort,
    descending,
    colouring: read("colour") === "kind" ? "kind" : "package",
    tree: reshaped?.tree ?? tree,
    focus: reshaped === null ? focused : at(reshaped.image, focused),
    fn: functionKey === "" ? -1 : functionOf(hashes, functionKey),
  };
}

const COLUMNS: readonly Column[] = ["name", "self", "total", "samples"];

function hidden(
  kinds: readonly Kind[],
  text: string,
): { hide: ReadonlySet<string>; without: Uint8Array } {
  const hide = new Set(text.split(",").filter((name) => name in HIDDEN));
  const left = new Set([...hide].flatMap((name) => HIDDEN[name]?.kinds ?? []));
  const without = Uint8Array.from(kinds, (kind) => (left.has(kind) ? 1 : 0));
  return { hide, without };
}

/** The node of the whole tree that a drawn node stands for; what links name. */
export function sourceOf(look: Look, node: number): number {
  return look.reshaped === null ? node : Math.max(0, at(look.reshaped.source, node));
}
