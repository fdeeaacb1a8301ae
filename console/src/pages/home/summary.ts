// What the home page counts.
import type { Cluster, Nodegroup } from "@aws-sdk/client-eks";
import { type Node, nodeStatus } from "../clusters/nodes";

/** Something that EKS says is wrong. */
export interface HealthIssue {
  cluster: string;
  /** The node group, where the issue is one of a node group. */
  nodegroup: string;
  code: string;
  message: string;
  resources: string[];
}

/** HealthIssues returns what is wrong with clusters and their node groups, in the order of the clusters. */
export function healthIssues(clusters: Cluster[], nodegroups: Nodegroup[]): HealthIssue[] {
  return clusters.flatMap(({ name: cluster = "", health }) => [
    ...(health?.issues ?? []).map(({ code = "", message = "", resourceIds = [] }) => ({
      cluster,
      nodegroup: "",
      code,
      message,
      resources: resourceIds,
    })),
    ...nodegroups
      .filter(({ clusterName }) => clusterName === cluster)
      .flatMap(({ nodegroupName = "", health: of }) =>
        (of?.issues ?? []).map(({ code = "", message = "", resourceIds = [] }) => ({
          cluster,
          nodegroup: nodegroupName,
          code,
          message,
          resources: resourceIds,
        })),
      ),
  ]);
}

/** ReadyNodes returns how many of a cluster's nodes are ready: "2 of 3 ready". */
export function readyNodes(nodes: Node[]): string {
  const ready = nodes.filter((node) => nodeStatus(node).split(",")[0] === "Ready").length;
  return `${ready} of ${nodes.length} ready`;
}
