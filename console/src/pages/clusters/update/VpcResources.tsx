import { EC2Client, paginateDescribeSecurityGroups, paginateDescribeSubnets } from "@aws-sdk/client-ec2";
import type { Cluster } from "@aws-sdk/client-eks";
import FormField from "@cloudscape-design/components/form-field";
import Multiselect from "@cloudscape-design/components/multiselect";
import { useState } from "react";
import { useAwsPages } from "../../../aws/queries";
import { eksctlCommand } from "../../../commands/eksctl";
import { useSession } from "../../../session/SessionProvider";
import { ConfigModal } from "./ConfigModal";
import { vpcChangeOf } from "./request";

/** VpcResources changes the subnets and the additional security groups of a control plane. */
export function VpcResources({ cluster, onDismiss }: { cluster: Cluster; onDismiss: () => void }) {
  const { session } = useSession();
  const vpc = cluster.resourcesVpcConfig;
  const [subnetIds, setSubnetIds] = useState(vpc?.subnetIds ?? []);
  const [groupIds, setGroupIds] = useState(vpc?.securityGroupIds ?? []);
  const Filters = [{ Name: "vpc-id", Values: [vpc?.vpcId ?? ""] }];
  const subnets = useAwsPages(EC2Client, paginateDescribeSubnets, { Filters }, (page) => page.Subnets);
  const groups = useAwsPages(EC2Client, paginateDescribeSecurityGroups, { Filters }, (page) => page.SecurityGroups);
  const zones = new Map(subnets.data?.map((s) => [s.SubnetId ?? "", s.AvailabilityZone ?? ""]));
  const inZones = new Set(subnetIds.map((id) => zones.get(id) ?? id));
  const good = inZones.size >= 2 && groupIds.length <= 5;
  const change = good ? vpcChangeOf(cluster, subnetIds, groupIds) : undefined;
  const optionOf = (value: string) => ({ value, label: value, description: zones.get(value) });
  const deselectAriaLabel = ({ label = "" }) => `Remove ${label}`;
  const failed = subnets.error ?? groups.error;
  return (
    <ConfigModal
      cluster={cluster}
      title="Manage VPC resources"
      what="subnets and security groups"
      change={change}
      after={{ resourcesVpcConfig: { ...vpc, subnetIds, securityGroupIds: groupIds } }}
      eksctl={eksctlCommand(
        "utils update-cluster-vpc-config",
        {
          cluster: cluster.name,
          "control-plane-subnet-ids": change?.resourcesVpcConfig?.subnetIds,
          "control-plane-security-group-ids": change?.resourcesVpcConfig?.securityGroupIds,
          approve: true,
        },
        session.region,
      )}
      onDismiss={onDismiss}
    >
      <FormField
        label="Subnets"
        description="EKS places network interfaces of the control plane in them."
        errorText={
          failed?.message ?? (inZones.size < 2 ? "Choose subnets in at least two Availability Zones." : undefined)
        }
      >
        <Multiselect
          filteringType="auto"
          placeholder="Choose subnets"
          options={(subnets.data ?? []).map(({ SubnetId = "", AvailabilityZone, CidrBlock }) => ({
            value: SubnetId,
            label: SubnetId,
            description: [AvailabilityZone, CidrBlock].filter(Boolean).join(" | "),
          }))}
          selectedOptions={subnetIds.map(optionOf)}
          deselectAriaLabel={deselectAriaLabel}
          onChange={({ detail }) => setSubnetIds(detail.selectedOptions.map(({ value = "" }) => value))}
        />
      </FormField>
      <FormField
        label="Additional security groups"
        errorText={groupIds.length > 5 ? "Choose up to 5 security groups." : undefined}
      >
        <Multiselect
          filteringType="auto"
          placeholder="Choose security groups"
          options={(groups.data ?? []).map(({ GroupId, GroupName }) => ({
            value: GroupId,
            label: GroupId,
            description: GroupName,
          }))}
          selectedOptions={groupIds.map((value) => ({ value, label: value }))}
          deselectAriaLabel={deselectAriaLabel}
          onChange={({ detail }) => setGroupIds(detail.selectedOptions.map(({ value = "" }) => value))}
        />
      </FormField>
    </ConfigModal>
  );
}
