import {
  DescribeUpdateCommand,
  EKSClient,
  paginateListNodegroups,
  paginateListUpdates,
  type Update,
} from "@aws-sdk/client-eks";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useDescribed } from "../../../aws/describe";
import { awsCommand } from "../../../commands/command";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { useSession } from "../../../session/SessionProvider";
import type { TabProps } from "../tab";
import { updateColumns, UpdateHistory, UpdateID } from "../UpdateHistory";

/** UpdateHistoryTab lists the updates of a cluster, and of its node groups. */
export default function UpdateHistoryTab({ name }: TabProps) {
  return (
    <SpaceBetween size="l">
      <UpdateHistory name={name} />
      <NodegroupUpdates name={name} />
    </SpaceBetween>
  );
}

interface NodegroupUpdate extends Update {
  cluster: string;
  nodegroup: string;
}

/** UpdatesOf names the updates of all node groups of a cluster. */
async function* updatesOf(client: EKSClient, name: string) {
  for await (const { nodegroups = [] } of paginateListNodegroups({ client }, { clusterName: name })) {
    for (const nodegroupName of nodegroups) {
      for await (const { updateIds = [] } of paginateListUpdates({ client }, { name, nodegroupName })) {
        yield updateIds.map((updateId) => ({ nodegroupName, updateId }));
      }
    }
  }
}

const nodegroupColumns: Column<NodegroupUpdate>[] = [
  {
    id: "id",
    header: "Update ID",
    text: (u) => u.id ?? "",
    cell: (u) => <UpdateID cluster={u.cluster} nodegroup={u.nodegroup} update={u} />,
    width: 330,
  },
  { id: "nodegroup", header: "Node group", text: (u) => u.nodegroup, width: 180 },
  ...updateColumns.filter(({ id }) => id !== "id"),
];

function NodegroupUpdates({ name }: { name: string }) {
  const { session } = useSession();
  const updates = useDescribed(EKSClient, {
    paginate: updatesOf,
    input: { name },
    pages: (client) => updatesOf(client, name),
    names: (page) => page,
    describe: async (client, of, abortSignal): Promise<NodegroupUpdate> => {
      const { update } = await client.send(new DescribeUpdateCommand({ name, ...of }), { abortSignal });
      return { ...update, cluster: name, nodegroup: of.nodegroupName };
    },
    changes: (u) => u.status === "InProgress",
  });
  const groups = [...new Set(updates.data?.map(({ nodegroup }) => nodegroup))];
  return (
    <ResourceTable
      title="Update history of node groups"
      nouns={["update", "updates"]}
      description="Follow the update of a node group to another version by its ID."
      items={updates.data}
      columns={nodegroupColumns}
      keyOf={(u) => u.id ?? ""}
      nameOf={(u) => u.id ?? ""}
      error={updates.error}
      refresh={() => void updates.refetch()}
      refreshing={updates.isFetching}
      commands={[
        awsCommand("eks", "list-nodegroups", { clusterName: name }, session.region),
        ...groups.map((nodegroupName) => ({
          ...awsCommand("eks", "list-updates", { name, nodegroupName }, session.region),
          title: nodegroupName,
        })),
      ]}
    />
  );
}
