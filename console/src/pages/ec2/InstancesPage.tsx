import { EC2Client, type Instance, type InstanceStatus, paginateDescribeInstanceStatus } from "@aws-sdk/client-ec2";
import { useMemo, useState } from "react";
import { useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Status } from "../../components/Status";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";
import { InstanceActions } from "./InstanceActions";
import { clusterOf, statusChecks, tagOf, useInstances } from "./instances";

const idOf = (instance: Instance) => instance.InstanceId ?? "";

/** InstancesPage lists the instances of the region. */
export default function InstancesPage() {
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useInstances();
  const statuses = useAwsPages(EC2Client, paginateDescribeInstanceStatus, {}, (page) => page.InstanceStatuses);
  const [selected, setSelected] = useState<Instance[]>([]);

  const columns = useMemo<Column<Instance>[]>(() => {
    const checks = new Map<string, InstanceStatus>(statuses.data?.map((s) => [s.InstanceId ?? "", s]));
    return [
      {
        id: "id",
        header: "Instance ID",
        text: idOf,
        cell: (i) => <AppLink to={`/instances/${encodeURIComponent(idOf(i))}`}>{idOf(i)}</AppLink>,
        width: 210,
      },
      { id: "name", header: "Name", text: (i) => tagOf(i.Tags, "Name"), width: 200 },
      {
        id: "state",
        header: "Instance state",
        text: (i) => i.State?.Name ?? "",
        cell: (i) => <Status status={i.State?.Name} />,
        width: 150,
      },
      { id: "type", header: "Instance type", text: (i) => i.InstanceType ?? "", width: 140 },
      { id: "checks", header: "Status check", text: (i) => statusChecks(checks.get(idOf(i))), width: 170 },
      {
        id: "cluster",
        header: "EKS cluster",
        text: clusterOf,
        cell: (i) =>
          clusterOf(i) === "" ? "-" : (
            <AppLink to={`/clusters/${encodeURIComponent(clusterOf(i))}`}>{clusterOf(i)}</AppLink>
          ),
        width: 160,
      },
      { id: "zone", header: "Availability Zone", text: (i) => i.Placement?.AvailabilityZone ?? "", width: 160 },
      { id: "private", header: "Private IPv4 address", text: (i) => i.PrivateIpAddress ?? "", width: 180 },
      { id: "public", header: "Public IPv4 address", text: (i) => i.PublicIpAddress ?? "", width: 180 },
      {
        id: "launched",
        header: "Launch time",
        text: (i) => i.LaunchTime?.toISOString() ?? "",
        cell: (i) => <Time at={i.LaunchTime} />,
        width: 150,
      },
      { id: "image", header: "AMI ID", text: (i) => i.ImageId ?? "", hidden: true, width: 210 },
      { id: "vpc", header: "VPC ID", text: (i) => i.VpcId ?? "", hidden: true, width: 210 },
      { id: "subnet", header: "Subnet ID", text: (i) => i.SubnetId ?? "", hidden: true, width: 210 },
    ];
  }, [statuses.data]);

  const chosen = data?.filter((i) => selected.some((s) => idOf(s) === idOf(i))) ?? [];
  return (
    <ResourceTable
      variant="full-page"
      title="Instances"
      nouns={["instance", "instances"]}
      items={data}
      columns={columns}
      keyOf={idOf}
      nameOf={idOf}
      error={error ?? statuses.error}
      refresh={() => void refetch()}
      refreshing={isFetching}
      commands={[awsCommand("ec2", "describe-instances", {}, session.region)]}
      selection="multi"
      selected={chosen}
      onSelect={setSelected}
      actions={<InstanceActions instances={chosen} />}
    />
  );
}
