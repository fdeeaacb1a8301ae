import { useMemo } from "react";
import { MetricCharts } from "../../metrics/MetricCharts";
import { instanceCharts } from "./monitoring";

/** InstanceMonitoring shows the metrics of an instance over time. */
export function InstanceMonitoring({ id }: { id: string }) {
  const charts = useMemo(() => instanceCharts(id), [id]);
  return (
    <MetricCharts
      title="Monitoring"
      description="Metrics of CloudWatch, one data point a minute; the last three are what this machine spends."
      charts={charts}
      commands={[{ title: "Files", text: filesOf(id) }]}
    />
  );
}

/** FilesOf returns the commands that read what the kernel counts, on the machine of the daemon. */
function filesOf(id: string): string {
  return [
    `# cgroup v1: CPU time in nanoseconds, memory in bytes`,
    `cat /sys/fs/cgroup/cpuacct/coracle/*/${id}/cpuacct.usage`,
    `cat /sys/fs/cgroup/memory/coracle/*/${id}/memory.usage_in_bytes`,
    `# cgroup v2`,
    `cat /sys/fs/cgroup/coracle/*/${id}/cpu.stat`,
    `cat /sys/fs/cgroup/coracle/*/${id}/memory.current`,
    `# network interfaces`,
    `coracle exec ${id} -- cat /proc/net/dev`,
  ].join("\n");
}
