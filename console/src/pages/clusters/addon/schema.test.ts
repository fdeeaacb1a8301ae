import { expect, test } from "vitest";
import { formatSchema, problemsOf } from "./schema";

const schema = JSON.stringify({
  $schema: "http://json-schema.org/draft-06/schema#",
  $ref: "#/definitions/Coredns",
  definitions: {
    Coredns: {
      type: "object",
      additionalProperties: false,
      properties: {
        replicaCount: { type: "integer" },
        podDisruptionBudget: {
          type: "object",
          properties: { maxUnavailable: { anyOf: [{ type: "string", pattern: ".*%$" }, { type: "integer" }] } },
        },
        tolerations: { type: "array", items: { type: "object" } },
        nodeSelector: { type: "object", additionalProperties: { type: "string" } },
      },
    },
  },
});

test.each([
  "",
  "{}",
  '{"replicaCount":3}',
  "replicaCount: 3 # as YAML",
  "podDisruptionBudget: {maxUnavailable: 10%}",
  "nodeSelector: {a: b}",
])("%s is good", (values) => {
  expect(problemsOf(values, schema)).toEqual([]);
});

test.each([
  ["replicas: 3", "$.replicas: is not defined in the schema and the schema does not allow additional properties"],
  ["replicaCount: many", '$.replicaCount: Instance type "string" is invalid. Expected "integer".'],
  ["tolerations: [1]", '$.tolerations[0]: Instance type "number" is invalid. Expected "object".'],
  ["nodeSelector: {a: 1}", '$.nodeSelector.a: Instance type "number" is invalid. Expected "string".'],
  [
    "podDisruptionBudget: {maxUnavailable: all}",
    "$.podDisruptionBudget.maxUnavailable: Instance does not match any subschemas.",
  ],
])("%s is not", (values, problem) => {
  expect(problemsOf(values, schema)).toEqual([problem]);
});

test("what is no document is said to be none", () => {
  expect(problemsOf("{", schema)[0]).toContain("It is not a valid JSON or YAML document");
});

test("without a schema, EKS decides", () => {
  expect(problemsOf("a: 1", undefined)).toEqual([]);
  expect(problemsOf("a: 1", "no schema")).toEqual([]);
});

test("a schema is shown line by line", () => {
  expect(formatSchema('{"type":"object"}')).toBe('{\n  "type": "object"\n}');
  expect(formatSchema("?")).toBe("?");
});
