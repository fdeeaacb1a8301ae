import type { Cluster } from "@aws-sdk/client-eks";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs, { type KeyValuePairsProps } from "@cloudscape-design/components/key-value-pairs";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useState } from "react";
import { useParams } from "react-router";
import { awsCommand } from "../../commands/command";
import { DetailPage } from "../../components/DetailPage";
import { PageTabs } from "../../components/PageTabs";
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
  const { session } = useSession();
  const query = useCluster(name);
  const versions = useVersions();
  const [deleting, setDeleting] = useState(false);
  return (
    <DetailPage
      what="cluster"
      name={name}
      query={query}
      found={query.data?.cluster}
      commands={[
        awsCommand("eks", "describe-cluster", { name }, session.region),
        { ...awsCommand("eks", "update-kubeconfig", { name, alias: name }, session.region), title: "kubectl" },
      ]}
      actions={<Button onClick={() => setDeleting(true)}>Delete cluster</Button>}
    >
      {(cluster) => (
        <>
          <Container header={<Header variant="h2">Cluster info</Header>}>
            <KeyValuePairs columns={4} items={infoOf(cluster, versions)} />
          </Container>
          <PageTabs
            label="Cluster"
            address={`/clusters/${encodeURIComponent(name)}`}
            open={tab}
            tabs={tabs.map(({ id, label, Content }) => ({
              id,
              label,
              content: <Content cluster={cluster} name={name} />,
            }))}
          />
          {deleting && <DeleteCluster name={name} onDismiss={() => setDeleting(false)} />}
        </>
      )}
    </DetailPage>
  );
}

function infoOf(cluster: Cluster, versions: ReturnType<typeof useVersions>): KeyValuePairsProps.Item[] {
  const issues = cluster.health?.issues?.length ?? 0;
  return [
    { label: "Status", value: <Status status={cluster.status} /> },
    { label: "Kubernetes version", value: cluster.version ?? "-" },
    { label: "Support period", value: supportPeriod(versions.get(cluster.version ?? "")) },
    {
      label: "Cluster health issues",
      value: <StatusIndicator type={issues === 0 ? "success" : "error"}>{issues}</StatusIndicator>,
    },
  ];
}
