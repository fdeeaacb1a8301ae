import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import LineChart from "@cloudscape-design/components/line-chart";
import { formatValue, type Line, type Point, round, scaleOf, type Unit } from "./metrics";

/** A chart: some lines of one unit. */
export interface Chart {
  title: string;
  unit: Unit;
  lines: Line[];
}

interface Props {
  chart: Chart;
  points: Point[][];
  /** From when on, and until when. */
  domain: [Date, Date];
}

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

const clock = (x: Date) => x.toLocaleString("en-US", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

/** MetricChart draws the lines of a chart over time. */
export function MetricChart({ chart: { title, unit, lines }, points, domain }: Props) {
  const most = Math.max(0, ...points.flatMap((line) => line.map(({ y }) => y)));
  // Ticks are round numbers of the unit that the axis has.
  const scale = unit === "bytes" ? scaleOf(most) : { name: "", size: 1 };
  const shown = lines.map((line, i) => ({
    type: "line" as const,
    title: line.title,
    data: (points[i] ?? []).map(({ x, y }) => ({ x, y: y / scale.size })),
    valueFormatter: (y: number) => formatValue(y * scale.size, unit),
  }));
  return (
    <Container header={<Header variant="h3">{title}</Header>} fitHeight>
      <LineChart
        ariaLabel={title}
        height={160}
        xScaleType="time"
        xDomain={domain}
        yDomain={[0, most > 0 ? (most / scale.size) * 1.1 : 1]}
        hideFilter
        hideLegend={lines.length === 1}
        series={shown.some(({ data }) => data.length > 0) ? shown : []}
        i18nStrings={texts}
        xTickFormatter={clock}
        yTickFormatter={(y) => (unit === "bytes" ? `${round(y)} ${scale.name}` : formatValue(y, unit))}
        empty="No data points. There is one a minute, since the daemon was started."
      />
    </Container>
  );
}
