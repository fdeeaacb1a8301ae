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

/** FormatBytes returns a number of bytes as people read it: "1.5 GiB". */
export function formatBytes(bytes: number): string {
  let unit = 0;
  for (; Math.abs(bytes) >= 1024 && unit < binary.length - 1; unit++) bytes /= 1024;
  return `${round(bytes, bytes < 10 && unit > 0 ? 1 : 0)} ${binary[unit] ?? ""}`;
}

/** FormatValue returns a number of a unit as people read it. */
export function formatValue(value: number, unit: Unit): string {
  switch (unit) {
    case "bytes":
      return formatBytes(value);
    case "percent":
      return `${round(value, value < 10 ? 1 : 0)} %`;
    case "cpus":
      return round(value, value < 10 ? 2 : 1);
    case "count":
      return round(value, 2);
  }
}

function round(value: number, digits: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}
