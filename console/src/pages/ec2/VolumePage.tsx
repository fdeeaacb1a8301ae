import {
  EC2Client,
  paginateDescribeSnapshots,
  type Snapshot,
  type VolumeAttachment,
} from "@aws-sdk/client-ec2";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useParams } from "react-router";
import { pollWhile, useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { Copyable } from "../../components/Copyable";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { ShowCommand } from "../../components/ShowCommand";
import { Status } from "../../components/Status";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";
import { useVolumes } from "./volumes";

const attachmentColumns: Column<VolumeAttachment>[] = [
  {
    id: "instance",
    header: "Instance ID",
    text: (a) => a.InstanceId ?? "",
    cell: (a) => <AppLink to={`/instances/${encodeURIComponent(a.InstanceId ?? "")}`}>{a.InstanceId}</AppLink>,
    width: 220,
  },
  { id: "device", header: "Device", text: (a) => a.Device ?? "", width: 140 },
  {
    id: "state",
    header: "Attachment status",
    text: (a) => a.State ?? "",
    cell: (a) => <Status status={a.State} />,
    width: 180,
  },
  {
    id: "delete",
    header: "Delete on termination",
    text: (a) => (a.DeleteOnTermination === true ? "Yes" : "No"),
    width: 200,
  },
  {
    id: "time",
    header: "Attachment time",
    text: (a) => a.AttachTime?.toISOString() ?? "",
    cell: (a) => <Time at={a.AttachTime} />,
    width: 180,
  },
];

const snapshotColumns: Column<Snapshot>[] = [
  { id: "id", header: "Snapshot ID", text: (s) => s.SnapshotId ?? "", width: 240 },
  {
    id: "state",
    header: "Snapshot status",
    text: (s) => s.State ?? "",
    cell: (s) => <Status status={s.State} />,
    width: 160,
  },
  { id: "progress", header: "Progress", text: (s) => s.Progress ?? "", width: 120 },
  { id: "size", header: "Volume size", text: (s) => `${s.VolumeSize ?? 0} GiB`, width: 130 },
  {
    id: "started",
    header: "Started",
    text: (s) => s.StartTime?.toISOString() ?? "",
    cell: (s) => <Time at={s.StartTime} />,
    width: 160,
  },
  { id: "description", header: "Description", text: (s) => s.Description ?? "", width: 360 },
];

/** VolumePage shows a volume, where it is attached, and its snapshots. */
export default function VolumePage() {
  const { volume: id = "" } = useParams();
  const { session } = useSession();
  const { data, error, refetch } = useVolumes({ VolumeIds: [id] });
  const of = { OwnerIds: ["self"], Filters: [{ Name: "volume-id", Values: [id] }] };
  const snapshots = useAwsPages(EC2Client, paginateDescribeSnapshots, of, (page) => page.Snapshots, {
    poll: pollWhile((all) => all.some((s) => s.State === "pending")),
  });
  const volume = data?.[0];
  const command = awsCommand("ec2", "describe-volumes", { VolumeIds: [id] }, session.region);
  const failure = error !== null && (
    <ErrorAlert attempted={`Describe volume ${id}`} error={error} retry={() => void refetch()} />
  );
  if (volume === undefined) {
    if (error === null) return <Loading what={`volume ${id}`} />;
    return <ContentLayout header={<Header variant="h1">{id}</Header>}>{failure}</ContentLayout>;
  }
  return (
    <ContentLayout
      header={
        <Header variant="h1" actions={<ShowCommand commands={[command]} />}>
          {id}
        </Header>
      }
    >
      <SpaceBetween size="l">
        {failure}
        <Container header={<Header variant="h2">Details</Header>}>
          <KeyValuePairs
            columns={4}
            items={[
              { label: "Volume state", value: <Status status={volume.State} /> },
              { label: "Type", value: volume.VolumeType ?? "-" },
              { label: "Size", value: `${volume.Size ?? 0} GiB` },
              { label: "IOPS", value: String(volume.Iops ?? "-") },
              { label: "Throughput (MiB/s)", value: String(volume.Throughput ?? "-") },
              { label: "Availability Zone", value: volume.AvailabilityZone ?? "-" },
              { label: "Source snapshot ID", value: <Copyable text={volume.SnapshotId} what="Snapshot ID" /> },
              { label: "KMS key", value: <Copyable text={volume.KmsKeyId} what="KMS key" /> },
              { label: "Created", value: <Time at={volume.CreateTime} /> },
            ]}
          />
        </Container>
        <ResourceTable
          title="Attachments"
          nouns={["attachment", "attachments"]}
          items={volume.Attachments ?? []}
          columns={attachmentColumns}
          keyOf={(a) => a.InstanceId ?? ""}
          nameOf={(a) => a.InstanceId ?? ""}
          commands={[command]}
        />
        <ResourceTable
          title="Snapshots"
          nouns={["snapshot", "snapshots"]}
          items={snapshots.data}
          columns={snapshotColumns}
          keyOf={(s) => s.SnapshotId ?? ""}
          nameOf={(s) => s.SnapshotId ?? ""}
          error={snapshots.error}
          refresh={() => void snapshots.refetch()}
          refreshing={snapshots.isFetching}
          commands={[awsCommand("ec2", "describe-snapshots", of, session.region)]}
        />
      </SpaceBetween>
    </ContentLayout>
  );
}
