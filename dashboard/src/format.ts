/** Values as people read them. */

const TIMES: readonly Step[] = [
  ["s", 1e9],
  ["ms", 1e6],
  ["µs", 1e3],
  ["ns", 1],
];
const SIZES: readonly Step[] = [
  ["GiB", 2 ** 30],
  ["MiB", 2 ** 20],
  ["KiB", 2 ** 10],
  ["B", 1],
];

type Step = readonly [name: string, size: number];

/** A value in its unit: `1.23 s`, `4.56 MiB`, `789`. */
export function amount(value: number, unit: string): string {
  const steps = unit === "nanoseconds" ? TIMES : unit === "bytes" ? SIZES : null;
  if (steps === null) return count(value);
  const [name, size] =
    steps.find(([, least]) => Math.abs(value) >= least) ?? (steps[steps.length - 1] as Step);
  const number = value / size;
  const digits = size === 1 ? 0 : Math.abs(number) >= 100 ? 1 : 2;
  return `${number.toFixed(digits)}\u202f${name}`;
}

/** A whole number with its thousands parted. */
export function count(value: number): string {
  return value.toLocaleString("en", { maximumFractionDigits: 0 });
}

/** Part of a whole, in percent; 0 of nothing. */
export function percent(value: number, whole: number): string {
  if (whole === 0) return "0\u202f%";
  const share = (100 * value) / whole;
  const digits = Math.abs(share) >= 99.95 || share === 0 ? 0 : Math.abs(share) >= 0.1 ? 1 : 2;
  return `${share.toFixed(digits)}\u202f%`;
}

/** Milliseconds as seconds where that reads better. */
export function millis(value: number): string {
  return amount(value * 1e6, "nanoseconds");
}

/** A moment, in the reader's own time zone. */
export function moment(iso: string | null): string {
  if (iso === null) return "–";
  const date = new Date(iso);
  return Number.isNaN(date.getTime())
    ? iso
    : date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

/** How long ago a moment was, roughly. */
export function ago(iso: string, now: number): string {
  const seconds = Math.max(0, Math.round((now - new Date(iso).getTime()) / 1000));
  if (seconds < 60) return `${seconds}\u202fs ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}\u202fmin ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}\u202fh ago`;
  return `${Math.floor(seconds / 86400)}\u202fd ago`;
}

/** The first part of a version's UUID, which is what people tell them apart by. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}
