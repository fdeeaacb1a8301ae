// What Logs Insights answers, and what its language has.
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/CWL_QuerySyntax.html
import type { ResultField } from "@aws-sdk/client-cloudwatch-logs";

/** The commands of the language, with what each does. */
export const commands: Record<string, string> = {
  fields: "shows fields, and what is computed of them",
  display: "shows exactly these fields",
  filter: "keeps what fulfills a condition",
  filterIndex: "keeps what has an indexed field with a value",
  stats: "computes aggregates, a row for each group",
  sort: "sorts, ascending unless desc",
  limit: "keeps the first rows",
  parse: "takes texts out of a field",
  dedup: "keeps one row for the same values",
  pattern: "clusters messages",
  diff: "compares with an earlier time range",
  unnest: "makes a row for each element of an array",
  unmask: "shows a masked field",
  SOURCE: "names log groups",
};

/** Words that are no commands. */
export const words = ["as", "by", "asc", "desc", "and", "or", "not", "in", "like", "into"];

export const functions = (
  "abs ceil floor greatest least log sqrt round haversine toNumber toInt toLong toDouble bin datefloor dateceil " +
  "fromMillis toMillis now parseDate formatDate strftime ispresent coalesce case if isNumeric messageSize " +
  "queryStartTime queryEndTime queryTimeRange jsonParse jsonStringify jsonArraySize jsonArrayContains isValidIp " +
  "isValidIpV4 isValidIpV6 isIpInSubnet isIpv4InSubnet isIpv6InSubnet ipv4ToNumber isPrivateIP isPublicIP " +
  "isReservedIP isempty isblank concat ltrim rtrim trim strlen toupper tolower substr replace regexReplace " +
  "strcontains startsWith endsWith urlencode urldecode base64encode base64decode split hexToAscii hexToDec decToHex"
).split(" ");

export const aggregates = (
  "avg count count_distinct max min pct stddev sum earliest latest sortsFirst sortsLast rate count_over_time " +
  "sum_over_time histogram"
).split(" ");

/** The fields that all events have. */
export const systemFields = ["@timestamp", "@message", "@logStream", "@log", "@ingestionTime", "@ptr"];

/** A result as a table: the columns in their order, and each row's values by column. */
export interface Table {
  columns: string[];
  rows: Record<string, string>[];
}

/** TableOf returns a result as a table. Rows lack what is absent, so that a column may first be in a later row. */
export function tableOf(results: ResultField[][]): Table {
  const columns: string[] = [];
  const rows = results.map((fields) => {
    const row: Record<string, string> = {};
    let next = 0; // where a column stands that no row before had
    for (const { field = "", value = "" } of fields) {
      row[field] = value;
      if (field === "@ptr") continue; // points to an event
      const known = columns.indexOf(field);
      if (known < 0) columns.splice(next, 0, field);
      next = (known < 0 ? next : known) + 1;
    }
    return row;
  });
  return { columns, rows };
}

/** A line of a chart. */
export interface Series {
  title: string;
  points: { x: Date; y: number }[];
}

/** A result as a chart: over time where a column has periods of bin(), in bars by group otherwise. */
export type Chart =
  | { kind: "time"; series: Series[] }
  | { kind: "bars"; groups: string[]; bars: { title: string; values: number[] }[] };

/** The most lines and groups that a chart shows. */
export const mostSeries = 10;
export const mostGroups = 50;

const timePattern = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?$/;

/** TimeOf returns a time of a result, which is in UTC; undefined for other texts. */
export function timeOf(text: string): Date | undefined {
  return timePattern.test(text) ? new Date(text.replace(" ", "T") + "Z") : undefined;
}

/** ChartOf returns the chart of a result of stats; undefined where it has no numbers, or is no result of stats. */
export function chartOf({ columns, rows }: Table): Chart | undefined {
  const values = (column: string) => rows.map((row) => row[column] ?? "").filter((value) => value !== "");
  const is = (column: string, test: (value: string) => boolean) =>
    values(column).length > 0 && values(column).every(test);
  const isEvents = columns.some((column) => column === "@timestamp" || column === "@message");
  if (rows.length === 0 || isEvents) return undefined;
  const time = columns.find((column) => is(column, (value) => timeOf(value) !== undefined));
  const numeric = (column: string) => column !== time && is(column, (value) => Number.isFinite(Number(value)));
  // Groups come first, even those whose values are numbers.
  const numbers = columns.slice(columns.findLastIndex((column) => !numeric(column)) + 1);
  if (numbers.length === 0) return undefined;
  const groups = columns.filter((column) => column !== time && !numbers.includes(column));
  const nameOf = (row: Record<string, string>) => groups.map((column) => row[column] ?? "-").join(", ");
  if (time === undefined) {
    const shown = rows.slice(0, mostGroups);
    return {
      kind: "bars",
      groups: shown.map((row, i) => (groups.length === 0 ? String(i + 1) : nameOf(row))),
      bars: numbers.map((column) => ({ title: column, values: shown.map((row) => Number(row[column] ?? 0)) })),
    };
  }
  const series = new Map<string, Series>();
  for (const row of rows) {
    const x = timeOf(row[time] ?? "");
    if (x === undefined) continue;
    for (const column of numbers) {
      const group = nameOf(row);
      const title = group === "" ? column : numbers.length === 1 ? group : `${group}: ${column}`;
      const of = series.get(title) ?? { title, points: [] };
      series.set(title, of);
      of.points.push({ x, y: Number(row[column] ?? 0) });
    }
  }
  const total = (s: Series) => s.points.reduce((sum, { y }) => sum + y, 0);
  const largest = [...series.values()].sort((a, b) => total(b) - total(a)).slice(0, mostSeries);
  for (const s of largest) s.points.sort((a, b) => a.x.getTime() - b.x.getTime());
  return { kind: "time", series: largest };
}

/** CsvOf returns a table as a file of comma-separated values. What a spreadsheet takes for a formula is quoted. */
export function csvOf({ columns, rows }: Table): string {
  const cell = (text: string) => {
    const safe = /^[=+\-@\t\r]/.test(text) && !Number.isFinite(Number(text)) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [columns, ...rows.map((row) => columns.map((column) => row[column] ?? ""))]
    .map((line) => line.map(cell).join(",") + "\r\n")
    .join("");
}
