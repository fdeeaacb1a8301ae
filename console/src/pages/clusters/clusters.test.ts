import { expect, test } from "vitest";
import { isChanging, supportPeriod } from "./clusters";

test.each([
  ["CREATING", true],
  ["UPDATING", true],
  ["DELETING", true],
  ["ACTIVE", false],
  ["FAILED", false],
] as const)("%s changes: %s", (status, changes) => {
  expect(isChanging({ status })).toBe(changes);
});

const dates = {
  endOfStandardSupportDate: new Date("2027-03-23T00:00:00Z"),
  endOfExtendedSupportDate: new Date("2028-03-23T00:00:00Z"),
};

test("the support period has its date", () => {
  expect(supportPeriod({ versionStatus: "STANDARD_SUPPORT", ...dates })).toBe("Standard support until March 23, 2027");
  expect(supportPeriod({ versionStatus: "EXTENDED_SUPPORT", ...dates })).toBe("Extended support until March 23, 2028");
  expect(supportPeriod({ versionStatus: "UNSUPPORTED", ...dates })).toBe("Unsupported");
  expect(supportPeriod(undefined)).toBe("-");
});
