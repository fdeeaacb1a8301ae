// Who a principal of IAM is in a cluster, and what that user may do there.
import type { AccessEntry, AssociatedAccessPolicy } from "@aws-sdk/client-eks";
import { parse } from "yaml";
import type { KubernetesObject, Resource } from "../../kubernetes/objects";
import { principalOf } from "./policies";

const rbac = (name: string, namespaced: boolean): Resource => ({
  group: "rbac.authorization.k8s.io",
  version: "v1",
  name,
  namespaced,
});

export const clusterRoleBindings = rbac("clusterrolebindings", false);
export const roleBindings = rbac("rolebindings", true);

/** An access entry with its access policies. */
export interface Entry extends AccessEntry {
  policies: AssociatedAccessPolicy[];
}

/** The ConfigMap aws-auth. */
export interface AwsAuth extends KubernetesObject {
  data?: Record<string, string>;
}

/** A role binding or a cluster role binding. */
export interface Binding extends KubernetesObject {
  roleRef: { kind: string; name: string };
  subjects?: { kind: string; name: string; namespace?: string }[];
}

/** A principal of IAM and who it is in a cluster. */
export interface Mapping {
  /** The ARN of the principal; the ID of an account for mapAccounts. */
  principal: string;
  source: "Access entry" | "mapRoles" | "mapUsers" | "mapAccounts";
  username: string;
  groups: string[];
  policies: AssociatedAccessPolicy[];
  /** Set where an access entry of the same principal comes first, or the mode leaves the source out. */
  ignored: string;
}

interface Mapped {
  rolearn?: string;
  userarn?: string;
  username?: string;
  groups?: string[];
}

/** ParseList returns the list in a value of aws-auth: none where it is not valid, as for the authenticator. */
function parseList(text: string | undefined): unknown[] {
  if (text === undefined || text.trim() === "") return [];
  try {
    const list: unknown = parse(text);
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}

/** ResolveMappings returns who is who in a cluster, in the order in which the authenticator asks. */
export function resolveMappings(mode: string, entries: Entry[], awsAuth: AwsAuth | undefined): Mapping[] {
  const mappings: Mapping[] = entries.map((entry) => ({
    principal: entry.principalArn ?? "",
    source: "Access entry",
    username: entry.username ?? "",
    groups: entry.kubernetesGroups ?? [],
    policies: entry.policies,
    ignored: mode === "CONFIG_MAP" ? "The cluster reads aws-auth only." : "",
  }));
  const first = new Set(mode === "CONFIG_MAP" ? [] : mappings.map(({ principal }) => principalKey(principal)));
  const add = (principal: string, source: Mapping["source"], { username, groups }: Mapped) => {
    let ignored = "";
    if (mode === "API") ignored = "The cluster reads access entries only.";
    else if (first.has(principalKey(principal))) ignored = "The access entry of the principal comes first.";
    mappings.push({ principal, source, username: username ?? principal, groups: groups ?? [], policies: [], ignored });
  };
  const data = awsAuth?.data ?? {};
  for (const role of parseList(data.mapRoles) as Mapped[]) add(role.rolearn ?? "", "mapRoles", role);
  for (const user of parseList(data.mapUsers) as Mapped[]) add(user.userarn ?? "", "mapUsers", user);
  for (const account of parseList(data.mapAccounts)) {
    add(String(account), "mapAccounts", { username: "the ARN of the principal" });
  }
  return mappings;
}

/** PrincipalKey returns what two ARNs of one principal have in common: paths do not count. */
function principalKey(arn: string): string {
  const principal = principalOf(arn);
  return principal === undefined ? arn : `${arn.split(":")[4] ?? ""}/${principal.kind}/${principal.name}`;
}

/** BindingsOf returns the bindings of a user and its groups, without what Kubernetes gives everybody. */
export function bindingsOf({ username, groups }: Pick<Mapping, "username" | "groups">, bindings: Binding[]): Binding[] {
  return bindings.filter(({ metadata, subjects = [] }) => {
    const standard = metadata.labels?.["kubernetes.io/bootstrapping"] === "rbac-defaults";
    const within = standard ? groups : [...groups, "system:authenticated"];
    return subjects.some(
      ({ kind, name }) => (kind === "User" && name === username) || (kind === "Group" && within.includes(name)),
    );
  });
}

/** FormatBinding returns what a binding gives: "ClusterRole view (default)". */
export function formatBinding({ kind, metadata, roleRef }: Binding): string {
  return `${roleRef.kind} ${roleRef.name} (${kind === "RoleBinding" ? (metadata.namespace ?? "") : "cluster"})`;
}
