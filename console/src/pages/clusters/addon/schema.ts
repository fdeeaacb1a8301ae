// Configuration values of add-ons, checked against the JSON schema of the version as EKS checks them.
import { type OutputUnit, type Schema, Validator } from "@cfworker/json-schema";
import { parse } from "yaml";

/** What is only about other problems, which are reported beside it. */
const containers = new Set([
  "$ref",
  "additionalProperties",
  "allOf",
  "else",
  "if",
  "items",
  "patternProperties",
  "properties",
  "then",
]);

/** ProblemsOf says what is wrong with configuration values, a problem each. */
export function problemsOf(values: string, schema: string | undefined): string[] {
  if (values.trim() === "" || schema === undefined || schema === "") return [];
  let value: unknown;
  try {
    value = parse(values);
  } catch (error) {
    return [`It is not a valid JSON or YAML document: ${error instanceof Error ? error.message : String(error)}`];
  }
  try {
    const { errors } = new Validator(JSON.parse(schema) as Schema, "7", false).validate(value);
    return [...new Set(leavesOf(errors).map(problemOf))];
  } catch {
    return []; // a schema that this validator does not know: EKS checks the values
  }
}

/** LeavesOf returns the errors that say what is wrong. The alternatives of one that has some say nothing alone. */
function leavesOf(errors: OutputUnit[]): OutputUnit[] {
  const choices = errors.filter(({ keyword }) => keyword === "anyOf" || keyword === "oneOf");
  return errors.filter(
    (error) =>
      !containers.has(error.keyword) &&
      !choices.some(
        (choice) =>
          choice !== error &&
          within(error.instanceLocation, choice.instanceLocation) &&
          error.keywordLocation.startsWith(choice.keywordLocation + "/"),
      ),
  );
}

const within = (location: string, other: string) => location === other || location.startsWith(other + "/");

function problemOf({ instanceLocation, keyword, error }: OutputUnit): string {
  const words =
    keyword === "false" ? "is not defined in the schema and the schema does not allow additional properties" : error;
  return `${pathOf(instanceLocation)}: ${words}`;
}

/** PathOf returns a JSON pointer as EKS writes it: "$.resources.limits". */
function pathOf(pointer: string): string {
  const steps = pointer.split("/").slice(1);
  return steps.reduce((path, step) => {
    const name = decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    return /^\d+$/.test(name) ? `${path}[${name}]` : `${path}.${name}`;
  }, "$");
}

/** FormatSchema returns a schema with a member on each line. */
export function formatSchema(schema: string): string {
  try {
    return JSON.stringify(JSON.parse(schema), null, 2);
  } catch {
    return schema;
  }
}
