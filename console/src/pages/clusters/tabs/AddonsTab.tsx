import {
  type Addon,
  DeleteAddonCommand,
  DescribeAddonCommand,
  EKSClient,
  paginateListAddons,
} from "@aws-sdk/client-eks";
import Button from "@cloudscape-design/components/button";
import { useState } from "react";
import { useDescribed } from "../../../aws/describe";
import { useAwsChange } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { DeleteModal } from "../../../components/DeleteModal";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { Status } from "../../../components/Status";
import { Time } from "../../../components/Time";
import { useSession } from "../../../session/SessionProvider";
import type { TabProps } from "../tab";

const columns: Column<Addon>[] = [
  { id: "name", header: "Add-on name", text: (a) => a.addonName ?? "", width: 220 },
  {
    id: "status",
    header: "Status",
    text: (a) => a.status ?? "",
    cell: (a) => <Status status={a.status} />,
    width: 160,
  },
  { id: "version", header: "Version", text: (a) => a.addonVersion ?? "-", width: 190 },
  { id: "role", header: "IAM role for service account (IRSA)", text: (a) => a.serviceAccountRoleArn ?? "", width: 280 },
  {
    id: "issues",
    header: "Health issues",
    text: (a) => a.health?.issues?.map((i) => `${i.code ?? ""}: ${i.message ?? ""}`).join("; ") ?? "",
    width: 380,
  },
  {
    id: "modified",
    header: "Modified",
    text: (a) => a.modifiedAt?.toISOString() ?? "",
    cell: (a) => <Time at={a.modifiedAt} />,
    width: 150,
  },
];

/** AddonsTab lists the add-ons of a cluster. */
export default function AddonsTab({ name }: TabProps) {
  const { session } = useSession();
  const addons = useDescribed(EKSClient, {
    paginate: paginateListAddons,
    input: { clusterName: name },
    pages: (client) => paginateListAddons({ client }, { clusterName: name }),
    names: (page) => page.addons,
    describe: async (client, addonName, abortSignal) =>
      (await client.send(new DescribeAddonCommand({ clusterName: name, addonName }), { abortSignal })).addon,
    changes: (a: Addon) => /^(CREATING|UPDATING|DELETING)$/.test(a.status ?? ""),
  });
  const [selected, setSelected] = useState<Addon[]>([]);
  const [deleting, setDeleting] = useState<string>();
  const remove = useAwsChange(EKSClient, DeleteAddonCommand, {
    attempt: (input) => `Remove add-on ${input.addonName ?? ""}`,
    success: (input) => `Add-on ${input.addonName ?? ""} is being removed.`,
    quiet: true,
  });
  const [first] = selected;
  return (
    <>
      <ResourceTable
        title="Add-ons"
        nouns={["add-on", "add-ons"]}
        items={addons.data}
        columns={columns}
        keyOf={(a) => a.addonName ?? ""}
        nameOf={(a) => a.addonName ?? ""}
        error={addons.error}
        refresh={() => void addons.refetch()}
        refreshing={addons.isFetching}
        commands={[
          awsCommand("eks", "list-addons", { clusterName: name }, session.region),
          {
            ...awsCommand("eks", "describe-addon", { clusterName: name, addonName: first?.addonName ?? "NAME" }),
            title: "One of them",
          },
        ]}
        selection="single"
        selected={selected}
        onSelect={setSelected}
        actions={
          <Button disabled={first === undefined} onClick={() => setDeleting(first?.addonName)}>
            Remove
          </Button>
        }
      />
      {deleting !== undefined && (
        <DeleteModal
          what="add-on"
          name={deleting}
          onDismiss={() => setDeleting(undefined)}
          onDelete={() => remove.mutateAsync({ clusterName: name, addonName: deleting })}
        >
          The add-on’s Kubernetes objects are removed from the cluster, too.
        </DeleteModal>
      )}
    </>
  );
}
