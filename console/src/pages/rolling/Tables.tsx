import { useMemo } from "react";
import { type Command, kubectlCommand } from "../../commands/command";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Status } from "../../components/Status";
import { Time } from "../../components/Time";
import type { Happening, Workload } from "./rolling";

const number = (id: string, header: string, of: (w: Workload) => number): Column<Workload> => ({
  id,
  header,
  text: (w) => String(of(w)),
  width: 130,
});

const workloadColumns: Column<Workload>[] = [
  { id: "name", header: "Workload", text: (w) => w.name, width: 220 },
  { id: "namespace", header: "Namespace", text: (w) => w.namespace, width: 150 },
  number("old", "On old nodes", (w) => w.onOld),
  number("terminating", "Terminating", (w) => w.terminating),
  number("starting", "Not ready", (w) => w.starting),
  number("ready", "Ready elsewhere", (w) => w.ready),
];

/** Workloads shows where the pods of each workload are, which has some on nodes of the group. */
export function Workloads({ cluster, workloads }: { cluster: string; workloads: Workload[] }) {
  return (
    <ResourceTable
      title="Workloads"
      nouns={["workload", "workloads"]}
      description="Pods that leave the old nodes. Those of DaemonSets and static pods end with their node."
      items={workloads}
      columns={workloadColumns}
      keyOf={(w) => w.key}
      nameOf={(w) => w.key}
      commands={[kubectlCommand(cluster, "get", "pods", "-A", "-o", "wide")]}
    />
  );
}

interface HappeningsProps {
  happenings: Happening[];
  commands: Command[];
}

/** Happenings shows what Auto Scaling and Kubernetes tell of the nodes, the newest first. */
export function Happenings({ happenings, commands }: HappeningsProps) {
  const columns = useMemo<Column<Happening>[]>(
    () => [
      {
        id: "time",
        header: "Time",
        text: (h) => h.at.toISOString(),
        cell: (h) => <Time at={h.at} />,
        compare: (a, b) => b.at.getTime() - a.at.getTime(),
        width: 130,
      },
      { id: "about", header: "Instance or node", text: (h) => h.about, width: 230 },
      { id: "what", header: "What happened", text: (h) => h.what, width: 340 },
      { id: "status", header: "Status", text: (h) => h.status, cell: (h) => <Status status={h.status} />, width: 130 },
      { id: "source", header: "Source", text: (h) => h.source, width: 120 },
    ],
    [],
  );
  return (
    <ResourceTable
      title="Activities and events"
      nouns={["activity", "activities"]}
      items={happenings}
      columns={columns}
      keyOf={(h) => h.key}
      nameOf={(h) => h.what}
      commands={commands}
    />
  );
}
