// The charts of an instance, as EC2's console has them.
import type { Chart } from "../../metrics/MetricChart";
import type { Line } from "../../metrics/metrics";

/** InstanceCharts returns the charts of an instance. */
export function instanceCharts(id: string): Chart[] {
  const dimensions = { InstanceId: id };
  const ec2 = (title: string, name: string, stat: Line["stat"]): Line => ({
    title,
    namespace: "AWS/EC2",
    name,
    dimensions,
    stat,
  });
  const own = (title: string, name: string): Line => ({ title, namespace: "Coracle", name, dimensions });
  return [
    { title: "CPU utilization (%)", unit: "percent", lines: [ec2("CPUUtilization", "CPUUtilization", "Average")] },
    {
      title: "Network (bytes per minute)",
      unit: "bytes",
      lines: [ec2("NetworkIn", "NetworkIn", "Sum"), ec2("NetworkOut", "NetworkOut", "Sum")],
    },
    {
      title: "Network packets (count per minute)",
      unit: "count",
      lines: [ec2("NetworkPacketsIn", "NetworkPacketsIn", "Sum"), ec2("NetworkPacketsOut", "NetworkPacketsOut", "Sum")],
    },
    {
      title: "EBS (bytes per minute)",
      unit: "bytes",
      lines: [ec2("EBSReadBytes", "EBSReadBytes", "Sum"), ec2("EBSWriteBytes", "EBSWriteBytes", "Sum")],
    },
    {
      title: "EBS operations (count per minute)",
      unit: "count",
      lines: [ec2("EBSReadOps", "EBSReadOps", "Sum"), ec2("EBSWriteOps", "EBSWriteOps", "Sum")],
    },
    {
      title: "Status check failed (count)",
      unit: "count",
      lines: [
        ec2("StatusCheckFailed_Instance", "StatusCheckFailed_Instance", "Maximum"),
        ec2("StatusCheckFailed_System", "StatusCheckFailed_System", "Maximum"),
      ],
    },
    { title: "Memory on this machine", unit: "bytes", lines: [own("MemoryUsed", "MemoryUsed")] },
    { title: "CPUs on this machine", unit: "cpus", lines: [own("CPUUsed", "CPUUsed")] },
    { title: "Disk on this machine", unit: "bytes", lines: [own("DiskUsed", "DiskUsed")] },
  ];
}
