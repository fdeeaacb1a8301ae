import { expect, test } from "vitest";
import { newLeaver } from "./leave";

function taken(...keys: string[]): boolean[] {
  const leaver = newLeaver();
  return keys.map((key) => leaver({ type: "keydown", key }));
}

test("Tab goes to the shell, and after Escape to what follows the terminal", () => {
  expect(taken("Tab", "Escape", "Tab", "Tab")).toEqual([true, true, false, true]);
});

test("Shift and Tab go back, and other keys do not wait for Tab", () => {
  expect(taken("Escape", "Shift", "Tab")).toEqual([true, true, false]);
  expect(taken("Escape", "a", "Tab")).toEqual([true, true, true]);
});
