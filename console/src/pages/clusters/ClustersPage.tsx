import type { Cluster } from "@aws-sdk/client-eks";
import Button from "@cloudscape-design/components/button";
import { useMemo } from "react";
import { useNavigate } from "react-router";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { ListPage } from "../../components/ListPage";
import type { Column } from "../../components/ResourceTable";
import { Status } from "../../components/Status";
import { formatStatus } from "../../components/status";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";
import { supportPeriod, upgradePolicy, useClusters, useVersions } from "./clusters";
import { DeleteCluster } from "./DeleteCluster";

const nameOf = (cluster: Cluster) => cluster.name ?? "";

/** ClustersPage lists the clusters of the region. */
export default function ClustersPage() {
  const { session } = useSession();
  const navigate = useNavigate();
  const query = useClusters();
  const versions = useVersions();

  const columns = useMemo<Column<Cluster>[]>(
    () => [
      {
        id: "name",
        header: "Cluster name",
        text: nameOf,
        cell: (c) => <AppLink to={`/clusters/${encodeURIComponent(nameOf(c))}`}>{nameOf(c)}</AppLink>,
        width: 240,
      },
      {
        id: "status",
        header: "Status",
        text: (c) => formatStatus(c.status ?? ""),
        cell: (c) => <Status status={c.status} />,
        width: 140,
      },
      { id: "version", header: "Kubernetes version", text: (c) => c.version ?? "", width: 200 },
      {
        id: "support",
        header: "Support period",
        text: (c) => supportPeriod(versions.get(c.version ?? "")),
        width: 310,
      },
      { id: "policy", header: "Upgrade policy", text: upgradePolicy, width: 170 },
      {
        id: "issues",
        header: "Health issues",
        text: (c) => String(c.health?.issues?.length ?? 0),
        width: 165,
      },
      {
        id: "created",
        header: "Created",
        text: (c) => c.createdAt?.toISOString() ?? "",
        cell: (c) => <Time at={c.createdAt} />,
        width: 160,
      },
      {
        id: "provider",
        header: "Provider",
        text: (c) => (c.connectorConfig === undefined ? "EKS" : "Other"),
        width: 110,
      },
      { id: "arn", header: "ARN", text: (c) => c.arn ?? "", hidden: true, width: 420 },
    ],
    [versions],
  );

  return (
    <ListPage
      title="Clusters"
      nouns={["cluster", "clusters"]}
      query={query}
      columns={columns}
      keyOf={(c) => c.arn ?? ""}
      nameOf={nameOf}
      commands={[awsCommand("eks", "list-clusters", {}, session.region)]}
      actions={
        <Button variant="primary" onClick={() => void navigate("/cluster-create")}>
          Create cluster
        </Button>
      }
      deletion={(cluster, onDismiss) => <DeleteCluster name={nameOf(cluster)} onDismiss={onDismiss} />}
    />
  );
}
