import BarChart from "@cloudscape-design/components/bar-chart";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import LineChart from "@cloudscape-design/components/line-chart";
import Pagination from "@cloudscape-design/components/pagination";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import Tabs from "@cloudscape-design/components/tabs";
import { useMemo, useState } from "react";
import { type Chart, chartOf, csvOf, type Table as Result, tableOf } from "./insights";
import type { Run } from "./useQueryRun";

const pageSize = 50;

/** QueryResults shows what a query has found: as a table, and as a chart if it counts something. */
export function QueryResults({ run }: { run: Run }) {
  const { answer, running } = run;
  const table = useMemo(() => tableOf(answer?.results ?? []), [answer]);
  const chart = useMemo(() => chartOf(table), [table]);
  if (answer === undefined) {
    return running ? <StatusIndicator type="loading">Starting the query</StatusIndicator> : null;
  }
  const { recordsMatched = 0, recordsScanned = 0, bytesScanned = 0 } = answer.statistics ?? {};
  const counted = (n: number) => n.toLocaleString("en-US");
  return (
    <Container
      header={
        <Header
          counter={`(${counted(table.rows.length)})`}
          description={
            `${counted(recordsMatched)} records matched, ${counted(recordsScanned)} records ` +
            `(${counted(Math.round(bytesScanned))} bytes) scanned`
          }
          actions={
            <Button iconName="download" disabled={table.rows.length === 0} onClick={() => download(table)}>
              Export results
            </Button>
          }
        >
          Results
        </Header>
      }
    >
      <SpaceBetween size="s">
        <QueryStatus status={answer.status} />
        <Tabs
          tabs={[
            { id: "results", label: "Logs", content: <ResultTable table={table} running={running} /> },
            {
              id: "chart",
              label: "Visualization",
              content: chart === undefined ? <NoChart /> : <ResultChart chart={chart} />,
            },
          ]}
        />
      </SpaceBetween>
    </Container>
  );
}

function QueryStatus({ status }: { status: string | undefined }) {
  switch (status) {
    case "Complete":
      return <StatusIndicator type="success">Complete</StatusIndicator>;
    case "Scheduled":
    case "Running":
      return <StatusIndicator type="in-progress">{status}</StatusIndicator>;
    case "Cancelled":
      return <StatusIndicator type="stopped">Cancelled</StatusIndicator>;
    default:
      return (
        <StatusIndicator type="error">
          {status ?? "Unknown"}: a query that needs too much memory or time ends so. Narrow its range or its filters.
        </StatusIndicator>
      );
  }
}

function ResultTable({ table, running }: { table: Result; running: boolean }) {
  const [page, setPage] = useState(1);
  const pages = Math.max(1, Math.ceil(table.rows.length / pageSize));
  const shown = Math.min(page, pages);
  return (
    <Table
      variant="embedded"
      resizableColumns
      wrapLines
      enableKeyboardNavigation
      ariaLabels={{ tableLabel: "Results" }}
      items={table.rows.slice((shown - 1) * pageSize, shown * pageSize)}
      columnDefinitions={table.columns.map((column) => ({
        id: column,
        header: column,
        cell: (row: Record<string, string>) => <span className="log-value">{row[column] ?? "-"}</span>,
        minWidth: 120,
        width: column === "@message" ? 700 : undefined,
      }))}
      loading={running && table.rows.length === 0}
      loadingText="Running the query"
      empty={<Box textAlign="center">No results. Choose a longer time range, or fewer conditions.</Box>}
      pagination={
        pages > 1 && (
          <Pagination
            currentPageIndex={shown}
            pagesCount={pages}
            onChange={({ detail }) => setPage(detail.currentPageIndex)}
            ariaLabels={{
              nextPageLabel: "Next page",
              previousPageLabel: "Previous page",
              pageLabel: (n) => `Page ${n} of ${pages}`,
            }}
          />
        )
      }
    />
  );
}

function NoChart() {
  return (
    <Box color="text-body-secondary">
      A chart shows what <Box variant="code">stats</Box> computes, over time with{" "}
      <Box variant="code">by bin(5m)</Box>: <Box variant="code">stats count(*) by verb, bin(5m)</Box>
    </Box>
  );
}

function ResultChart({ chart }: { chart: Chart }) {
  const texts = {
    filterLabel: "Filter displayed data",
    filterPlaceholder: "Filter data",
    filterSelectedAriaLabel: "selected",
    detailPopoverDismissAriaLabel: "Dismiss",
    legendAriaLabel: "Legend",
    chartAriaRoleDescription: "chart",
    xAxisAriaRoleDescription: "x axis",
    yAxisAriaRoleDescription: "y axis",
  };
  if (chart.kind === "bars") {
    return (
      <BarChart
        horizontalBars
        ariaLabel="Results by group"
        height={Math.max(200, chart.groups.length * 32)}
        xScaleType="categorical"
        xDomain={chart.groups}
        series={chart.bars.map(({ title, values }) => ({
          type: "bar",
          title,
          data: values.map((y, i) => ({ x: chart.groups[i] ?? "", y })),
        }))}
        i18nStrings={texts}
        empty="No data"
      />
    );
  }
  return (
    <LineChart
      ariaLabel="Results over time"
      height={320}
      xScaleType="time"
      series={chart.series.map(({ title, points }) => ({ type: "line", title, data: points }))}
      i18nStrings={texts}
      xTickFormatter={(x) => x.toLocaleString("en-US", { dateStyle: "short", timeStyle: "short", hourCycle: "h23" })}
      empty="No data"
    />
  );
}

function download(table: Result): void {
  const url = URL.createObjectURL(new Blob([csvOf(table)], { type: "text/csv" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = "logs-insights-results.csv";
  link.click();
  URL.revokeObjectURL(url);
}
