import { CloudWatchClient, paginateListMetrics } from "@aws-sdk/client-cloudwatch";
import Box from "@cloudscape-design/components/box";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Pagination from "@cloudscape-design/components/pagination";
import ProgressBar from "@cloudscape-design/components/progress-bar";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { useMemo, useState } from "react";
import { useAwsPages } from "../../aws/queries";
import { awsCommand, coracleCommand, inTurn, shellCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { formatValue, type Unit } from "../../metrics/metrics";
import { poll, useMetrics } from "../../metrics/useMetrics";
import { useSession } from "../../session/SessionProvider";
import { type Cost, costLines, costsOf, type Machine, sum } from "./costs";
import { Tile } from "./Tile";

// How long a metric of the disk goes without a data point, and more.
const minutes = 15;
const pageSize = 10;

const dataDirectory = "/var/lib/coracle"; // unless --data-dir says otherwise
const onMachine = (tool: string, ...options: string[]) => shellCommand("This machine", [tool], options);
const machineCommand = inTurn(
  onMachine("free", "-b"),
  onMachine("nproc"),
  onMachine("uptime"),
  onMachine("df", "-B1", dataDirectory),
  onMachine("du", "-sB1", dataDirectory),
);

const shown = (value: number | undefined, unit: Unit) => (value === undefined ? "-" : formatValue(value, unit));

/** CostTile shows what Coracle costs this machine: what there is, what is free, and who takes what. */
export function CostTile() {
  const { session } = useSession();
  const [page, setPage] = useState(1);
  const input = { Namespace: "Coracle" };
  const metrics = useAwsPages(CloudWatchClient, paginateListMetrics, input, (p) => p.Metrics, { poll });
  const lines = useMemo(() => costLines(metrics.data ?? []), [metrics.data]);
  const { data, error, refetch } = useMetrics(lines, minutes, lines.length > 0);
  const { machine, costs } = useMemo(() => costsOf(lines, data?.points ?? []), [lines, data]);
  const pages = Math.max(1, Math.ceil(costs.length / pageSize));
  return (
    <Tile
      title="What it costs this machine"
      commands={[
        awsCommand("cloudwatch", "list-metrics", input, session.region),
        ...(data?.inputs ?? []).map((each) => ({
          ...awsCommand("cloudwatch", "get-metric-data", each, session.region),
          title: "Values",
        })),
        coracleCommand("status"),
        machineCommand,
      ]}
      error={metrics.error ?? error}
      loading={metrics.data === undefined || (lines.length > 0 && data === undefined)}
      retry={() => void Promise.all([metrics.refetch(), refetch()])}
    >
      {lines.length === 0 ? (
        <Box textAlign="center">Not measured yet: within a minute after the daemon was started.</Box>
      ) : (
        <SpaceBetween size="l">
          {machine.memoryTotal !== undefined && <MachineUsage machine={machine} costs={costs} />}
          <Table
            variant="embedded"
            items={costs.slice((page - 1) * pageSize, page * pageSize)}
            trackBy={(c) => `${c.kind} ${c.name}`}
            ariaLabels={{ tableLabel: "Who takes what" }}
            empty={<Box textAlign="center">Nothing is known yet.</Box>}
            pagination={
              pages > 1 && (
                <Pagination
                  currentPageIndex={page}
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
            columnDefinitions={[
              { id: "name", header: "Who", cell: (c) => <Name cost={c} />, isRowHeader: true },
              { id: "kind", header: "What", cell: (c) => kindTexts[c.kind] },
              { id: "memory", header: "Memory", cell: (c) => shown(c.memory, "bytes") },
              { id: "cpu", header: "CPUs", cell: (c) => shown(c.cpu, "cpus") },
              { id: "disk", header: "Disk", cell: (c) => shown(c.disk, "bytes") },
            ]}
          />
        </SpaceBetween>
      )}
    </Tile>
  );
}

const kindTexts: Record<Cost["kind"], string> = {
  Coracle: "Process of Coracle",
  Cluster: "Control plane of a cluster",
  Instance: "Machine of an instance",
};

function Name({ cost: { kind, name } }: { cost: Cost }) {
  switch (kind) {
    case "Cluster":
      return <AppLink to={`/clusters/${encodeURIComponent(name)}/observability`}>{name}</AppLink>;
    case "Instance":
      return <AppLink to={`/instances/${encodeURIComponent(name)}/monitoring`}>{name}</AppLink>;
    case "Coracle":
      return <>{name}</>;
  }
}

/** MachineUsage shows how much of the machine is taken, by whomever, and by what the table below lists. */
function MachineUsage({ machine: m, costs }: { machine: Machine; costs: Cost[] }) {
  const listed = (what: "memory" | "cpu", unit: Unit) => `${shown(sum(costs, what), unit)} is listed below`;
  const largest = m.directories.slice(0, 4).map(([name, bytes]) => `${name} ${formatValue(bytes, "bytes")}`);
  return (
    <KeyValuePairs
      columns={3}
      items={[
        {
          label: "Memory",
          value: (
            <Usage
              label="Memory that is not available"
              taken={difference(m.memoryTotal, m.memoryAvailable)}
              total={m.memoryTotal}
              unit="bytes"
              details={`${shown(m.memoryAvailable, "bytes")} available; ${listed("memory", "bytes")}`}
            />
          ),
        },
        {
          label: "CPUs",
          value: (
            <Usage
              label="CPUs that are busy"
              taken={m.cpuUsed}
              total={m.cpuTotal}
              unit="cpus"
              details={`${shown(difference(m.cpuTotal, m.cpuUsed), "cpus")} idle; ${listed("cpu", "cpus")}`}
            />
          ),
        },
        {
          label: "Disk",
          value: (
            <Usage
              label="Disk that is not free"
              taken={difference(m.diskTotal, m.diskFree)}
              total={m.diskTotal}
              unit="bytes"
              details={[
                `${shown(m.diskFree, "bytes")} free; ${shown(m.diskUsed, "bytes")} in the data directory`,
                ...(largest.length === 0 ? [] : [largest.join(", ")]),
              ].join(": ")}
            />
          ),
        },
      ]}
    />
  );
}

function difference(total: number | undefined, part: number | undefined): number | undefined {
  return total === undefined || part === undefined ? undefined : total - part;
}

interface UsageProps {
  label: string;
  taken: number | undefined;
  total: number | undefined;
  unit: Unit;
  details: string;
}

function Usage({ label, taken, total, unit, details }: UsageProps) {
  return (
    <ProgressBar
      value={taken === undefined || total === undefined ? 0 : (100 * taken) / total}
      label={label}
      description={`${shown(taken, unit)} of ${shown(total, unit)}`}
      additionalInfo={details}
    />
  );
}
