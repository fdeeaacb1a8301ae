import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useMemo } from "react";
import { kubectlCommand } from "../../commands/command";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Time } from "../../components/Time";
import { events, type KubernetesObject } from "../../kubernetes/objects";
import { useWatch } from "../../kubernetes/watch";

interface KubernetesEvent extends KubernetesObject {
  type?: string;
  reason?: string;
  message?: string;
  count?: number;
  series?: { count?: number; lastObservedTime?: string };
  lastTimestamp?: string | null;
  eventTime?: string | null;
  reportingComponent?: string;
  source?: { component?: string };
}

const timeOf = (e: KubernetesEvent) =>
  e.series?.lastObservedTime ?? e.lastTimestamp ?? e.eventTime ?? e.metadata.creationTimestamp;

/** EventsTab lists the events of an object, the newest first. */
export function EventsTab({ cluster, object }: { cluster: string; object: KubernetesObject }) {
  const { uid, namespace, name } = object.metadata;
  const { items, loading, error } = useWatch<KubernetesEvent>(cluster, events, namespace, {
    fieldSelector: `involvedObject.uid=${uid}`,
  });
  const columns = useMemo<Column<KubernetesEvent>[]>(
    () => [
      {
        id: "time",
        header: "Last seen",
        text: timeOf,
        cell: (e) => <Time at={timeOf(e)} />,
        compare: (a, b) => timeOf(b).localeCompare(timeOf(a)),
        width: 140,
      },
      {
        id: "type",
        header: "Type",
        text: (e) => e.type ?? "",
        cell: (e) => <StatusIndicator type={e.type === "Warning" ? "warning" : "info"}>{e.type}</StatusIndicator>,
        width: 130,
      },
      { id: "reason", header: "Reason", text: (e) => e.reason ?? "", width: 190 },
      { id: "message", header: "Message", text: (e) => e.message ?? "", width: 520 },
      { id: "count", header: "Count", text: (e) => String(e.series?.count ?? e.count ?? 1), width: 100 },
      { id: "from", header: "From", text: (e) => e.source?.component ?? e.reportingComponent ?? "", width: 190 },
    ],
    [],
  );
  const scope = namespace === undefined ? ["-A"] : ["-n", namespace];
  return (
    <ResourceTable
      title="Events"
      nouns={["event", "events"]}
      items={loading ? undefined : items}
      columns={columns}
      keyOf={(e) => e.metadata.uid}
      nameOf={(e) => e.metadata.name}
      error={error}
      commands={[kubectlCommand(cluster, "events", ...scope, `--for=${object.kind}/${name}`)]}
    />
  );
}
