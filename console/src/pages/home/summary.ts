// What the home page counts, and what it says is wrong.
import type { Stack } from "@aws-sdk/client-cloudformation";
import type { Instance, InstanceStatus } from "@aws-sdk/client-ec2";
import type { Addon, Cluster, Nodegroup } from "@aws-sdk/client-eks";
import { hasFailed, stackAddress } from "../cloudformation/stacks";
import { type Node, nodeStatus } from "../clusters/nodes";

/** Something that AWS says is wrong. */
export interface Problem {
  kind: "Cluster" | "Node group" | "Add-on" | "Instance" | "Stack";
  name: string;
  /** The page that has more of it. */
  to: string;
  code: string;
  message: string;
  /** The resources that are affected, besides. */
  resources: string[];
}

/** Everything in which something can be wrong. */
export interface Everything {
  clusters: Cluster[];
  nodegroups: Nodegroup[];
  addons: Addon[];
  instances: Instance[];
  statuses: InstanceStatus[];
  stacks: Stack[];
}

/** Problems returns what is wrong: with clusters, each with its node groups and add-ons, instances and stacks. */
export function problems({ clusters, nodegroups, addons, instances, statuses, stacks }: Everything): Problem[] {
  return [
    ...clusters.flatMap((cluster) => {
      const { name = "" } = cluster;
      const to = `/clusters/${encodeURIComponent(name)}`;
      return [
        ...issuesOf({ kind: "Cluster", name, to: `${to}/overview` }, cluster.status, cluster.health?.issues),
        ...nodegroups
          .filter(({ clusterName }) => clusterName === name)
          .flatMap((g) =>
            issuesOf(
              { kind: "Node group", name: `${name}/${g.nodegroupName ?? ""}`, to: `${to}/compute` },
              g.status,
              g.health?.issues,
            ),
          ),
        ...addons
          .filter(({ clusterName }) => clusterName === name)
          .flatMap((a) =>
            issuesOf(
              { kind: "Add-on", name: `${name}/${a.addonName ?? ""}`, to: `${to}/add-ons` },
              a.status,
              a.health?.issues,
            ),
          ),
      ];
    }),
    ...instances.flatMap((instance) => failureOf(instance)),
    ...statuses.flatMap((status) => impairmentOf(status)),
    ...stacks
      .filter(({ StackStatus }) => hasFailed(StackStatus))
      .map(({ StackName = "", StackId = "", StackStatus = "", StackStatusReason = "" }): Problem => ({
        kind: "Stack",
        name: StackName,
        to: `${stackAddress(StackId)}/events`,
        code: StackStatus,
        message: StackStatusReason,
        resources: [],
      })),
  ];
}

interface Issue {
  code?: string;
  message?: string;
  resourceIds?: string[];
}

/** IssuesOf returns the health issues of something of EKS, or its status, if that is a failure without any. */
function issuesOf(
  of: Pick<Problem, "kind" | "name" | "to">,
  status: string | undefined,
  issues: Issue[] | undefined,
): Problem[] {
  const found = issues?.map(({ code = "", message = "", resourceIds = [] }) => ({
    ...of,
    code,
    message,
    resources: resourceIds,
  }));
  if (found !== undefined && found.length > 0) return found;
  return status !== undefined && /FAILED$|^DEGRADED$/.test(status)
    ? [{ ...of, code: status, message: "", resources: [] }]
    : [];
}

const instanceAddress = (id: string, tab: string) => `/instances/${encodeURIComponent(id)}/${tab}`;

/** FailureOf returns why an instance was not launched or has ended, if that was the fault of the server. */
function failureOf({ InstanceId: name = "", StateReason }: Instance): Problem[] {
  const { Code: code = "", Message: message = "" } = StateReason ?? {};
  if (!code.startsWith("Server.") || code === "Server.SpotInstanceTermination") return [];
  return [{ kind: "Instance", name, to: instanceAddress(name, "details"), code, message, resources: [] }];
}

/** ImpairmentOf returns which status checks of an instance fail. */
function impairmentOf({ InstanceId: name = "", SystemStatus, InstanceStatus: own }: InstanceStatus): Problem[] {
  const failed = [
    ...(SystemStatus?.Status === "impaired" ? ["System status check failed"] : []),
    ...(own?.Status === "impaired" ? ["Instance status check failed"] : []),
  ];
  if (failed.length === 0) return [];
  const to = instanceAddress(name, "monitoring");
  return [{ kind: "Instance", name, to, code: "impaired", message: failed.join(", "), resources: [] }];
}

/** ReadyNodes returns how many of a cluster's nodes are ready: "2 of 3 ready". */
export function readyNodes(nodes: Node[]): string {
  const ready = nodes.filter((node) => nodeStatus(node).split(",")[0] === "Ready").length;
  return `${ready} of ${nodes.length} ready`;
}
