// The resources of a template, and which of them depend on which.
import { isMap, isScalar, isSeq, type Node, type ParsedNode, parseDocument } from "yaml";

/** What a resource is in a template, with the functions of CloudFormation in their long form. */
export interface TemplateResource {
  Type?: string;
  Condition?: string;
  DeletionPolicy?: string;
  UpdateReplacePolicy?: string;
  DependsOn?: unknown;
  [attribute: string]: unknown;
}

/** Why a resource depends on another: { by: "Fn::GetAtt", path: "Properties.RoleArn", attribute: "Arn" }. */
export interface Reason {
  by: "Ref" | "Fn::GetAtt" | "Fn::Sub" | "DependsOn";
  path: string;
  attribute?: string;
}

/** A dependency: CloudFormation creates to before from, and deletes it after from. */
export interface Dependency {
  from: string;
  to: string;
  reasons: Reason[];
}

/** ResourcesOf returns the resources of a template in JSON or YAML, by their logical IDs. */
export function resourcesOf(body: string): Map<string, TemplateResource> {
  const resources = (parseTemplate(body) as { Resources?: unknown } | null)?.Resources;
  return new Map(isRecord(resources) ? (Object.entries(resources) as [string, TemplateResource][]) : []);
}

/** ParseTemplate reads a template. Tags of YAML, the short form of functions, become the long form. */
export function parseTemplate(body: string): unknown {
  if (body.trimStart().startsWith("{")) return JSON.parse(body);
  // Tags that the parser does not know are warnings, and stay on the nodes.
  const { contents, errors } = parseDocument(body, { logLevel: "silent" });
  if (errors[0] !== undefined) throw errors[0];
  return plain(contents);
}

function plain(node: ParsedNode | Node | null): unknown {
  const value = untagged(node);
  const name = /^!(\w+)$/.exec(node?.tag ?? "")?.[1];
  if (name === undefined) return value;
  if (name === "Ref" || name === "Condition") return { [name]: value };
  return { [`Fn::${name}`]: value };
}

function untagged(node: ParsedNode | Node | null): unknown {
  if (isMap(node)) {
    return Object.fromEntries(
      node.items.map(({ key, value }) => [String(plain(key as Node)), plain(value as Node | null)]),
    );
  }
  if (isSeq(node)) return node.items.map((item) => plain(item as Node));
  return isScalar(node) ? node.value : undefined;
}

/** DependenciesOf returns what depends on what, and why, in the order of the template. */
export function dependenciesOf(resources: Map<string, TemplateResource>): Dependency[] {
  return [...resources].flatMap(([from, resource]) => {
    const found = new Map<string, Reason[]>();
    const add = (to: string, reason: Reason) => {
      if (to === from || !resources.has(to)) return; // a parameter, or a pseudo parameter
      found.set(to, [...(found.get(to) ?? []), reason]);
    };
    const { DependsOn: named = [], ...attributes } = resource;
    for (const to of Array.isArray(named) ? (named as unknown[]) : [named]) {
      add(String(to), { by: "DependsOn", path: "DependsOn" });
    }
    visit(attributes, "", add);
    return [...found].map(([to, reasons]) => ({ from, to, reasons }));
  });
}

/** Visit finds the functions in a value that name resources. */
function visit(value: unknown, path: string, add: (to: string, reason: Reason) => void): void {
  if (Array.isArray(value)) {
    value.forEach((item, i) => visit(item, `${path}[${i}]`, add));
    return;
  }
  if (!isRecord(value)) return;
  const [[name, argument] = [], ...others] = Object.entries(value);
  if (others.length === 0 && name === "Ref" && typeof argument === "string") {
    add(argument, { by: "Ref", path });
  } else if (others.length === 0 && name === "Fn::GetAtt") {
    const [to, attribute] = attributeOf(argument);
    add(to, { by: "Fn::GetAtt", path, attribute });
    visit(argument, `${path}.${name}`, add); // the name of an attribute may be a Ref
  } else if (others.length === 0 && name === "Fn::Sub") {
    const [text, variables] = Array.isArray(argument) ? (argument as unknown[]) : [argument];
    for (const [to, attribute] of variablesOf(text, isRecord(variables) ? variables : {})) {
      add(to, { by: "Fn::Sub", path, attribute });
    }
    visit(variables, `${path}.${name}[1]`, add);
  } else {
    for (const [member, each] of Object.entries(value)) visit(each, path === "" ? member : `${path}.${member}`, add);
  }
}

/** AttributeOf returns the resource and the attribute that an Fn::GetAtt names, in each of its forms. */
function attributeOf(argument: unknown): [string, string | undefined] {
  if (Array.isArray(argument)) {
    const [to, attribute] = argument as unknown[];
    return [String(to), typeof attribute === "string" ? attribute : undefined];
  }
  const [to = "", ...attribute] = String(argument).split(".");
  return [to, attribute.join(".")];
}

/** VariablesOf returns the resources and attributes in the text of an Fn::Sub: ${Role}, ${Role.Arn}; not ${!Role}. */
function variablesOf(text: unknown, own: Record<string, unknown>): [string, string | undefined][] {
  if (typeof text !== "string") return [];
  return [...text.matchAll(/\$\{([^!}][^}]*)\}/g)].flatMap(([, variable = ""]) => {
    if (variable.trim() in own) return [];
    const [to = "", ...attribute] = variable.trim().split(".");
    return [[to, attribute.length === 0 ? undefined : attribute.join(".")]];
  });
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
