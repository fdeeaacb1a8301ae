// Nodes, as kubectl describes them.
import type { KubernetesObject } from "../../kubernetes/objects";

export interface Node extends KubernetesObject {
  spec?: { unschedulable?: boolean };
  status?: {
    conditions?: { type: string; status: string }[];
    nodeInfo?: { kubeletVersion?: string };
  };
}

/** NodeStatus returns the status of a node: "Ready", "Ready,SchedulingDisabled", "NotReady". */
export function nodeStatus(node: Node): string {
  const ready = node.status?.conditions?.find(({ type }) => type === "Ready")?.status;
  const words = [ready === "True" ? "Ready" : ready === undefined ? "Unknown" : "NotReady"];
  if (node.spec?.unschedulable === true) words.push("SchedulingDisabled");
  return words.join(",");
}
