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
import { AppLink } from "../../../components/AppLink";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { Status } from "../../../components/Status";
import { formatStatus } from "../../../components/status";
import { Time } from "../../../components/Time";
import { useSession } from "../../../session/SessionProvider";
import { updateAddress } from "../../rolling/address";
import type { TabProps } from "../tab";

const columns: Column<Update>[] = [
  { id: "id", header: "Update ID", text: (u) => u.id ?? "", width: 330 },
  { id: "type", header: "Type", text: (u) => formatStatus(u.type ?? ""), width: 220 },
  {
    id: "status",
    header: "Status",
    text: (u) => u.status ?? "",
    cell: (u) => <Status status={u.status} />,
    width: 140,
  },
  {
    id: "params",
    header: "Parameters",
    text: (u) => u.params?.map(({ type = "", value = "" }) => `${type}: ${value}`).join("; ") ?? "",
    width: 380,
  },
  {
    id: "errors",
    header: "Errors",
    text: (u) => u.errors?.map((e) => `${e.errorCode ?? ""}: ${e.errorMessage ?? ""}`).join("; ") ?? "",
    width: 320,
  },
  {
    id: "created",
    header: "Submitted",
    text: (u) => u.createdAt?.toISOString() ?? "",
    cell: (u) => <Time at={u.createdAt} />,
    compare: (a, b) => (b.createdAt?.getTime() ?? 0) - (a.createdAt?.getTime() ?? 0),
    width: 150,
  },
];

/** UpdateHistoryTab lists the updates of a cluster, and of its node groups. */
export default function UpdateHistoryTab({ name }: TabProps) {
  return (
    <SpaceBetween size="l">
      <ClusterUpdates name={name} />
      <NodegroupUpdates name={name} />
    </SpaceBetween>
  );
}

function ClusterUpdates({ name }: { name: string }) {
  const { session } = useSession();
  const updates = useDescribed(EKSClient, {
    paginate: paginateListUpdates,
    input: { name },
    pages: (client) => paginateListUpdates({ client }, { name }),
    names: (page) => page.updateIds,
    describe: async (client, updateId, abortSignal) =>
      (await client.send(new DescribeUpdateCommand({ name, updateId }), { abortSignal })).update,
    changes: (u: Update) => u.status === "InProgress",
  });
  return (
    <ResourceTable
      title="Update history"
      nouns={["update", "updates"]}
      items={updates.data}
      columns={columns}
      keyOf={(u) => u.id ?? ""}
      nameOf={(u) => u.id ?? ""}
      error={updates.error}
      refresh={() => void updates.refetch()}
      refreshing={updates.isFetching}
      commands={[awsCommand("eks", "list-updates", { name }, session.region)]}
    />
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
    cell: (u) =>
      u.type === "VersionUpdate" ? <AppLink to={updateAddress(u.cluster, u.nodegroup, u.id)}>{u.id}</AppLink> : u.id,
    width: 330,
  },
  { id: "nodegroup", header: "Node group", text: (u) => u.nodegroup, width: 180 },
  ...columns.filter(({ id }) => id !== "id"),
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
