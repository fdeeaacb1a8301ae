import { DescribeUpdateCommand, EKSClient, paginateListUpdates, type Update } from "@aws-sdk/client-eks";
import { useDescribed } from "../../../aws/describe";
import { awsCommand } from "../../../commands/command";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { Status } from "../../../components/Status";
import { formatStatus } from "../../../components/status";
import { Time } from "../../../components/Time";
import { useSession } from "../../../session/SessionProvider";
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

/** UpdateHistoryTab lists the updates of a cluster. */
export default function UpdateHistoryTab({ name }: TabProps) {
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
