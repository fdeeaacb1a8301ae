import Button from "@cloudscape-design/components/button";
import Grid from "@cloudscape-design/components/grid";
import Header from "@cloudscape-design/components/header";
import SegmentedControl from "@cloudscape-design/components/segmented-control";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMemo, useState } from "react";
import { awsCommand, type Command } from "../commands/command";
import { ErrorAlert } from "../components/ErrorAlert";
import { Loading } from "../components/Loading";
import { ShowCommand } from "../components/ShowCommand";
import { useSession } from "../session/SessionProvider";
import { type Chart, MetricChart } from "./MetricChart";
import { useMetrics } from "./useMetrics";

interface Props {
  title: string;
  description?: string;
  charts: Chart[];
  /** Commands beside that of CloudWatch. */
  commands?: Command[];
}

const ranges = [
  { id: "60", text: "1h" },
  { id: "180", text: "3h" },
];

/** MetricCharts shows charts of metrics side by side, of the last hour or three. */
export function MetricCharts({ title, description, charts, commands = [] }: Props) {
  const { session } = useSession();
  const [minutes, setMinutes] = useState("60");
  const lines = useMemo(() => charts.flatMap((c) => c.lines), [charts]);
  const { data, error, refetch, isFetching } = useMetrics(lines, Number(minutes));
  const shown = charts.map((chart, i) => {
    const from = charts.slice(0, i).reduce((n, c) => n + c.lines.length, 0);
    return { chart, points: data?.points.slice(from, from + chart.lines.length) ?? [] };
  });
  const [first] = data?.inputs ?? [];
  const domain: [Date, Date] = [first?.StartTime ?? new Date(0), first?.EndTime ?? new Date(0)];
  return (
    <SpaceBetween size="m">
      <Header
        variant="h2"
        description={description}
        actions={
          <SpaceBetween direction="horizontal" size="xs">
            <SegmentedControl
              label="Time range"
              selectedId={minutes}
              onChange={({ detail }) => setMinutes(detail.selectedId)}
              options={ranges}
            />
            <ShowCommand
              commands={[
                ...(data?.inputs ?? []).map((input) =>
                  awsCommand("cloudwatch", "get-metric-data", input, session.region),
                ),
                ...commands,
              ]}
            />
            <Button
              iconName="refresh"
              ariaLabel={`Refresh ${title.toLowerCase()}`}
              loading={isFetching}
              loadingText={`Refreshing ${title.toLowerCase()}`}
              onClick={() => void refetch()}
            />
          </SpaceBetween>
        }
      >
        {title}
      </Header>
      {error !== null && <ErrorAlert attempted="Get metric data" error={error} retry={() => void refetch()} />}
      {data === undefined && error === null && <Loading what="metrics" />}
      {data !== undefined && (
        <Grid gridDefinition={charts.map(() => ({ colspan: { default: 12, s: 6, l: 4 } }))}>
          {shown.map(({ chart, points }) => (
            <MetricChart key={chart.title} chart={chart} points={points} domain={domain} />
          ))}
        </Grid>
      )}
    </SpaceBetween>
  );
}
