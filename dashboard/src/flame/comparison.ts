/** Two profiles in one tree (`diff?format=flamegraph`): every node with both sides. */

import { hsl, pixel, type Rgb, type Theme } from "./colours";
import { type Functions, type Profile, ProfileUnreadable, readProfile } from "./profile";
import { at, grow, type Tree } from "./tree";

export type Status = "new" | "gone" | "changed" | "same";

export interface Comparison {
  /** The profile after, on the common tree. */
  readonly after: Profile;
  /** The profile before on the same tree, its values scaled to compare. */
  readonly before: Profile;
  readonly status: readonly Status[];
  /** What every value before was multiplied with. */
  readonly scale: number;
  /** As it was measured. */
  readonly measuredBefore: number;
}

const STATUSES: readonly Status[] = ["new", "gone", "changed", "same"];

/** Read a comparison; throws ProfileUnreadable when it is none. */
export function readComparison(document: unknown): Comparison {
  const after = readProfile(document);
  const whole = document as Record<string, Record<string, unknown>>;
  const scale = whole["diff"]?.["scale"];
  const self = whole["nodes"]?.["base_self"];
  const samples = whole["nodes"]?.["base_samples"];
  const status = whole["functions"]?.["status"];
  const size = after.tree.size - 1;
  if (typeof scale !== "number" || !numbers(self, size) || !numbers(samples, size))
    throw new ProfileUnreadable("The control plane sent a comparison without its other side.");
  if (!Array.isArray(status) || status.length !== after.functions.count)
    throw new ProfileUnreadable(
      "The control plane sent a comparison that says nothing of changes.",
    );
  const level = Int32Array.from({ length: size }, (_, node) => at(after.tree.level, node + 1) - 1);
  const tree = grow({
    level,
    fn: after.tree.fn.subarray(1),
    self: self.map((value) => value * scale),
    samples,
  });
  return {
    after,
    before: { ...after, tree, total: at(tree.total, 0) },
    status: status.map((one) => STATUSES.find((known) => known === one) ?? "same"),
    scale,
    measuredBefore: self.reduce((sum, value) => sum + value, 0),
  };
}

function numbers(value: unknown, size: number): value is number[] {
  return (
    Array.isArray(value) && value.length === size && value.every((one) => typeof one === "number")
  );
}

/** How a value changed, from -1 (gone) over 0 (as before) to 1 (new). */
export function change(before: number, after: number): number {
  const most = Math.max(before, after);
  return most <= 0 ? 0 : (after - before) / most;
}

/**
 * Colour of a change: blue for less, orange for more, the stronger the greater. The two can be told
 * apart by the colour-blind, and from grey by everybody.
 */
export function changeColour(share: number, theme: Theme): Rgb {
  const light = theme === "light";
  const neutral: Rgb = light ? [222, 226, 231] : [140, 148, 160];
  const full = share > 0 ? hsl(26, 92, light ? 62 : 60) : hsl(212, 85, light ? 68 : 68);
  // Small changes are mostly noise; the square root would shout them.
  const strength = Math.min(1, Math.abs(share));
  return [0, 1, 2].map((part) =>
    Math.round((neutral[part] ?? 0) + ((full[part] ?? 0) - (neutral[part] ?? 0)) * strength),
  ) as unknown as Rgb;
}

/** Colour of each node by how its total changed, as pixels. */
export function changePixels(before: Tree, after: Tree, theme: Theme): Uint32Array {
  return Uint32Array.from({ length: after.size }, (_, node) =>
    pixel(changeColour(change(at(before.total, node), at(after.total, node)), theme)),
  );
}

export interface ChangeRow {
  readonly fn: number;
  readonly status: Status;
  readonly selfBefore: number;
  readonly selfAfter: number;
  readonly totalBefore: number;
  readonly totalAfter: number;
}

/** Names of the columns a comparison is ordered by. */
export type ChangeColumn = "name" | "before" | "after" | "change" | "total";

/** What a row is ordered by. */
export function changeValue(row: ChangeRow, column: Exclude<ChangeColumn, "name">): number {
  switch (column) {
    case "before":
      return row.selfBefore;
    case "after":
      return row.selfAfter;
    case "change":
      return Math.abs(row.selfAfter - row.selfBefore);
    case "total":
      return Math.abs(row.totalAfter - row.totalBefore);
  }
}

export type { Functions };
