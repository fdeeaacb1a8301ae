import { expect, test } from "vitest";
import { isLostRequest, mayReload } from "./reload";

test("a page is loaded anew some times a minute", () => {
  const values = new Map([["coracle.reloads", "not JSON"]]);
  const storage = {
    getItem: (key: string) => values.get(key) ?? null,
    setItem: (key: string, value: string) => void values.set(key, value),
  };
  const answers = Array.from({ length: 21 }, (_, now) => mayReload(storage, now));
  expect(answers).toEqual([...Array<boolean>(20).fill(true), false]);
  expect(mayReload(storage, 60_005)).toBe(true);
});

test.each([
  [new TypeError("Failed to fetch"), true],
  [new TypeError("Failed to fetch dynamically imported module: http://127.0.0.1/a.js"), true],
  [new TypeError("x is not a function"), false],
  [new Error("Failed to fetch"), false],
])("%s", (error, lost) => {
  expect(isLostRequest(error)).toBe(lost);
});
