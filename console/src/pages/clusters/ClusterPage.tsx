import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Tabs from "@cloudscape-design/components/tabs";
import { Suspense, useState } from "react";
import { useNavigate, useParams } from "react-router";
import { awsCommand } from "../../commands/command";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";
import { Status } from "../../components/Status";
import { useSession } from "../../session/SessionProvider";
import { supportPeriod, useCluster, useVersions } from "./clusters";
import { DeleteCluster } from "./DeleteCluster";
import type { ClusterTab } from "./tab";

const found = import.meta.glob<ClusterTab>("./tabs/*.tab.tsx", { eager: true, import: "default" });
const tabs = Object.values(found).sort((a, b) => a.order - b.order);

/** ClusterPage is the page of a cluster, with its tabs. */
export default function ClusterPage() {
  const { cluster: name = "", tab = tabs[0]?.id ?? "" } = useParams();
  const navigate = useNavigate();
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useCluster(name);
  const versions = useVersions();
  const [deleting, setDeleting] = useState(false);
  const cluster = data?.cluster;

  if (error !== null && cluster === undefined) {
    return (
      <ContentLayout header={<Header variant="h1">{name}</Header>}>
        <ErrorAlert attempted={`Describe cluster ${name}`} error={error} retry={() => void refetch()} />
      </ContentLayout>
    );
  }
  if (cluster === undefined) return <Loading what={`cluster ${name}`} />;
  const issues = cluster.health?.issues?.length ?? 0;
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand
                commands={[
                  awsCommand("eks", "describe-cluster", { name }, session.region),
                  {
                    ...awsCommand("eks", "update-kubeconfig", { name, alias: name }, session.region),
                    title: "kubectl",
                  },
                ]}
              />
              <Button
                iconName="refresh"
                ariaLabel="Refresh cluster"
                loading={isFetching}
                loadingText="Refreshing cluster"
                onClick={() => void refetch()}
              />
              <Button onClick={() => setDeleting(true)}>Delete cluster</Button>
            </SpaceBetween>
          }
        >
          {name}
        </Header>
      }
    >
      <SpaceBetween size="l">
        {error !== null && (
          <ErrorAlert attempted={`Describe cluster ${name}`} error={error} retry={() => void refetch()} />
        )}
        <Container header={<Header variant="h2">Cluster info</Header>}>
          <KeyValuePairs
            columns={4}
            items={[
              { label: "Status", value: <Status status={cluster.status} /> },
              { label: "Kubernetes version", value: cluster.version ?? "-" },
              { label: "Support period", value: supportPeriod(versions.get(cluster.version ?? "")) },
              {
                label: "Cluster health issues",
                value: <StatusIndicator type={issues === 0 ? "success" : "error"}>{issues}</StatusIndicator>,
              },
            ]}
          />
        </Container>
        <Tabs
          ariaLabel="Cluster"
          activeTabId={tab}
          onChange={({ detail }) =>
            void navigate(`/clusters/${encodeURIComponent(name)}/${detail.activeTabId}`, { replace: true })
          }
          tabs={tabs.map(({ id, label, Content }) => ({
            id,
            label,
            content: id === tab && (
              <Suspense fallback={<Loading what={label} />}>
                <Content cluster={cluster} name={name} />
              </Suspense>
            ),
          }))}
        />
      </SpaceBetween>
      {deleting && <DeleteCluster name={name} onDismiss={() => setDeleting(false)} />}
    </ContentLayout>
  );
}
