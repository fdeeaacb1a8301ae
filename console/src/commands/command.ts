// The commands that do what a page or a form does: aws, kubectl, eksctl, and resources of CloudFormation.
// Pages make them of arguments, here and in the files beside this one: no page joins strings.
import { type Argument, type Command, isWritable, shellCommand, Variable, yamlDocument } from "./shell";

export {
  assigned,
  type Command,
  eachInTurn,
  inTurn,
  piped,
  shellCommand,
  Variable,
  withInput,
  yamlDocument,
} from "./shell";

type Scalar = string | number | boolean | Date | Variable | undefined | null;
type Value = Scalar | Value[] | { [member: string]: Value };

/** OptionName returns the option of the AWS CLI for a member of a request, as botocore names it. */
export function optionName(member: string): string {
  return member
    .replace(/[A-Z]{2,}s$/, (plural) => "_" + plural.toLowerCase())
    .replace(/(.)([A-Z][a-z]+)/g, "$1_$2")
    .replace(/([a-z0-9])([A-Z])/g, "$1_$2")
    .toLowerCase()
    .replace(/^_/, "")
    .replaceAll("__", "_")
    .replaceAll("_", "-");
}

// What the AWS CLI reads as an option, a file or an address instead of a value; and what no argument can have.
const misread = /^(-|fileb?:|https?:)/;

function isMisread(value: Value): boolean {
  if (typeof value === "string") return misread.test(value) || !isWritable(value);
  return Array.isArray(value) && value.some((v) => isMisread(v) || (typeof v === "string" && /^[[{]/.test(v)));
}

function optionValue(value: Value): Argument[] {
  if (value instanceof Variable) return [value];
  if (value instanceof Date) return [value.toISOString()];
  if (Array.isArray(value) && value.every((v) => typeof v === "string" || typeof v === "number")) {
    return value.map(String);
  }
  return [typeof value === "object" ? JSON.stringify(value) : String(value)];
}

/** Options of the AWS CLI itself. */
const own = ["output", "query"];

/** Members whose names the AWS CLI has for itself: --version prints its own. */
const renamed: Record<string, string> = { "eks version": "kubernetes-version" };

/**
 * AwsCommand returns the command of the AWS CLI for a request. Members that are not set are left out:
 * awsCommand("eks", "describe-cluster", { name: "web" }, "eu-west-1").
 */
export function awsCommand(service: string, operation: string, input: object, region?: string): Command {
  const members = Object.entries(input as Record<string, Value>).filter(
    ([, value]) => value !== undefined && value !== null && !(Array.isArray(value) && value.length === 0),
  );
  const [asJson, asOptions] = [true, false].map((json) =>
    members.filter(([member, value]) => json === (isMisread(value) && !own.includes(member))),
  );
  const groups = (asOptions ?? []).map(([member, value]): Argument[] => {
    const name = renamed[`${service} ${member}`] ?? optionName(member);
    if (typeof value === "boolean") return [value ? `--${name}` : `--no-${name}`];
    return [`--${name}`, ...optionValue(value)];
  });
  if (asJson !== undefined && asJson.length > 0) {
    groups.push(["--cli-input-json", JSON.stringify(Object.fromEntries(asJson))]);
  }
  if (region !== undefined) groups.push(["--region", region]);
  return shellCommand("AWS CLI", ["aws", service, operation], ...groups);
}

/** KubectlCommand returns a command of kubectl: kubectlCommand("web", "get", "pods", "-n", "default"). */
export function kubectlCommand(cluster: string, ...words: string[]): Command {
  return shellCommand("kubectl", ["kubectl", "--context", cluster, ...words]);
}

/** CoracleCommand returns a command of coracle: coracleCommand("audit", "pods/web", "--cluster", "web"). */
export function coracleCommand(...words: string[]): Command {
  return shellCommand("coracle", ["coracle", ...words]);
}

/** CloudFormationResource returns a template with one resource, in YAML. Members that are not set are left out. */
export function cloudFormationResource(logicalId: string, type: string, properties: object): Command {
  return yamlDocument("CloudFormation", { Resources: { [logicalId]: { Type: type, Properties: properties } } });
}
