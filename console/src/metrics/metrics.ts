// Metrics of CloudWatch: what is asked for, and what becomes of the answer.
import type { GetMetricDataCommandInput, MetricDataQuery, MetricDataResult } from "@aws-sdk/client-cloudwatch";

/** A metric, and the statistic of it that is shown. */
export interface Line {
  title: string;
  namespace: string;
  name: string;
  dimensions: Record<string, string>;
  stat?: "Average" | "Sum" | "Maximum";
}

/** A point of a line. */
export interface Point {
  x: Date;
  y: number;
}

/** How many metrics one request may ask for. */
export const maxQueries = 500;

const minute = 60_000;

/** MetricDataInput asks for lines of the last minutes, each minute, up to the one that has ended. */
export function metricDataInput(lines: Line[], minutes: number, now: number): GetMetricDataCommandInput {
  const end = Math.floor(now / minute) * minute;
  return {
    StartTime: new Date(end - minutes * minute),
    EndTime: new Date(end),
    ScanBy: "TimestampAscending",
    MetricDataQueries: lines.map(
      ({ title, namespace, name, dimensions, stat = "Average" }, i): MetricDataQuery => ({
        Id: `m${i}`,
        Label: title,
        MetricStat: {
          Metric: {
            Namespace: namespace,
            MetricName: name,
            Dimensions: Object.entries(dimensions).map(([Name, Value]) => ({ Name, Value })),
          },
          Period: 60,
          Stat: stat,
        },
      }),
    ),
  };
}

/** PointsOf returns the points of each line, in the order of the lines. */
export function pointsOf(lines: Line[], results: MetricDataResult[]): Point[][] {
  const found = new Map(results.map((r) => [r.Id, r]));
  return lines.map((_, i) => {
    const { Timestamps = [], Values = [] } = found.get(`m${i}`) ?? {};
    return Timestamps.map((x, at) => ({ x, y: Values[at] ?? 0 })).sort((a, b) => a.x.getTime() - b.x.getTime());
  });
}

/** What a number counts. */
export type Unit = "bytes" | "percent" | "cpus" | "count";

const binary = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** ScaleOf returns the largest unit of a number of bytes that is not larger than it, and how many bytes it has. */
export function scaleOf(bytes: number): { name: string; size: number } {
  let unit = 0;
  for (; Math.abs(bytes) >= 1024 && unit < binary.length - 1; unit++) bytes /= 1024;
  return { name: binary[unit] ?? "", size: 1024 ** unit };
}

/** FormatBytes returns a number of bytes as people read it: "1.5 GiB". */
export function formatBytes(bytes: number): string {
  const { name, size } = scaleOf(bytes);
  return `${round(bytes / size)} ${name}`;
}

/** FormatValue returns a number of a unit as people read it. */
export function formatValue(value: number, unit: Unit): string {
  switch (unit) {
    case "bytes":
      return formatBytes(value);
    case "percent":
      return `${round(value)} %`;
    case "cpus":
    case "count":
      return round(value);
  }
}

/** Round writes two digits of a small number, and no fraction of a large one. */
export function round(value: number): string {
  const digits = value < 10 ? { maximumSignificantDigits: 2 } : { maximumFractionDigits: 0 };
  return value.toLocaleString("en-US", digits);
}
