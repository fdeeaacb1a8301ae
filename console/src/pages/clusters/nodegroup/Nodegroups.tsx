import type { Nodegroup } from "@aws-sdk/client-eks";
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMemo, useState } from "react";
import { useNavigate } from "react-router";
import { awsCommand } from "../../../commands/command";
import { AppLink } from "../../../components/AppLink";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { Status } from "../../../components/Status";
import { formatStatus } from "../../../components/status";
import { useSession } from "../../../session/SessionProvider";
import { nodegroupAddress } from "../addresses";
import { DeleteNodegroup } from "./DeleteNodegroup";
import { useNodegroups } from "./nodegroups";
import { UpdateVersion } from "./UpdateVersion";

const nameOf = (group: Nodegroup) => group.nodegroupName ?? "";

/** ColumnsOf returns the columns of a cluster's node groups. */
function columnsOf(cluster: string): Column<Nodegroup>[] {
  return [
    {
      id: "name",
      header: "Group name",
      text: nameOf,
      cell: (g) => <AppLink to={nodegroupAddress(cluster, nameOf(g))}>{nameOf(g)}</AppLink>,
      width: 180,
    },
    { id: "size", header: "Desired size", text: (g) => String(g.scalingConfig?.desiredSize ?? "-"), width: 130 },
    {
      id: "scaling",
      header: "Minimum to maximum",
      text: (g) => `${g.scalingConfig?.minSize ?? "-"} to ${g.scalingConfig?.maxSize ?? "-"}`,
      width: 180,
    },
    { id: "release", header: "AMI release version", text: (g) => g.releaseVersion ?? g.version ?? "-", width: 200 },
    { id: "types", header: "Instance types", text: (g) => g.instanceTypes?.join(", ") ?? "-", width: 150 },
    {
      id: "template",
      header: "Launch template",
      text: ({ launchTemplate: t }) => (t === undefined ? "-" : `${t.name ?? t.id ?? ""} (${t.version ?? ""})`),
      width: 180,
    },
    {
      id: "issues",
      header: "Health issues",
      text: (g) => g.health?.issues?.map((i) => `${i.code ?? ""}: ${i.message ?? ""}`).join("; ") ?? "",
      width: 200,
    },
    {
      id: "status",
      header: "Status",
      text: (g) => formatStatus(g.status ?? ""),
      cell: (g) => <Status status={g.status} />,
      width: 140,
    },
  ];
}

/** Nodegroups lists the node groups of a cluster. */
export function Nodegroups({ name, version }: { name: string; version: string | undefined }) {
  const { session } = useSession();
  const navigate = useNavigate();
  const groups = useNodegroups(name);
  const [selected, setSelected] = useState<Nodegroup[]>([]);
  const [deleting, setDeleting] = useState<string>();
  const [updating, setUpdating] = useState<Nodegroup>();
  const columns = useMemo(() => columnsOf(name), [name]);
  const current = groups.data?.find((g) => g.nodegroupName === selected[0]?.nodegroupName);
  const add = (
    <Button onClick={() => void navigate(`/clusters/${encodeURIComponent(name)}/nodegroup-create`)}>
      Add node group
    </Button>
  );
  return (
    <>
      <ResourceTable
        title="Node groups"
        nouns={["node group", "node groups"]}
        description="Node groups implement basic compute scaling through EC2 Auto Scaling groups."
        items={groups.data}
        columns={columns}
        keyOf={nameOf}
        nameOf={nameOf}
        error={groups.error}
        refresh={() => void groups.refetch()}
        refreshing={groups.isFetching}
        commands={[awsCommand("eks", "list-nodegroups", { clusterName: name }, session.region)]}
        selection="single"
        selected={selected}
        onSelect={setSelected}
        emptyAction={add}
        actions={
          <SpaceBetween direction="horizontal" size="xs">
            <Button disabled={current === undefined} onClick={() => setUpdating(current)}>
              Update version
            </Button>
            <Button
              disabled={current === undefined}
              onClick={() => void navigate(nodegroupAddress(name, current?.nodegroupName ?? "", "edit"))}
            >
              Edit
            </Button>
            <Button disabled={current === undefined} onClick={() => setDeleting(current?.nodegroupName)}>
              Delete
            </Button>
            {add}
          </SpaceBetween>
        }
      />
      {deleting !== undefined && (
        <DeleteNodegroup cluster={name} name={deleting} onDismiss={() => setDeleting(undefined)} />
      )}
      {updating !== undefined && (
        <UpdateVersion group={updating} clusterVersion={version} onDismiss={() => setUpdating(undefined)} />
      )}
    </>
  );
}
