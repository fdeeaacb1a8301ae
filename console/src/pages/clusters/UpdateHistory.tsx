import { DescribeUpdateCommand, EKSClient, paginateListUpdates, type Update } from "@aws-sdk/client-eks";
import { useMemo } from "react";
import { useDescribed } from "../../aws/describe";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Status } from "../../components/Status";
import { formatStatus } from "../../components/status";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";
import { updateAddress } from "../rolling/address";

/** UpdateColumns are the columns of a table of updates. The first is the ID. */
export const updateColumns: Column<Update>[] = [
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

/** ColumnsOf returns the columns of the updates of a node group, whose IDs lead to pages that follow them. */
function columnsOf(cluster: string, nodegroup: string): Column<Update>[] {
  return updateColumns.map((column) => ({
    ...column,
    cell: column.id === "id" ? (u) => <UpdateID cluster={cluster} nodegroup={nodegroup} update={u} /> : column.cell,
  }));
}

/** UpdateID is the ID of an update, which leads to a page that follows it where there is one. */
export function UpdateID({ cluster, nodegroup, update }: { cluster: string; nodegroup: string; update: Update }) {
  if (update.type !== "VersionUpdate") return update.id;
  return <AppLink to={updateAddress(cluster, nodegroup, update.id)}>{update.id}</AppLink>;
}

interface Props {
  /** The name of the cluster. */
  name: string;
  /** The node group whose updates are listed, instead of those of the cluster. */
  nodegroupName?: string;
  /** The add-on whose updates are listed. */
  addonName?: string;
}

/** UpdateHistory lists the updates of a cluster, or of a node group or add-on. */
export function UpdateHistory({ name, nodegroupName, addonName }: Props) {
  const { session } = useSession();
  const input = { name, nodegroupName, addonName };
  const columns = useMemo(
    () => (nodegroupName === undefined ? updateColumns : columnsOf(name, nodegroupName)),
    [name, nodegroupName],
  );
  const updates = useDescribed(EKSClient, {
    paginate: paginateListUpdates,
    input,
    pages: (client) => paginateListUpdates({ client }, input),
    names: (page) => page.updateIds,
    describe: async (client, updateId, abortSignal) =>
      (await client.send(new DescribeUpdateCommand({ ...input, updateId }), { abortSignal })).update,
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
      commands={[awsCommand("eks", "list-updates", input, session.region)]}
    />
  );
}
