import {
  DeleteFargateProfileCommand,
  DeleteNodegroupCommand,
  DescribeFargateProfileCommand,
  DescribeNodegroupCommand,
  EKSClient,
  type FargateProfile,
  type Nodegroup,
  paginateListFargateProfiles,
  paginateListNodegroups,
  UpdateNodegroupVersionCommand,
} from "@aws-sdk/client-eks";
import Button from "@cloudscape-design/components/button";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useMemo, useState } from "react";
import { useDescribed } from "../../../aws/describe";
import { useAwsChange } from "../../../aws/queries";
import { awsCommand, kubectlCommand } from "../../../commands/command";
import { DeleteModal } from "../../../components/DeleteModal";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { Status } from "../../../components/Status";
import { Time } from "../../../components/Time";
import { nodes } from "../../../kubernetes/objects";
import { useWatch } from "../../../kubernetes/watch";
import { useSession } from "../../../session/SessionProvider";
import { type Node, nodeStatus } from "../nodes";
import type { TabProps } from "../tab";

/** ComputeTab shows what pods run on: nodes, node groups and Fargate profiles. */
export default function ComputeTab({ cluster, name }: TabProps) {
  return (
    <SpaceBetween size="l">
      <Nodes name={name} />
      <Nodegroups name={name} version={cluster.version} />
      <FargateProfiles name={name} />
    </SpaceBetween>
  );
}

const nodeColumns: Column<Node>[] = [
  { id: "name", header: "Node name", text: (n) => n.metadata.name, width: 280 },
  {
    id: "type",
    header: "Instance type",
    text: (n) => n.metadata.labels?.["node.kubernetes.io/instance-type"] ?? "-",
    width: 140,
  },
  {
    id: "group",
    header: "Node group",
    text: (n) => n.metadata.labels?.["eks.amazonaws.com/nodegroup"] ?? "-",
    width: 160,
  },
  {
    id: "zone",
    header: "Availability Zone",
    text: (n) => n.metadata.labels?.["topology.kubernetes.io/zone"] ?? "-",
    width: 160,
  },
  { id: "version", header: "Kubelet version", text: (n) => n.status?.nodeInfo?.kubeletVersion ?? "-", width: 180 },
  {
    id: "created",
    header: "Created",
    text: (n) => n.metadata.creationTimestamp,
    cell: (n) => <Time at={n.metadata.creationTimestamp} />,
    width: 150,
  },
  { id: "status", header: "Status", text: nodeStatus, cell: (n) => <Status status={nodeStatus(n)} raw />, width: 190 },
];

function Nodes({ name }: { name: string }) {
  const { items, loading, error } = useWatch<Node>(name, nodes);
  return (
    <ResourceTable
      title="Nodes"
      nouns={["node", "nodes"]}
      items={loading ? undefined : items}
      columns={nodeColumns}
      keyOf={(n) => n.metadata.uid}
      nameOf={(n) => n.metadata.name}
      error={error}
      commands={[kubectlCommand(name, "get", "nodes", "-o", "wide")]}
    />
  );
}

const isUnsettled = (status: string | undefined) => /^(CREATING|UPDATING|DELETING)$/.test(status ?? "");

