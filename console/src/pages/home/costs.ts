// What this machine has, and who takes what of it.
import type { Metric } from "@aws-sdk/client-cloudwatch";
import type { Line, Point } from "../../metrics/metrics";

/** Who takes something: the daemon's processes, a cluster's control plane, an instance. */
export interface Cost {
  kind: "Coracle" | "Cluster" | "Instance";
  name: string;
  memory?: number;
  cpu?: number;
  disk?: number;
}

/** What the machine has; members that are not known are left out. */
export interface Machine {
  memoryTotal?: number;
  memoryAvailable?: number;
  cpuTotal?: number;
  cpuUsed?: number;
  diskTotal?: number;
  diskFree?: number;
  /** What the data directory takes. */
  diskUsed?: number;
  /** The same by directory, the largest first. */
  directories: [name: string, bytes: number][];
}

const kinds: Record<string, Cost["kind"]> = { Process: "Coracle", ClusterName: "Cluster", InstanceId: "Instance" };

/** CostLines returns the metrics of the namespace Coracle that have a part in what the machine spends. */
export function costLines(metrics: Metric[]): Line[] {
  return metrics
    .filter(({ Dimensions = [] }) => Dimensions.length < 2) // components of clusters are in the sum of their cluster
    .map(({ Namespace = "", MetricName = "", Dimensions = [] }) => ({
      title: [...Dimensions.map(({ Value = "" }) => Value), MetricName].join(" "),
      namespace: Namespace,
      name: MetricName,
      dimensions: Object.fromEntries(Dimensions.map(({ Name = "", Value = "" }) => [Name, Value])),
    }));
}

/** CostsOf returns what the machine has and who takes what, by the newest point of each line; most memory first. */
export function costsOf(lines: Line[], points: Point[][]): { machine: Machine; costs: Cost[] } {
  const machine: Machine = { directories: [] };
  const costs = new Map<string, Cost>();
  lines.forEach(({ name, dimensions }, i) => {
    const value = points[i]?.at(-1)?.y;
    if (value === undefined) return;
    const [dimension] = Object.entries(dimensions);
    if (dimension === undefined) {
      set(machine, name, value);
      return;
    }
    const [of, who] = dimension;
    const kind = kinds[of];
    if (of === "Directory") machine.directories.push([who, value]);
    if (kind === undefined) return;
    const cost = costs.get(`${kind} ${who}`) ?? { kind, name: who };
    costs.set(`${kind} ${who}`, cost);
    if (name === "MemoryUsed") cost.memory = value;
    if (name === "CPUUsed") cost.cpu = value;
    if (name === "DiskUsed") cost.disk = value;
  });
  machine.directories.sort(([, a], [, b]) => b - a);
  return { machine, costs: [...costs.values()].sort((a, b) => (b.memory ?? 0) - (a.memory ?? 0)) };
}

function set(machine: Machine, name: string, value: number): void {
  switch (name) {
    case "MemoryTotal":
      machine.memoryTotal = value;
      break;
    case "MemoryAvailable":
      machine.memoryAvailable = value;
      break;
    case "CPUTotal":
      machine.cpuTotal = value;
      break;
    case "CPUUsed":
      machine.cpuUsed = value;
      break;
    case "DiskTotal":
      machine.diskTotal = value;
      break;
    case "DiskFree":
      machine.diskFree = value;
      break;
    case "DiskUsed":
      machine.diskUsed = value;
  }
}

/** Sum adds up what is known of some costs; undefined where nothing is. */
export function sum(costs: Cost[], of: "memory" | "cpu" | "disk"): number | undefined {
  const known = costs.map((c) => c[of]).filter((n) => n !== undefined);
  return known.length === 0 ? undefined : known.reduce((a, b) => a + b, 0);
}
