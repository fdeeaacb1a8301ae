import { expect, test } from "vitest";
import { formatBytes, formatValue, type Line, metricDataInput, pointsOf, scaleOf } from "./metrics";

const cpu: Line = {
  title: "CPU utilization",
  namespace: "AWS/EC2",
  name: "CPUUtilization",
  dimensions: { InstanceId: "i-1" },
};
const network: Line = { ...cpu, title: "Network in", name: "NetworkIn", stat: "Sum" };

test("lines are asked for by whole minutes that have ended", () => {
  const input = metricDataInput([cpu, network], 60, Date.parse("2026-11-30T12:34:56Z"));
  expect(input.StartTime).toEqual(new Date("2026-11-30T11:34:00Z"));
  expect(input.EndTime).toEqual(new Date("2026-11-30T12:34:00Z"));
  expect(input.MetricDataQueries?.map((q) => [q.Id, q.Label, q.MetricStat?.Stat, q.MetricStat?.Period])).toEqual([
    ["m0", "CPU utilization", "Average", 60],
    ["m1", "Network in", "Sum", 60],
  ]);
  expect(input.MetricDataQueries?.[0]?.MetricStat?.Metric).toEqual({
    Namespace: "AWS/EC2",
    MetricName: "CPUUtilization",
    Dimensions: [{ Name: "InstanceId", Value: "i-1" }],
  });
});

test("points come in the order of time, whatever the order of the answer", () => {
  const at = (minute: number) => new Date(Date.UTC(2026, 10, 30, 12, minute));
  const results = [
    { Id: "m1", Timestamps: [at(2), at(1)], Values: [7, 5] },
    { Id: "m7", Timestamps: [at(2)], Values: [1] },
  ];
  expect(pointsOf([cpu, network], results)).toEqual([
    [],
    [
      { x: at(1), y: 5 },
      { x: at(2), y: 7 },
    ],
  ]);
});

test.each([
  [0, "0 B"],
  [1023, "1,023 B"],
  [1536, "1.5 KiB"],
  [250 * 1024 ** 2, "250 MiB"],
  [15.97 * 1024 ** 3, "16 GiB"],
  [3 * 1024 ** 5, "3 PiB"],
])("%d bytes are %s", (bytes, text) => expect(formatBytes(bytes)).toBe(text));

test("charts are drawn in the unit of their largest number", () => {
  expect(scaleOf(250 * 1024 ** 2)).toEqual({ name: "MiB", size: 1024 ** 2 });
  expect(scaleOf(0)).toEqual({ name: "B", size: 1 });
});

test("numbers have the digits that matter", () => {
  expect(formatValue(2.345, "percent")).toBe("2.3 %");
  expect(formatValue(56.78, "percent")).toBe("57 %");
  expect(formatValue(0.123, "cpus")).toBe("0.12");
  expect(formatValue(0.0045, "cpus")).toBe("0.0045");
  expect(formatValue(1, "count")).toBe("1");
});
