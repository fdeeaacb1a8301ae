// Volumes, as EC2 describes them, and their tables.
import {
  type DescribeVolumesCommandInput,
  EC2Client,
  paginateDescribeVolumes,
  type Volume,
} from "@aws-sdk/client-ec2";
import type { UseQueryResult } from "@tanstack/react-query";
import { pollWhile, useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Status } from "../../components/Status";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";
import { tagOf } from "./instances";

const changing = ({ State, Attachments }: Volume) =>
  /^(creating|deleting)$/.test(State ?? "") || (Attachments ?? []).some((a) => /ing$/.test(a.State ?? ""));

/** UseVolumes lists volumes of the region. */
export function useVolumes(input: DescribeVolumesCommandInput = {}): UseQueryResult<Volume[]> {
  return useAwsPages(EC2Client, paginateDescribeVolumes, input, (page) => page.Volumes, {
    poll: pollWhile((volumes) => volumes.some(changing)),
  });
}

const volumeId = (volume: Volume) => volume.VolumeId ?? "";
const instanceIds = (volume: Volume) => volume.Attachments?.map((a) => a.InstanceId ?? "") ?? [];

const columns: Column<Volume>[] = [
  {
    id: "id",
    header: "Volume ID",
    text: volumeId,
    cell: (v) => <AppLink to={`/volumes/${encodeURIComponent(volumeId(v))}`}>{volumeId(v)}</AppLink>,
    width: 220,
  },
  { id: "name", header: "Name", text: (v) => tagOf(v.Tags, "Name"), width: 220 },
  {
    id: "state",
    header: "Volume state",
    text: (v) => v.State ?? "",
    cell: (v) => <Status status={v.State} />,
    width: 140,
  },
  { id: "type", header: "Type", text: (v) => v.VolumeType ?? "", width: 90 },
  { id: "size", header: "Size", text: (v) => `${v.Size ?? 0} GiB`, width: 110 },
  { id: "iops", header: "IOPS", text: (v) => String(v.Iops ?? ""), width: 100 },
  { id: "throughput", header: "Throughput (MiB/s)", text: (v) => String(v.Throughput ?? ""), width: 170 },
  {
    id: "attached",
    header: "Attached resources",
    text: (v) => instanceIds(v).join(", "),
    cell: (v) =>
      instanceIds(v).length === 0
        ? "-"
        : instanceIds(v).map((id) => (
            <AppLink key={id} to={`/instances/${encodeURIComponent(id)}`}>
              {id}
            </AppLink>
          )),
    width: 220,
  },
  {
    id: "device",
    header: "Device",
    text: (v) => v.Attachments?.map((a) => a.Device ?? "").join(", ") ?? "",
    width: 120,
  },
  {
    id: "claim",
    header: "Persistent volume claim",
    text: (v) => {
      const claim = tagOf(v.Tags, "kubernetes.io/created-for/pvc/name");
      return claim === "" ? "" : `${tagOf(v.Tags, "kubernetes.io/created-for/pvc/namespace")}/${claim}`;
    },
    width: 220,
  },
  { id: "zone", header: "Availability Zone", text: (v) => v.AvailabilityZone ?? "", width: 160 },
  {
    id: "created",
    header: "Created",
    text: (v) => v.CreateTime?.toISOString() ?? "",
    cell: (v) => <Time at={v.CreateTime} />,
    width: 150,
  },
  { id: "snapshot", header: "Source snapshot ID", text: (v) => v.SnapshotId ?? "", hidden: true, width: 220 },
  { id: "encrypted", header: "Encryption", text: (v) => (v.Encrypted === true ? "Encrypted" : "Not encrypted") },
];

interface TableProps {
  title: string;
  input?: DescribeVolumesCommandInput;
  variant?: "container" | "full-page";
}

/** VolumesTable lists volumes of the region. */
export function VolumesTable({ title, input = {}, variant }: TableProps) {
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useVolumes(input);
  return (
    <ResourceTable
      variant={variant}
      title={title}
      nouns={["volume", "volumes"]}
      items={data}
      columns={columns}
      keyOf={volumeId}
      nameOf={volumeId}
      error={error}
      refresh={() => void refetch()}
      refreshing={isFetching}
      commands={[awsCommand("ec2", "describe-volumes", input, session.region)]}
    />
  );
}
