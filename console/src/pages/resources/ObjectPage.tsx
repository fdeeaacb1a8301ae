import Button from "@cloudscape-design/components/button";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs, { type TabsProps } from "@cloudscape-design/components/tabs";
import { lazy, Suspense, useState } from "react";
import { useNavigate, useParams, useSearchParams } from "react-router";
import { useNotifications } from "../../app/notifications";
import { DeleteModal } from "../../components/DeleteModal";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";
import { useKubernetes } from "../../kubernetes/client";
import { fieldIs, type KubernetesObject } from "../../kubernetes/objects";
import { useWatch } from "../../kubernetes/watch";
import { type Named, objectAt } from "./address";
import { objectCommands } from "./commands";
import { resourceName } from "./discovery";
import { EventsTab } from "./EventsTab";
import { PodLogs } from "./PodLogs";
import { Timeline } from "./Timeline";
import { YamlTab } from "./YamlTab";

const PodTerminal = lazy(() => import("./terminal/PodTerminal"));

/**
 * ObjectPage shows a Kubernetes object: its YAML with the owners of fields, events, who changed it, and the logs and a
 * terminal of a pod.
 */
export default function ObjectPage() {
  const { cluster = "" } = useParams();
  const [query] = useSearchParams();
  return <ObjectOf key={query.toString()} cluster={cluster} of={objectAt(query)} />;
}

function ObjectOf({ cluster, of }: { cluster: string; of: Named }) {
  const { resource, namespace, name } = of;
  const navigate = useNavigate();
  const client = useKubernetes(cluster);
  const notifications = useNotifications();
  const { items, loading, error } = useWatch<KubernetesObject>(cluster, resource, namespace, {
    fieldSelector: fieldIs("metadata.name", name),
  });
  const [deleting, setDeleting] = useState(false);
  const [object] = items;
  const tabs = (found: KubernetesObject): TabsProps.Tab[] => [
    { id: "yaml", label: "YAML", content: <YamlTab cluster={cluster} of={of} object={found} /> },
    { id: "events", label: "Events", content: <EventsTab cluster={cluster} object={found} /> },
    ...(found.kind === "Pod"
      ? [
          { id: "logs", label: "Logs", content: <PodLogs cluster={cluster} pod={found} /> },
          {
            id: "terminal",
            label: "Terminal",
            content: (
              <Suspense fallback={<Loading what="the terminal" />}>
                <PodTerminal cluster={cluster} pod={found} />
              </Suspense>
            ),
            contentRenderStrategy: "lazy" as const, // another tab does not end the shell
          },
        ]
      : []),
    { id: "changes", label: "Timeline", content: <Timeline cluster={cluster} of={of} /> },
  ];
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          description={`${object?.kind ?? resource.name}${namespace === undefined ? "" : ` in namespace ${namespace}`}`}
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand commands={objectCommands(cluster, of)} />
              <Button disabled={object === undefined} onClick={() => setDeleting(true)}>
                Delete
              </Button>
            </SpaceBetween>
          }
        >
          {name}
        </Header>
      }
    >
      {error !== null && <ErrorAlert attempted={`Read ${name}`} error={error} />}
      {loading && <Loading what={name} />}
      {object === undefined && error === null && !loading && (
        <ErrorAlert attempted={`Read ${name}`} error={new Error("It does not exist, or has been deleted.")} />
      )}
      {object !== undefined && <Tabs ariaLabel="Object" tabs={tabs(object)} />}
      {deleting && (
        <DeleteModal
          what={object?.kind ?? resource.name}
          name={name}
          onDismiss={() => setDeleting(false)}
          onDelete={async () => {
            await client.delete(resource, namespace, name);
            notifications.success(`${name} is being deleted.`);
            void navigate(`/clusters/${encodeURIComponent(cluster)}/resources?resource=${resourceName(resource)}`);
          }}
        />
      )}
    </ContentLayout>
  );
}
