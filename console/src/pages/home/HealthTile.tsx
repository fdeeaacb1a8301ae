import { DescribeNodegroupCommand, EKSClient, paginateListNodegroups } from "@aws-sdk/client-eks";
import Box from "@cloudscape-design/components/box";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useDescribed } from "../../aws/describe";
import { awsCommand, eachInTurn } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { useSession } from "../../session/SessionProvider";
import { useClusters } from "../clusters/clusters";
import { type HealthIssue, healthIssues } from "./summary";
import { Tile } from "./Tile";

async function* nodegroupsOf(client: EKSClient, clusters: string[]) {
  for (const clusterName of clusters) {
    for await (const { nodegroups } of paginateListNodegroups({ client }, { clusterName })) {
      yield nodegroups?.map((nodegroupName) => ({ clusterName, nodegroupName }));
    }
  }
}

const address = ({ cluster, nodegroup }: HealthIssue) =>
  `/clusters/${encodeURIComponent(cluster)}/${nodegroup === "" ? "overview" : "compute"}`;

/** HealthTile lists what EKS says is wrong with clusters and node groups. */
export function HealthTile() {
  const { session } = useSession();
  const clusters = useClusters();
  const names = clusters.data?.map(({ name = "" }) => name) ?? [];
  const nodegroups = useDescribed(EKSClient, {
    paginate: nodegroupsOf,
    input: { names },
    pages: (client) => nodegroupsOf(client, names),
    names: (page) => page,
    describe: async (client, input, abortSignal) =>
      (await client.send(new DescribeNodegroupCommand(input), { abortSignal })).nodegroup,
  });
  const issues = healthIssues(clusters.data ?? [], nodegroups.data ?? []);
  const describe = names.map((name) =>
    awsCommand("eks", "describe-cluster", { name, query: "cluster.health" }, session.region),
  );
  const groups = nodegroups.data?.map(({ clusterName, nodegroupName }) =>
    awsCommand(
      "eks",
      "describe-nodegroup",
      { clusterName, nodegroupName, query: "nodegroup.health" },
      session.region,
    ),
  );
  return (
    <Tile
      title="Health issues"
      to="/clusters"
      commands={
        describe.length === 0
          ? [awsCommand("eks", "list-clusters", {}, session.region)]
          : eachInTurn([...describe, ...(groups ?? [])])
      }
      error={clusters.error ?? nodegroups.error}
      loading={clusters.data === undefined || nodegroups.data === undefined}
      retry={() => void Promise.all([clusters.refetch(), nodegroups.refetch()])}
    >
      {issues.length === 0 ? (
        <StatusIndicator type="success">No health issues</StatusIndicator>
      ) : (
        <Table
          variant="embedded"
          wrapLines
          items={issues}
          ariaLabels={{ tableLabel: "Health issues" }}
          columnDefinitions={[
            {
              id: "of",
              header: "Resource",
              cell: (i) => (
                <AppLink to={address(i)}>{i.nodegroup === "" ? i.cluster : `${i.cluster}/${i.nodegroup}`}</AppLink>
              ),
              isRowHeader: true,
            },
            { id: "code", header: "Issue type", cell: (i) => <StatusIndicator type="error">{i.code}</StatusIndicator> },
            { id: "message", header: "Description", cell: (i) => i.message },
            {
              id: "resources",
              header: "Affected resources",
              cell: (i) => (i.resources.length === 0 ? "-" : i.resources.map((id) => <Box key={id}>{id}</Box>)),
            },
          ]}
        />
      )}
    </Tile>
  );
}
