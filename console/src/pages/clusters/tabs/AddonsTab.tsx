import {
  type Addon,
  DescribeAddonCommand,
  EKSClient,
  paginateListAddons,
} from "@aws-sdk/client-eks";
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useNavigate } from "react-router";
import { useDescribed } from "../../../aws/describe";
import { awsCommand } from "../../../commands/command";
import { AppLink } from "../../../components/AppLink";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { Status } from "../../../components/Status";
import { Time } from "../../../components/Time";
import { useSession } from "../../../session/SessionProvider";
import { isChanging } from "../addon/addons";
import { RemoveAddon } from "../addon/RemoveAddon";
import type { TabProps } from "../tab";

const addressOf = ({ clusterName = "", addonName = "" }: Addon) =>
  `/clusters/${encodeURIComponent(clusterName)}/add-ons/${encodeURIComponent(addonName)}`;

const columns: Column<Addon>[] = [
  {
    id: "name",
    header: "Add-on name",
    text: (a) => a.addonName ?? "",
    cell: (a) => <AppLink to={addressOf(a)}>{a.addonName ?? ""}</AppLink>,
    width: 220,
  },
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
  const navigate = useNavigate();
  const addons = useDescribed(EKSClient, {
    paginate: paginateListAddons,
    input: { clusterName: name },
    pages: (client) => paginateListAddons({ client }, { clusterName: name }),
    names: (page) => page.addons,
    describe: async (client, addonName, abortSignal) =>
      (await client.send(new DescribeAddonCommand({ clusterName: name, addonName }), { abortSignal })).addon,
    changes: isChanging,
  });
  const [selected, setSelected] = useState<Addon[]>([]);
  const [deleting, setDeleting] = useState<string>();
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
          <SpaceBetween direction="horizontal" size="xs">
            <Button disabled={first === undefined} onClick={() => setDeleting(first?.addonName)}>
              Remove
            </Button>
            <Button
              disabled={first === undefined || isChanging(first)}
              onClick={() => first !== undefined && void navigate(`${addressOf(first)}/edit`)}
            >
              Edit
            </Button>
            <Button
              variant="primary"
              onClick={() => void navigate(`/clusters/${encodeURIComponent(name)}/add-on-create`)}
            >
              Get more add-ons
            </Button>
          </SpaceBetween>
        }
      />
      {deleting !== undefined && (
        <RemoveAddon clusterName={name} addonName={deleting} onDismiss={() => setDeleting(undefined)} />
      )}
    </>
  );
}
