import { useMemo } from "react";
import { type Command, coracleCommand, eachInTurn, shellCommand } from "../../commands/command";
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
      commands={filesOf(id)}
    />
  );
}

// What the kernel counts: CPU time and memory, of cgroup v1 and v2.
const files = ["cpuacct.usage", "memory.usage_in_bytes", "cpu.stat", "memory.current"];

/** FilesOf returns the commands that read what the kernel counts, on the machine of the daemon. */
function filesOf(id: string): Command[] {
  const found = files.map((file) =>
    shellCommand("Files", ["find", "/sys/fs/cgroup"], ["-path", `*/${id}/${file}`], ["-exec", "tail", "{}", "+"]),
  );
  return eachInTurn([...found, coracleCommand("exec", id, "--", "cat", "/proc/net/dev")]);
}
