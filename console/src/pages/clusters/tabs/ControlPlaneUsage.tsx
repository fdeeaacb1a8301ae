import Box from "@cloudscape-design/components/box";
import { useMemo } from "react";
import { coracleCommand } from "../../../commands/command";
import { type Chart } from "../../../metrics/MetricChart";
import { MetricCharts } from "../../../metrics/MetricCharts";
import type { Line } from "../../../metrics/metrics";

const components = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "aws-cloud-controller-manager"];

/** UsageCharts returns the charts of what the components of a control plane take of the machine. */
function usageCharts(name: string): Chart[] {
  const lines = (metric: string): Line[] =>
    components.map((component) => ({
      title: component,
      namespace: "Coracle",
      name: metric,
      dimensions: { ClusterName: name, Component: component },
    }));
  return [
    { title: "Memory", unit: "bytes", lines: lines("MemoryUsed") },
    { title: "CPUs", unit: "cpus", lines: lines("CPUUsed") },
  ];
}

/** ControlPlaneUsage shows what the control plane of a cluster costs this machine over time. */
export function ControlPlaneUsage({ name }: { name: string }) {
  const charts = useMemo(() => usageCharts(name), [name]);
  return (
    <Box padding={{ top: "l" }}>
      <MetricCharts
        title="Control plane on this machine"
        description="What its components take, one data point a minute. On AWS, nobody sees this."
        charts={charts}
        commands={[coracleCommand("status")]}
      />
    </Box>
  );
}
