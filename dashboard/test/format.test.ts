import { expect, test } from "vitest";
import { urlOf } from "../src/api/client";
import { nextStep, nextStepOfReason } from "../src/api/problem";
import { ago, amount, count, percent } from "../src/format";

const spaced = (text: string): string => text.replaceAll("\u202f", " ");

test.each([
  [0, "nanoseconds", "0 ns"],
  [107_200_000, "nanoseconds", "107.2 ms"],
  [2_500_000_000, "nanoseconds", "2.50 s"],
  [-2_500_000, "nanoseconds", "-2.50 ms"],
  [1536, "bytes", "1.50 KiB"],
  [12, "bytes", "12 B"],
  [1234567, "count", "1,234,567"],
])("%d %s is %s", (value, unit, text) => {
  expect(spaced(amount(value, unit))).toBe(text);
});

test("percent of nothing is nothing", () => {
  expect(spaced(percent(5, 0))).toBe("0 %");
  expect(spaced(percent(1, 3))).toBe("33.3 %");
  expect(spaced(percent(1, 1))).toBe("100 %");
  expect(spaced(percent(1, 3000))).toBe("0.03 %");
  expect(count(1e6)).toBe("1,000,000");
});

test("moments ago", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");
  expect(spaced(ago("2026-01-01T11:59:30Z", now))).toBe("30 s ago");
  expect(spaced(ago("2026-01-01T10:00:00Z", now))).toBe("2 h ago");
  // A clock that is behind does not look into the future.
  expect(spaced(ago("2026-01-01T12:00:09Z", now))).toBe("0 s ago");
});

test("every failure has a next step", () => {
  expect(nextStep(10393, 404)).toContain("No traffic");
  expect(nextStep(0, 0)).toContain("control plane");
  expect(nextStep(99999, 503)).not.toBe("");
  expect(nextStepOfReason("target_exited")).toContain("another isolate");
  expect(nextStepOfReason(null)).not.toBe("");
});

test("addresses are built, never pasted", () => {
  expect(urlOf("a/../b", "/x", { q: "1&2", none: undefined })).toBe(
    "/client/v4/accounts/a%2F..%2Fb/x?q=1%262",
  );
});
