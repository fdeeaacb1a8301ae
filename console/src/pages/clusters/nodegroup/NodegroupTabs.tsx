// Tabs of the page of a node group.
import type { Nodegroup, Taint } from "@aws-sdk/client-eks";
import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { AppLink } from "../../../components/AppLink";
import { Copyable } from "../../../components/Copyable";
import { Time } from "../../../components/Time";
import { pairsOf } from "../forms/problems";
import { roleName } from "../forms/roles";
import { formatCapacity, formatShare } from "./form";
import { settingsOf } from "./request";
import { effects } from "./SettingsFields";

interface Props {
  group: Nodegroup;
}

const each = (list: string[] | undefined) =>
  list === undefined || list.length === 0 ? "-" : list.map((text) => <Box key={text}>{text}</Box>);

/** NodegroupDetails shows what EKS keeps of a node group. */
export function NodegroupDetails({ group }: Props) {
  const { scalingConfig, launchTemplate, remoteAccess, resources, nodeRole = "" } = group;
  const nodes = (count: number | undefined) => formatShare({ unit: "number", text: String(count ?? "") });
  return (
    <Container header={<Header variant="h2">Details</Header>}>
      <KeyValuePairs
        columns={3}
        items={[
          { label: "Node group ARN", value: <Copyable text={group.nodegroupArn} what="Node group ARN" /> },
          { label: "Autoscaling group name", value: each(resources?.autoScalingGroups?.map(({ name = "" }) => name)) },
          { label: "Capacity type", value: formatCapacity(group.capacityType) },
          { label: "Desired size", value: nodes(scalingConfig?.desiredSize) },
          { label: "Minimum size", value: nodes(scalingConfig?.minSize) },
          { label: "Maximum size", value: nodes(scalingConfig?.maxSize) },
          { label: "Subnets", value: each(group.subnets) },
          {
            label: "Node IAM role",
            value: (
              <SpaceBetween size="xxs">
                <AppLink to={`/iam-roles/${encodeURIComponent(roleName(nodeRole))}`}>{roleName(nodeRole)}</AppLink>
                <Copyable text={nodeRole} what="Node IAM role ARN" />
              </SpaceBetween>
            ),
          },
          { label: "Created", value: <Time at={group.createdAt} /> },
          {
            label: "Launch template",
            value: launchTemplate === undefined ? "-" : `${launchTemplate.name ?? ""} (${launchTemplate.id ?? ""})`,
          },
          { label: "Launch template version", value: launchTemplate?.version ?? "-" },
          { label: "Warm pool", value: group.warmPoolConfig?.enabled === true ? "Enabled" : "Disabled" },
          { label: "Configure remote access to nodes", value: remoteAccess === undefined ? "Off" : "On" },
          { label: "EC2 Key Pair", value: remoteAccess?.ec2SshKey ?? "-" },
          {
            label: "Allow remote access from",
            value: remoteAccess && each(remoteAccess.sourceSecurityGroups ?? ["All"]),
          },
        ].map(({ label, value = "-" }) => ({ label, value }))}
      />
    </Container>
  );
}

/** NodegroupLabels lists the labels that a group gives its nodes. */
export function NodegroupLabels({ group }: Props) {
  const labels = pairsOf(group.labels);
  return (
    <Table
      items={labels}
      enableKeyboardNavigation
      ariaLabels={{ tableLabel: "Kubernetes labels" }}
      empty="This node group has no Kubernetes labels."
      header={
        <Header variant="h2" counter={`(${labels.length})`}>
          Kubernetes labels
        </Header>
      }
      columnDefinitions={[
        { id: "key", header: "Key", cell: ({ key }) => key, isRowHeader: true },
        { id: "value", header: "Value", cell: ({ value }) => value },
      ]}
    />
  );
}

const effectOf = ({ effect }: Taint) => effects.find(({ value }) => value === effect)?.label ?? effect;

/** NodegroupTaints lists the taints that a group gives its nodes. */
export function NodegroupTaints({ group }: Props) {
  const taints = group.taints ?? [];
  return (
    <Table
      items={taints}
      enableKeyboardNavigation
      ariaLabels={{ tableLabel: "Kubernetes taints" }}
      empty="This node group has no Kubernetes taints."
      header={
        <Header variant="h2" counter={`(${taints.length})`}>
          Kubernetes taints
        </Header>
      }
      columnDefinitions={[
        { id: "key", header: "Key", cell: ({ key }) => key, isRowHeader: true },
        { id: "value", header: "Value", cell: ({ value }) => value ?? "-" },
        { id: "effect", header: "Effect", cell: effectOf },
      ]}
    />
  );
}

/** NodegroupUpdateConfig shows how nodes are updated and repaired. */
export function NodegroupUpdateConfig({ group }: Props) {
  const { unavailable, updateStrategy, repair, unhealthy, parallel, overrides } = settingsOf(group);
  return (
    <SpaceBetween size="l">
      <Container header={<Header variant="h2">Node group update configuration</Header>}>
        <KeyValuePairs
          columns={3}
          items={[
            { label: "Maximum unavailable", value: formatShare(unavailable) },
            { label: "Update strategy", value: updateStrategy === "MINIMAL" ? "Minimal" : "Default" },
          ]}
        />
      </Container>
      <Container header={<Header variant="h2">Node auto repair configuration</Header>}>
        <KeyValuePairs
          columns={3}
          items={[
            { label: "Node auto repair", value: repair ? "Enabled" : "Disabled" },
            { label: "Maximum unhealthy nodes", value: formatShare(unhealthy) },
            { label: "Maximum parallel repairs", value: formatShare(parallel) },
            {
              label: "Overrides",
              value: each(
                overrides.map(
                  (o) =>
                    `${o.nodeMonitoringCondition ?? ""}/${o.nodeUnhealthyReason ?? ""}: ${o.repairAction ?? ""} ` +
                    `after ${o.minRepairWaitTimeMins ?? ""} minutes`,
                ),
              ),
            },
          ]}
        />
      </Container>
    </SpaceBetween>
  );
}
