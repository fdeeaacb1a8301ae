// Who owns each field of an object, by its managedFields.
// https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
import { stringify } from "yaml";
import type { KubernetesObject, ManagedFieldsEntry } from "../../kubernetes/objects";

/** The way to a field: names of members, and indexes of elements. */
export type Path = (string | number)[];

type Tree = Record<string, unknown>;

/** OwnersOf returns the managers of a field, each once, in the order of managedFields. */
export function ownersOf(object: KubernetesObject, path: Path): string[] {
  const entries = object.metadata.managedFields ?? [];
  const owners = entries.filter(({ fieldsV1 }) => isOwned(object, fieldsV1 as Tree, path));
  return [...new Set(owners.map(managerOf))];
}

/** ManagerOf returns the name of a manager, with the subresource that it writes: "kubelet (status)". */
export function managerOf({ manager = "", subresource }: ManagedFieldsEntry): string {
  return subresource === undefined || subresource === "" ? manager : `${manager} (${subresource})`;
}

/** IsOwned follows a path through a set of fields. What is below a field without fields of its own is owned with it. */
function isOwned(object: unknown, fields: Tree | undefined, path: Path): boolean {
  if (fields === undefined) return false;
  let node: Tree = fields;
  let value = object;
  for (const [i, part] of path.entries()) {
    if (i > 0 && Object.keys(node).length === 0) return true; // atomic
    const next = childOf(node, part, value);
    if (next === undefined) return false;
    node = next;
    value = (value as Record<string | number, unknown>)[part];
  }
  return Object.keys(node).length === 0 || "." in node || !isStructure(value);
}

function childOf(node: Tree, part: string | number, value: unknown): Tree | undefined {
  if (typeof part === "string") return node[`f:${part}`] as Tree | undefined;
  const element = (value as unknown[])[part];
  for (const [key, child] of Object.entries(node)) {
    if (key.startsWith("v:") && same(JSON.parse(key.slice(2)), element)) return child as Tree;
    if (key === `i:${part}`) return child as Tree;
    if (!key.startsWith("k:") || !isStructure(element)) continue;
    const keys = Object.entries(JSON.parse(key.slice(2)) as Tree);
    if (keys.every(([name, wanted]) => same(wanted, (element as Tree)[name]))) return child as Tree;
  }
  return undefined;
}

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
const isStructure = (value: unknown): value is object => typeof value === "object" && value !== null;

/** A line of an object in YAML, and the field that it shows. */
export interface Line {
  text: string;
  path: Path;
}

/** LinesOf returns an object in YAML, without its managedFields, line by line. */
export function linesOf(object: KubernetesObject): Line[] {
  const { apiVersion, kind, ...rest } = object;
  const metadata = Object.fromEntries(Object.entries(object.metadata).filter(([key]) => key !== "managedFields"));
  const lines: Line[] = [];
  write(lines, { apiVersion, kind, ...rest, metadata }, [], 0, "");
  return lines;
}

/** Write writes a value. The first line begins with lead, which already is on its place. */
function write(lines: Line[], value: unknown, path: Path, indent: number, lead: string): void {
  const pad = " ".repeat(indent);
  if (Array.isArray(value) && value.length > 0) {
    for (const [i, element] of value.entries()) {
      const begin = i === 0 && lead !== "" ? lead : pad;
      write(lines, element, [...path, i], indent + 2, `${begin}- `);
    }
    return;
  }
  if (isStructure(value) && !Array.isArray(value) && Object.keys(value).length > 0) {
    for (const [i, [key, member]] of Object.entries(value).entries()) {
      const begin = (i === 0 && lead !== "" ? lead : pad) + stringify(key).trimEnd() + ":";
      const at = [...path, key];
      if (isStructure(member) && Object.keys(member).length > 0) {
        lines.push({ text: begin, path: at });
        write(lines, member, at, Array.isArray(member) ? indent : indent + 2, "");
      } else {
        writeScalar(lines, member, at, indent + 2, begin + " ");
      }
    }
    return;
  }
  writeScalar(lines, value, path, indent, lead);
}

/** WriteScalar writes a text, number or empty collection; a text of several lines as a block. */
function writeScalar(lines: Line[], value: unknown, path: Path, indent: number, lead: string): void {
  const [first = "", ...rest] = stringify(value, { lineWidth: 0 }).trimEnd().split("\n");
  lines.push({ text: lead + first, path });
  for (const line of rest) lines.push({ text: " ".repeat(indent) + line, path });
}
