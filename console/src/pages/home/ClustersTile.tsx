import type { Cluster } from "@aws-sdk/client-eks";
import Box from "@cloudscape-design/components/box";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { awsCommand, eachInTurn, kubectlCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { Status } from "../../components/Status";
import { nodes } from "../../kubernetes/objects";
import { useWatch } from "../../kubernetes/watch";
import { useSession } from "../../session/SessionProvider";
import { useClusters } from "../clusters/clusters";
import type { Node } from "../clusters/nodes";
import { readyNodes } from "./summary";
import { Tile } from "./Tile";

const address = ({ name = "" }: Cluster) => `/clusters/${encodeURIComponent(name)}`;

/** ClustersTile lists the clusters with their status, health issues and nodes. */
export function ClustersTile() {
  const { session } = useSession();
  const { data, error, refetch } = useClusters();
  const names = data?.map(({ name = "" }) => name) ?? [];
  return (
    <Tile
      title="Clusters"
      to="/clusters"
      commands={[
        awsCommand("eks", "list-clusters", {}, session.region),
        ...eachInTurn(names.map((name) => kubectlCommand(name, "get", "nodes"))),
      ]}
      error={error}
      loading={data === undefined}
      retry={() => void refetch()}
    >
      <Table
        variant="embedded"
        items={data ?? []}
        trackBy={(c) => c.arn ?? ""}
        ariaLabels={{ tableLabel: "Clusters" }}
        empty={<Box textAlign="center">No clusters</Box>}
        columnDefinitions={[
          {
            id: "name",
            header: "Cluster name",
            cell: (c) => <AppLink to={address(c)}>{c.name}</AppLink>,
            isRowHeader: true,
          },
          { id: "status", header: "Status", cell: (c) => <Status status={c.status} /> },
          { id: "version", header: "Kubernetes version", cell: (c) => c.version },
          { id: "health", header: "Health issues", cell: (c) => <Issues count={c.health?.issues?.length ?? 0} /> },
          {
            id: "nodes",
            header: "Nodes",
            cell: (c) =>
              c.status === "ACTIVE" || c.status === "UPDATING" ? (
                <AppLink to={`${address(c)}/compute`}>
                  <Nodes cluster={c.name ?? ""} />
                </AppLink>
              ) : (
                "-"
              ),
          },
        ]}
      />
    </Tile>
  );
}

function Issues({ count }: { count: number }) {
  return <StatusIndicator type={count === 0 ? "success" : "error"}>{count}</StatusIndicator>;
}

function Nodes({ cluster }: { cluster: string }) {
  const { items, loading, error } = useWatch<Node>(cluster, nodes);
  if (loading) return <>Loading</>;
  if (error !== null && items.length === 0) return <>{error.message}</>;
  return <>{readyNodes(items)}</>;
}
