// What of nodes and pods a rolling update is about.
import { type KubernetesObject, type ObjectMeta, type Resource } from "../../kubernetes/objects";

export const budgets: Resource = {
  group: "policy",
  version: "v1",
  name: "poddisruptionbudgets",
  namespaced: true,
};

export interface NodeObject extends KubernetesObject {
  spec?: { unschedulable?: boolean; providerID?: string };
  status?: { conditions?: { type: string; status: string }[]; nodeInfo?: { kubeletVersion?: string } };
}

export interface Node {
  name: string;
  /** The ID of its instance. */
  instance: string;
  created: string;
  ready: boolean;
  unschedulable: boolean;
  /** External load balancers leave it out. EKS labels nodes so as it cordons them; who cordons by hand does not. */
  excluded: boolean;
  version: string;
  nodegroup: string;
}

/** NodeOf returns what is kept of a node. */
export function nodeOf({ metadata, spec, status }: NodeObject): Node {
  return {
    name: metadata.name,
    instance: spec?.providerID?.split("/").at(-1) ?? "",
    created: metadata.creationTimestamp,
    ready: status?.conditions?.some((c) => c.type === "Ready" && c.status === "True") === true,
    unschedulable: spec?.unschedulable === true,
    excluded: metadata.labels?.["node.kubernetes.io/exclude-from-external-load-balancers"] !== undefined,
    version: status?.nodeInfo?.kubeletVersion ?? "",
    nodegroup: metadata.labels?.["eks.amazonaws.com/nodegroup"] ?? "",
  };
}

export interface PodObject extends KubernetesObject {
  spec?: { nodeName?: string };
  status?: { phase?: string; conditions?: { type: string; status: string }[] };
}

export interface Pod {
  uid: string;
  namespace: string;
  name: string;
  labels: Record<string, string>;
  /** The name of its node; empty before it is scheduled. */
  node: string;
  phase: string;
  ready: boolean;
  /** When its grace period ends, once it is being deleted. */
  deadline?: string;
  /** What it belongs to: "Deployment web". Empty for one on its own. */
  workload: string;
  /** It ends with its node, and is not evicted: a static pod, or one of a DaemonSet. */
  stays: boolean;
}

/** PodOf returns what is kept of a pod. */
export function podOf({ metadata, spec, status }: PodObject): Pod {
  const owner = metadata.ownerReferences?.find(({ controller }) => controller);
  return {
    uid: metadata.uid,
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    labels: metadata.labels ?? {},
    node: spec?.nodeName ?? "",
    phase: status?.phase ?? "",
    ready: status?.conditions?.some((c) => c.type === "Ready" && c.status === "True") === true,
    deadline: metadata.deletionTimestamp,
    workload: owner === undefined ? "" : workloadOf(owner, metadata),
    stays: owner?.kind === "DaemonSet" || metadata.annotations?.["kubernetes.io/config.mirror"] !== undefined,
  };
}

function workloadOf({ kind, name }: { kind: string; name: string }, { labels }: ObjectMeta): string {
  const hash = labels?.["pod-template-hash"];
  if (kind === "ReplicaSet" && hash !== undefined && name.endsWith(`-${hash}`)) {
    return `Deployment ${name.slice(0, -hash.length - 1)}`;
  }
  return `${kind} ${name}`;
}

export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: { key: string; operator: string; values?: string[] }[];
}

/** Matches reports whether a selector of policy/v1 selects labels: an empty one selects all, and none selects none. */
export function matches(selector: LabelSelector | null | undefined, labels: Record<string, string>): boolean {
  if (selector === null || selector === undefined) return false;
  const { matchLabels = {}, matchExpressions = [] } = selector;
  return (
    Object.entries(matchLabels).every(([key, value]) => labels[key] === value) &&
    matchExpressions.every(({ key, operator, values = [] }) => {
      const value = labels[key];
      switch (operator) {
        case "In":
          return value !== undefined && values.includes(value);
        case "NotIn":
          return value === undefined || !values.includes(value);
        case "Exists":
          return value !== undefined;
        default: // DoesNotExist
          return value === undefined;
      }
    })
  );
}
