import { expect, test } from "vitest";
import { chartOf, csvOf, tableOf, timeOf } from "./insights";

const row = (values: Partial<Record<string, string>>) =>
  Object.entries(values).map(([field, value]) => ({ field, value }));

test("columns are in the order of the query, also where rows lack some", () => {
  const rows = [{ n: "1", "@ptr": "x" }, { verb: "list", code: "200", n: "2" }, { code: "404" }];
  const table = tableOf(rows.map(row));
  expect(table.columns).toEqual(["verb", "code", "n"]);
  expect(table.rows[1]).toEqual({ verb: "list", code: "200", n: "2" });
});

test("times are in UTC", () => {
  expect(timeOf("2026-11-30 10:35:00.000")?.toISOString()).toBe("2026-11-30T10:35:00.000Z");
  expect(timeOf("10:35")).toBeUndefined();
});

test("events have no chart", () => {
  expect(chartOf(tableOf([row({ "@timestamp": "2026-11-30 10:35:00.000", latency: "3" })]))).toBeUndefined();
  expect(chartOf(tableOf([]))).toBeUndefined();
  expect(chartOf(tableOf([row({ verb: "get", why: "none" })]))).toBeUndefined();
});

test("a group over time is a line", () => {
  const at = (minute: string) => `2026-11-30 10:${minute}:00.000`;
  const chart = chartOf(
    tableOf([
      row({ "bin(1m)": at("36"), user: "a", "count(*)": "3" }),
      row({ "bin(1m)": at("35"), user: "a", "count(*)": "1" }),
      row({ "bin(1m)": at("35"), user: "b", "count(*)": "9" }),
    ]),
  );
  if (chart?.kind !== "time") throw new Error("it is no chart over time");
  expect(chart.series.map((s) => s.title)).toEqual(["b", "a"]);
  expect(chart.series[1]?.points.map((p) => p.y)).toEqual([1, 3]);
});

test("groups without a time are bars, also where their values are numbers", () => {
  const chart = chartOf(
    tableOf([row({ verb: "get", code: "200", n: "3" }), row({ verb: "list", code: "403", n: "1" })]),
  );
  expect(chart).toEqual({
    kind: "bars",
    groups: ["get", "list"],
    bars: [
      { title: "code", values: [200, 403] },
      { title: "n", values: [3, 1] },
    ],
  });
});

test("a spreadsheet runs nothing that a log says", () => {
  expect(csvOf({ columns: ["a", "b"], rows: [{ a: '=cmd("x")', b: "-3.5" }, { a: "x,y" }] })).toBe(
    'a,b\r\n"\'=cmd(""x"")",-3.5\r\n"x,y",\r\n',
  );
});
