import { expect, test } from "vitest";
import { costLines, costsOf, sum } from "./costs";

const metric = (MetricName: string, ...dimensions: [string, string][]) => ({
  Namespace: "Coracle",
  MetricName,
  Dimensions: dimensions.map(([Name, Value]) => ({ Name, Value })),
});

test("who takes what follows from the newest data points", () => {
  const lines = costLines([
    metric("MemoryTotal"),
    metric("MemoryAvailable"),
    metric("CPUUsed"),
    metric("DiskUsed"),
    metric("DiskUsed", ["Directory", "etcd"]),
    metric("DiskUsed", ["Directory", "volumes"]),
    metric("MemoryUsed", ["Process", "coracle"]),
    metric("MemoryUsed", ["ClusterName", "web"]),
    metric("CPUUsed", ["ClusterName", "web"]),
    metric("MemoryUsed", ["ClusterName", "web"], ["Component", "kube-apiserver"]),
    metric("DiskUsed", ["InstanceId", "i-1"]),
    metric("MemoryUsed", ["ClusterName", "gone"]),
  ]);
  expect(lines).toHaveLength(11);
  expect(lines[6]).toEqual({
    title: "coracle MemoryUsed",
    namespace: "Coracle",
    name: "MemoryUsed",
    dimensions: { Process: "coracle" },
  });
  const values = [100, 60, 0.5, 30, 5, 20, 7, 40, 0.2, 9];
  const points = [...values.map((y) => [{ x: new Date(0), y: 1 }, { x: new Date(60_000), y }]), []];
  const { machine, costs } = costsOf(lines, points);
  expect(machine).toEqual({
    memoryTotal: 100,
    memoryAvailable: 60,
    cpuUsed: 0.5,
    diskUsed: 30,
    directories: [
      ["volumes", 20],
      ["etcd", 5],
    ],
  });
  expect(costs).toEqual([
    { kind: "Cluster", name: "web", memory: 40, cpu: 0.2 },
    { kind: "Coracle", name: "coracle", memory: 7 },
    { kind: "Instance", name: "i-1", disk: 9 },
  ]);
  expect(sum(costs, "memory")).toBe(47);
  expect(sum([], "cpu")).toBeUndefined();
});
