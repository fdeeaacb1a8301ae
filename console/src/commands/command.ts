// The commands that do what a page or a form does: aws, kubectl, eksctl, and resources of CloudFormation.
import { stringify } from "yaml";

/** A command, or a document, that is shown. */
export interface Command {
  /** The tool: "AWS CLI", "kubectl", "eksctl", "CloudFormation". */
  title: string;
  text: string;
}

type Value = string | number | boolean | Date | undefined | null | Value[] | { [member: string]: Value };

/** Quote returns a word as a shell reads it. */
export function quote(word: string): string {
  return word !== "" && /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

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

function optionValue(value: Value): string {
  if (value instanceof Date) return quote(value.toISOString());
  if (Array.isArray(value) && value.every((v) => typeof v === "string" || typeof v === "number")) {
    return value.map((v) => quote(String(v))).join(" ");
  }
  if (typeof value === "object") return quote(JSON.stringify(value));
  return quote(String(value));
}

/**
 * AwsCommand returns the command of the AWS CLI for a request. Members that are not set are left out:
 * awsCommand("eks", "describe-cluster", { name: "web" }, "eu-west-1").
 */
export function awsCommand(service: string, operation: string, input: object, region?: string): Command {
  const words = ["aws", service, operation];
  const options = Object.entries(input as Record<string, Value>).flatMap(([member, value]) => {
    if (value === undefined || value === null || (Array.isArray(value) && value.length === 0)) return [];
    const name = optionName(member);
    if (typeof value === "boolean") return [value ? `--${name}` : `--no-${name}`];
    return [`--${name} ${optionValue(value)}`];
  });
  if (region !== undefined) options.push(`--region ${quote(region)}`);
  return { title: "AWS CLI", text: layOut(words.join(" "), options) };
}

/** KubectlCommand returns a command of kubectl: kubectlCommand("web", "get", "pods", "-n", "default"). */
export function kubectlCommand(cluster: string, ...words: string[]): Command {
  return { title: "kubectl", text: ["kubectl", "--context", quote(cluster), ...words.map(quote)].join(" ") };
}

/** CloudFormationResource returns a template with one resource, in YAML. Members that are not set are left out. */
export function cloudFormationResource(logicalId: string, type: string, properties: object): Command {
  const resource = { Type: type, Properties: JSON.parse(JSON.stringify(properties)) as object };
  return { title: "CloudFormation", text: stringify({ Resources: { [logicalId]: resource } }) };
}

/** LayOut puts a command on one line, or each option on a line of its own where that gets long. */
function layOut(command: string, options: string[]): string {
  const line = [command, ...options].join(" ");
  return line.length <= 80 ? line : [command, ...options].join(" \\\n  ");
}
