import { expect, test } from "vitest";
import { anyProblem, labelKeyProblem, labelProblems, subjectOf, tagProblems, wholeNumber } from "./problems";

test.each([
  ["2", 2],
  ["0", 0],
  ["", undefined],
  ["-1", undefined],
  ["1.5", undefined],
  ["two", undefined],
])("%j is the number %j", (text, number) => {
  expect(wholeNumber(text)).toBe(number);
});

test.each([
  ["team", true],
  ["example.com/team", true],
  ["", false],
  ["a/b/c", false],
  ["Example.com/team", false],
  ["-team", false],
  ["a".repeat(64), false],
])("the key %j is good: %j", (key, good) => {
  expect(labelKeyProblem(key) === undefined).toBe(good);
});

test("labels have unique keys, values, and no prefix of EKS", () => {
  expect(
    labelProblems([
      { key: "team", value: "blue" },
      { key: "team", value: "" },
      { key: "eks.amazonaws.com/nodegroup", value: "x" },
    ]).map(({ key, value }) => [key, value]),
  ).toEqual([
    [undefined, undefined],
    ["Keys are unique.", "Enter a value."],
    ["Keys with the prefix eks.amazonaws.com/ are reserved.", undefined],
  ]);
});

test("tags may have no value, and no reserved key", () => {
  const problems = tagProblems([
    { key: "owner", value: "" },
    { key: "aws:x", value: "" },
  ]);
  expect(problems.map(({ key }) => key)).toEqual([undefined, "Keys that begin with aws: are reserved."]);
  expect(anyProblem(problems, 50, "tags")).toBe("Correct the tags.");
  expect(anyProblem(problems.slice(0, 1), 50, "tags")).toBeUndefined();
  expect(anyProblem(problems, 1, "tags")).toBe("Enter up to 1 tags.");
});

test("an error is about what its message has words of", () => {
  const subjects: [RegExp, "subnets" | "name"][] = [
    [/subnet/i, "subnets"],
    [/name/i, "name"],
  ];
  expect(subjectOf(subjects, new Error("The subnet ID 'x' does not exist"))).toBe("subnets");
  expect(subjectOf(subjects, new Error("Something else"))).toBeUndefined();
  expect(subjectOf(subjects, null)).toBeUndefined();
});
