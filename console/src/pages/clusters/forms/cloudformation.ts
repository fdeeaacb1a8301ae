// Requests of EKS as properties of CloudFormation, which have the same members with a capital.

/** Members whose keys are names that people chose. */
const named = new Set(["labels", "tags"]);

/** PropertiesOf returns a request as the properties of its resource. Members that are not set stay so. */
export function propertiesOf(request: object): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(request).map(([member, value]: [string, unknown]) => [
      member.charAt(0).toUpperCase() + member.slice(1),
      named.has(member) ? value : propertyOf(value),
    ]),
  );
}

function propertyOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(propertyOf);
  return typeof value === "object" && value !== null ? propertiesOf(value) : value;
}
