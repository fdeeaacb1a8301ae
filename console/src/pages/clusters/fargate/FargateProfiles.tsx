import type { FargateProfile } from "@aws-sdk/client-eks";
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMemo, useState } from "react";
import { useNavigate } from "react-router";
import { awsCommand } from "../../../commands/command";
import { AppLink } from "../../../components/AppLink";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { Status } from "../../../components/Status";
import { formatStatus } from "../../../components/status";
import { Time } from "../../../components/Time";
import { useSession } from "../../../session/SessionProvider";
import { profileAddress } from "../addresses";
import { pairsOf } from "../forms/problems";
import { DeleteFargateProfile } from "./DeleteFargateProfile";
import { formatSelector } from "./form";
import { useProfiles } from "./profiles";

const nameOf = (profile: FargateProfile) => profile.fargateProfileName ?? "";

/** ColumnsOf returns the columns of a cluster's Fargate profiles. */
function columnsOf(cluster: string): Column<FargateProfile>[] {
  return [
    {
      id: "name",
      header: "Profile name",
      text: nameOf,
      cell: (p) => <AppLink to={profileAddress(cluster, nameOf(p))}>{nameOf(p)}</AppLink>,
      width: 200,
    },
    {
      id: "selectors",
      header: "Pod selectors",
      text: (p) => p.selectors?.map((s) => formatSelector(s.namespace, pairsOf(s.labels))).join("; ") ?? "-",
      width: 320,
    },
    { id: "role", header: "Pod execution role", text: (p) => p.podExecutionRoleArn ?? "-", width: 340 },
    {
      id: "created",
      header: "Created",
      text: (p) => p.createdAt?.toISOString() ?? "",
      cell: (p) => <Time at={p.createdAt} />,
      width: 150,
    },
    {
      id: "status",
      header: "Status",
      text: (p) => formatStatus(p.status ?? ""),
      cell: (p) => <Status status={p.status} />,
      width: 140,
    },
  ];
}

/** FargateProfiles lists the Fargate profiles of a cluster. */
export function FargateProfiles({ name }: { name: string }) {
  const { session } = useSession();
  const navigate = useNavigate();
  const profiles = useProfiles(name);
  const [selected, setSelected] = useState<FargateProfile[]>([]);
  const [deleting, setDeleting] = useState<string>();
  const columns = useMemo(() => columnsOf(name), [name]);
  const [first] = selected;
  const add = (
    <Button onClick={() => void navigate(`/clusters/${encodeURIComponent(name)}/fargate-profile-create`)}>
      Add Fargate profile
    </Button>
  );
  return (
    <>
      <ResourceTable
        title="Fargate profiles"
        nouns={["Fargate profile", "Fargate profiles"]}
        items={profiles.data}
        columns={columns}
        keyOf={nameOf}
        nameOf={nameOf}
        error={profiles.error}
        refresh={() => void profiles.refetch()}
        refreshing={profiles.isFetching}
        commands={[awsCommand("eks", "list-fargate-profiles", { clusterName: name }, session.region)]}
        selection="single"
        selected={selected}
        onSelect={setSelected}
        emptyAction={add}
        actions={
          <SpaceBetween direction="horizontal" size="xs">
            <Button disabled={first === undefined} onClick={() => setDeleting(first?.fargateProfileName)}>
              Delete
            </Button>
            {add}
          </SpaceBetween>
        }
      />
      {deleting !== undefined && (
        <DeleteFargateProfile cluster={name} name={deleting} onDismiss={() => setDeleting(undefined)} />
      )}
    </>
  );
}