function Nodegroups({ name, version }: { name: string; version: string | undefined }) {
  const { session } = useSession();
  const groups = useDescribed(EKSClient, {
    paginate: paginateListNodegroups,
    input: { clusterName: name },
    pages: (client) => paginateListNodegroups({ client }, { clusterName: name }),
    names: (page) => page.nodegroups,
    describe: async (client, nodegroupName, abortSignal) =>
      (await client.send(new DescribeNodegroupCommand({ clusterName: name, nodegroupName }), { abortSignal }))
        .nodegroup,
    changes: (g: Nodegroup) => isUnsettled(g.status),
  });
  const [selected, setSelected] = useState<Nodegroup[]>([]);
  const [deleting, setDeleting] = useState<string>();
  const remove = useAwsChange(EKSClient, DeleteNodegroupCommand, {
    attempt: (input) => `Delete node group ${input.nodegroupName ?? ""}`,
    success: (input) => `Node group ${input.nodegroupName ?? ""} is being deleted.`,
    quiet: true,
  });
  const update = useAwsChange(EKSClient, UpdateNodegroupVersionCommand, {
    attempt: (input) => `Update node group ${input.nodegroupName ?? ""}`,
    success: (input) => `Node group ${input.nodegroupName ?? ""} is being updated.`,
  });
  const columns = useMemo<Column<Nodegroup>[]>(
    () => [
      { id: "name", header: "Group name", text: (g) => g.nodegroupName ?? "", width: 180 },
      {
        id: "size",
        header: "Desired size",
        text: (g) => String(g.scalingConfig?.desiredSize ?? "-"),
        width: 130,
      },
      {
        id: "scaling",
        header: "Minimum to maximum",
        text: (g) => `${g.scalingConfig?.minSize ?? "-"} to ${g.scalingConfig?.maxSize ?? "-"}`,
        width: 180,
      },
      { id: "release", header: "AMI release version", text: (g) => g.releaseVersion ?? g.version ?? "-", width: 200 },
      { id: "types", header: "Instance types", text: (g) => g.instanceTypes?.join(", ") ?? "-", width: 150 },
      {
        id: "issues",
        header: "Health issues",
        text: (g) => g.health?.issues?.map((i) => `${i.code ?? ""}: ${i.message ?? ""}`).join("; ") ?? "",
        width: 260,
      },
      {
        id: "status",
        header: "Status",
        text: (g) => g.status ?? "",
        cell: (g) => <Status status={g.status} />,
        width: 140,
      },
    ],
    [],
  );
  const [first] = selected;
  const current = groups.data?.find((g) => g.nodegroupName === first?.nodegroupName);
  const outdated = current?.status === "ACTIVE" && current.version !== version;
  return (
    <>
      <ResourceTable
        title="Node groups"
        nouns={["node group", "node groups"]}
        items={groups.data}
        columns={columns}
        keyOf={(g) => g.nodegroupName ?? ""}
        nameOf={(g) => g.nodegroupName ?? ""}
        error={groups.error}
        refresh={() => void groups.refetch()}
        refreshing={groups.isFetching}
        commands={[awsCommand("eks", "list-nodegroups", { clusterName: name }, session.region)]}
        selection="single"
        selected={selected}
        onSelect={setSelected}
        actions={
          <SpaceBetween direction="horizontal" size="xs">
            <Button
              disabled={!outdated}
              disabledReason="Choose a node group whose version is not the cluster's"
              onClick={() => update.mutate({ clusterName: name, nodegroupName: current?.nodegroupName })}
            >
              Update now
            </Button>
            <Button disabled={current === undefined} onClick={() => setDeleting(current?.nodegroupName)}>
              Delete
            </Button>
          </SpaceBetween>
        }
      />
      {deleting !== undefined && (
        <DeleteModal
          what="node group"
          name={deleting}
          onDismiss={() => setDeleting(undefined)}
          onDelete={() => remove.mutateAsync({ clusterName: name, nodegroupName: deleting })}
        >
          Its nodes are drained, and their instances terminated.
        </DeleteModal>
      )}
    </>
  );
}

const profileColumns: Column<FargateProfile>[] = [
  { id: "name", header: "Profile name", text: (p) => p.fargateProfileName ?? "", width: 200 },
  {
    id: "selectors",
    header: "Pod selectors",
    text: (p) =>
      p.selectors
        ?.map(({ namespace = "", labels = {} }) =>
          [namespace, ...Object.entries(labels).map(([key, value]) => `${key}=${value}`)].join(" "),
        )
        .join("; ") ?? "-",
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
    text: (p) => p.status ?? "",
    cell: (p) => <Status status={p.status} />,
    width: 140,
  },
];

function FargateProfiles({ name }: { name: string }) {
  const { session } = useSession();
  const profiles = useDescribed(EKSClient, {
    paginate: paginateListFargateProfiles,
    input: { clusterName: name },
    pages: (client) => paginateListFargateProfiles({ client }, { clusterName: name }),
    names: (page) => page.fargateProfileNames,
    describe: async (client, fargateProfileName, abortSignal) =>
      (await client.send(new DescribeFargateProfileCommand({ clusterName: name, fargateProfileName }), { abortSignal }))
        .fargateProfile,
    changes: (p: FargateProfile) => isUnsettled(p.status),
  });
  const [selected, setSelected] = useState<FargateProfile[]>([]);
  const [deleting, setDeleting] = useState<string>();
  const remove = useAwsChange(EKSClient, DeleteFargateProfileCommand, {
    attempt: (input) => `Delete Fargate profile ${input.fargateProfileName ?? ""}`,
    success: (input) => `Fargate profile ${input.fargateProfileName ?? ""} is being deleted.`,
    quiet: true,
  });
  const [first] = selected;
  return (
    <>
      <ResourceTable
        title="Fargate profiles"
        nouns={["Fargate profile", "Fargate profiles"]}
        items={profiles.data}
        columns={profileColumns}
        keyOf={(p) => p.fargateProfileName ?? ""}
        nameOf={(p) => p.fargateProfileName ?? ""}
        error={profiles.error}
        refresh={() => void profiles.refetch()}
        refreshing={profiles.isFetching}
        commands={[awsCommand("eks", "list-fargate-profiles", { clusterName: name }, session.region)]}
        selection="single"
        selected={selected}
        onSelect={setSelected}
        actions={
          <Button disabled={first === undefined} onClick={() => setDeleting(first?.fargateProfileName)}>
            Delete
          </Button>
        }
      />
      {deleting !== undefined && (
        <DeleteModal
          what="Fargate profile"
          name={deleting}
          onDismiss={() => setDeleting(undefined)}
          onDelete={() => remove.mutateAsync({ clusterName: name, fargateProfileName: deleting })}
        >
          Pods that run by this profile are deleted.
        </DeleteModal>
      )}
    </>
  );
}
