import type { StatusIndicatorProps } from "@cloudscape-design/components/status-indicator";

type Type = StatusIndicatorProps.Type;

/** What ends in these words, as the statuses of CloudFormation, node groups and add-ons do. */
const endings: [RegExp, Type][] = [
  [/ROLLBACK_COMPLETE$/, "warning"],
  [/(^|_)FAILED$/, "error"],
  [/_IN_PROGRESS$/, "in-progress"],
  [/_COMPLETE$/, "success"],
];

const types: Record<string, Type> = {
  // EKS
  ACTIVE: "success",
  CREATING: "in-progress",
  UPDATING: "in-progress",
  DELETING: "in-progress",
  PENDING: "pending",
  DEGRADED: "warning",
  SUCCESSFUL: "success",
  INPROGRESS: "in-progress",
  CANCELLED: "stopped",
  PASSING: "success",
  WARNING: "warning",
  ERROR: "error",
  UNKNOWN: "pending",
  // EC2
  RUNNING: "success",
  STOPPING: "in-progress",
  STOPPED: "stopped",
  "SHUTTING-DOWN": "in-progress",
  TERMINATED: "stopped",
  AVAILABLE: "success",
  "IN-USE": "success",
  ATTACHED: "success",
  ATTACHING: "in-progress",
  DETACHING: "in-progress",
  COMPLETED: "success",
  DELETED: "stopped",
  INITIALIZING: "in-progress",
  OK: "success",
  IMPAIRED: "error",
  // Elastic Load Balancing
  PROVISIONING: "in-progress",
  ACTIVE_IMPAIRED: "warning",
  HEALTHY: "success",
  INITIAL: "in-progress",
  UNHEALTHY: "error",
  DRAINING: "in-progress",
  UNUSED: "stopped",
  // Kubernetes
  SUCCEEDED: "success",
  READY: "success",
  BOUND: "success",
  TERMINATING: "in-progress",
};

/** StatusType returns how a status of AWS or Kubernetes looks. */
export function statusType(status: string): Type {
  const upper = status.toUpperCase().replaceAll(" ", "_");
  return types[upper] ?? endings.find(([ending]) => ending.test(upper))?.[1] ?? "info";
}

/** FormatStatus returns a status as AWS's console writes it: "Create failed". */
export function formatStatus(status: string): string {
  const words = status
    .replace(/([a-z])([A-Z])/g, "$1 $2")
    .replaceAll(/[_-]/g, " ")
    .toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}
