import { expect, test } from "vitest";
import { problemOf, timesOf } from "./timeRange";

test("a relative range ends now", () => {
  const range = { type: "relative", amount: 3, unit: "hour" } as const;
  expect(timesOf(range, 1_000_000_500)).toEqual({ startTime: 1_000_001 - 3 * 3600, endTime: 1_000_001 });
});

test("an absolute range is as chosen", () => {
  const range = { type: "absolute", startDate: "2026-11-30T10:00:00Z", endDate: "2026-11-30T11:00:00Z" } as const;
  const { startTime, endTime } = timesOf(range, 0);
  expect(endTime - startTime).toBe(3600);
});

test.each([
  [null, "Choose a time range."],
  [{ type: "relative", amount: 0, unit: "hour" } as const, "Enter how long the range is."],
  [{ type: "relative", amount: 1, unit: "hour" } as const, undefined],
  [{ type: "absolute", startDate: "", endDate: "2026-11-30" } as const, "Choose a start and an end."],
  [
    { type: "absolute", startDate: "2026-11-30T11:00:00Z", endDate: "2026-11-30T10:00:00Z" } as const,
    "The start must be before the end.",
  ],
])("%o", (range, problem) => {
  expect(problemOf(range)).toBe(problem);
});
