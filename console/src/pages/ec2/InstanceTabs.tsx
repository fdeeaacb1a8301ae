// The tabs of an instance that are tables.
import {
  EC2Client,
  type Instance,
  type NetworkInterface,
  paginateDescribeNetworkInterfaces,
  type Tag,
} from "@aws-sdk/client-ec2";
import { useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Status } from "../../components/Status";
import { useSession } from "../../session/SessionProvider";
import { VolumesTable } from "./volumes";

const secondary = (eni: NetworkInterface) => [
  ...(eni.PrivateIpAddresses ?? []).filter((a) => a.Primary !== true).map((a) => a.PrivateIpAddress ?? ""),
  ...(eni.Ipv4Prefixes ?? []).map((p) => p.Ipv4Prefix ?? ""),
];

const interfaceColumns: Column<NetworkInterface>[] = [
  { id: "id", header: "Interface ID", text: (i) => i.NetworkInterfaceId ?? "", width: 220 },
  { id: "index", header: "Device index", text: (i) => String(i.Attachment?.DeviceIndex ?? ""), width: 130 },
  {
    id: "status",
    header: "Status",
    text: (i) => i.Status ?? "",
    cell: (i) => <Status status={i.Status} />,
    width: 120,
  },
  { id: "subnet", header: "Subnet ID", text: (i) => i.SubnetId ?? "", width: 220 },
  { id: "private", header: "Private IPv4 address", text: (i) => i.PrivateIpAddress ?? "", width: 180 },
  { id: "secondary", header: "Secondary addresses and prefixes", text: (i) => secondary(i).join(", "), width: 340 },
  { id: "public", header: "Public IPv4 address", text: (i) => i.Association?.PublicIp ?? "", width: 180 },
  {
    id: "groups",
    header: "Security groups",
    text: (i) => i.Groups?.map((g) => g.GroupId ?? "").join(", ") ?? "",
    width: 240,
  },
  { id: "mac", header: "MAC address", text: (i) => i.MacAddress ?? "", hidden: true, width: 180 },
  { id: "description", header: "Description", text: (i) => i.Description ?? "", width: 320 },
];

/** InstanceInterfaces lists the network interfaces of an instance, with their addresses. */
export function InstanceInterfaces({ id }: { id: string }) {
  const { session } = useSession();
  const input = { Filters: [{ Name: "attachment.instance-id", Values: [id] }] };
  const { data, error, refetch, isFetching } = useAwsPages(
    EC2Client,
    paginateDescribeNetworkInterfaces,
    input,
    (page) => page.NetworkInterfaces,
  );
  return (
    <ResourceTable
      title="Network interfaces"
      nouns={["network interface", "network interfaces"]}
      items={data}
      columns={interfaceColumns}
      keyOf={(i) => i.NetworkInterfaceId ?? ""}
      nameOf={(i) => i.NetworkInterfaceId ?? ""}
      error={error}
      refresh={() => void refetch()}
      refreshing={isFetching}
      commands={[awsCommand("ec2", "describe-network-interfaces", input, session.region)]}
    />
  );
}

/** InstanceVolumes lists the volumes that are attached to an instance. */
export function InstanceVolumes({ id }: { id: string }) {
  const input = { Filters: [{ Name: "attachment.instance-id", Values: [id] }] };
  return <VolumesTable title="Block devices" input={input} />;
}

const tagColumns: Column<Tag>[] = [
  { id: "key", header: "Key", text: (t) => t.Key ?? "", width: 360 },
  { id: "value", header: "Value", text: (t) => t.Value ?? "", width: 460 },
];

/** InstanceTags lists the tags of an instance. */
export function InstanceTags({ instance }: { instance: Instance }) {
  const { session } = useSession();
  const input = { Filters: [{ Name: "resource-id", Values: [instance.InstanceId ?? ""] }] };
  return (
    <ResourceTable
      title="Tags"
      nouns={["tag", "tags"]}
      items={instance.Tags ?? []}
      columns={tagColumns}
      keyOf={(t) => t.Key ?? ""}
      nameOf={(t) => t.Key ?? ""}
      commands={[awsCommand("ec2", "describe-tags", input, session.region)]}
    />
  );
}
