// What a ConfigurationConflict of an add-on is about, taken out of the words of the API server.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts
import type { AddonIssue } from "@aws-sdk/client-eks";
import type { ManagedFieldsEntry } from "../../../kubernetes/objects";

/** A field that an add-on wants otherwise than its owner. */
export interface Conflict {
  /** The object, as kubectl names it: "deployment.apps/coredns". */
  resource: string;
  /** The field, as the API server writes it: `.spec.containers[name="coredns"].image`. */
  field: string;
  /** The field manager that owns it. */
  manager: string;
}

const owner = /conflicts? with "((?:[^"\\]|\\.)*)"(?: with subresource "[^"]*")?(?: using [^\s:]+)?(?: at \S+Z)?:/g;

/** ConflictsOf returns the conflicts that an issue reports: none where its words are others. */
export function conflictsOf({ code, message = "", resourceIds = [] }: AddonIssue): Conflict[] {
  if (code !== "ConfigurationConflict") return [];
  const resource = resourceIds[0] ?? "";
  const found = [...message.matchAll(owner)];
  return found.flatMap((match, i) => {
    const text = message.slice(match.index + match[0].length, found[i + 1]?.index);
    const manager = unquoted(match[1] ?? "");
    return text
      .split(/(?:^|\s)-\s(?=[.[])/)
      .map((field) => field.trim())
      .filter((field) => field !== "")
      .map((field) => ({ resource, field, manager }));
  });
}

/** Unquoted returns a name that the API server has quoted as Go does, which has escapes that JSON does not have. */
function unquoted(text: string): string {
  try {
    return JSON.parse(`"${text}"`) as string;
  } catch {
    return text;
  }
}

/** The way to a field: names of members, keys of list elements, and values of sets. */
type Step = string | { keys: Record<string, unknown> } | { value: unknown };

/** StepsOf returns the steps of a field; undefined for a text that is no field. */
export function stepsOf(field: string): Step[] | undefined {
  const steps: Step[] = [];
  let rest = field;
  while (rest !== "") {
    const member = /^\.([^.[]+)/.exec(rest);
    const element = /^\[((?:[^"\]]|"(?:[^"\\]|\\.)*")*)\]/.exec(rest);
    if (member !== null) steps.push(member[1] ?? "");
    else if (element !== null) {
      const step = elementOf(element[1] ?? "");
      if (step === undefined) return undefined;
      steps.push(step);
    } else return undefined;
    rest = rest.slice((member ?? element)?.[0].length ?? 0);
  }
  return steps;
}

function elementOf(text: string): Step | undefined {
  try {
    if (text.startsWith("=")) return { value: JSON.parse(text.slice(1)) as unknown };
    const keys = [...text.matchAll(/([^=,]+)=("(?:[^"\\]|\\.)*"|[^,]+)/g)];
    return { keys: Object.fromEntries(keys.map(([, key = "", value = ""]) => [key, JSON.parse(value) as unknown])) };
  } catch {
    return undefined;
  }
}

/** ValueOf returns what an object has in a field: undefined where there is no such field. */
export function valueOf(object: unknown, field: string): unknown {
  return stepsOf(field)?.reduce<unknown>((value, step) => {
    if (typeof value !== "object" || value === null) return undefined;
    if (typeof step === "string") return (value as Record<string, unknown>)[step];
    return Array.isArray(value) ? elementIn(value, step) : undefined;
  }, object);
}

function elementIn(list: unknown[], step: Exclude<Step, string>): unknown {
  if ("value" in step) return list.find((element) => element === step.value);
  const wanted = Object.entries(step.keys);
  return list.find((element) => wanted.every(([key, is]) => (element as Record<string, unknown>)[key] === is));
}

/** ChangedAt returns when a manager last changed an object. */
export function changedAt(managedFields: ManagedFieldsEntry[] | undefined, manager: string): string | undefined {
  return managedFields
    ?.filter((entry) => entry.manager === manager)
    .flatMap(({ time }) => time ?? [])
    .sort()
    .at(-1);
}
