import type { Instance } from "@aws-sdk/client-ec2";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { useNavigate, useParams } from "react-router";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { Copyable } from "../../components/Copyable";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";
import { Status } from "../../components/Status";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";
import { ConsoleOutput } from "./ConsoleOutput";
import { InstanceActions } from "./InstanceActions";
import { InstanceMonitoring } from "./InstanceMonitoring";
import { clusterOf, tagOf, useInstances } from "./instances";
import { InstanceInterfaces, InstanceTags, InstanceVolumes } from "./InstanceTabs";

/** InstancePage is the page of an instance, with its tabs. */
export default function InstancePage() {
  const { instance: id = "", tab = "details" } = useParams();
  const navigate = useNavigate();
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useInstances([id]);
  const instance = data?.[0];
  const failure = error !== null && (
    <ErrorAlert attempted={`Describe instance ${id}`} error={error} retry={() => void refetch()} />
  );
  if (instance === undefined) {
    if (error === null) return <Loading what={`instance ${id}`} />;
    return <ContentLayout header={<Header variant="h1">{id}</Header>}>{failure}</ContentLayout>;
  }
  const tabs = [
    { id: "details", label: "Details", content: <Details instance={instance} /> },
    { id: "networking", label: "Networking", content: <InstanceInterfaces id={id} /> },
    { id: "storage", label: "Storage", content: <InstanceVolumes id={id} /> },
    { id: "console", label: "System log", content: <ConsoleOutput id={id} /> },
    { id: "monitoring", label: "Monitoring", content: <InstanceMonitoring id={id} /> },
    { id: "tags", label: "Tags", content: <InstanceTags instance={instance} /> },
  ];
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          description={tagOf(instance.Tags, "Name")}
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand
                commands={[awsCommand("ec2", "describe-instances", { InstanceIds: [id] }, session.region)]}
              />
              <Button
                iconName="refresh"
                ariaLabel="Refresh instance"
                loading={isFetching}
                loadingText="Refreshing instance"
                onClick={() => void refetch()}
              />
              <InstanceActions instances={[instance]} />
            </SpaceBetween>
          }
        >
          {id}
        </Header>
      }
    >
      <SpaceBetween size="l">
        {failure}
        <Tabs
          ariaLabel="Instance"
          activeTabId={tab}
          onChange={({ detail }) =>
            void navigate(`/instances/${encodeURIComponent(id)}/${detail.activeTabId}`, { replace: true })
          }
          tabs={tabs.map((each) => ({ ...each, content: each.id === tab && each.content }))}
        />
      </SpaceBetween>
    </ContentLayout>
  );
}

function Details({ instance }: { instance: Instance }) {
  const cluster = clusterOf(instance);
  const reason = instance.StateReason?.Message ?? instance.StateTransitionReason ?? "";
  return (
    <Container header={<Header variant="h2">Instance summary</Header>}>
      <KeyValuePairs
        columns={3}
        items={[
          { label: "Instance state", value: <Status status={instance.State?.Name} /> },
          { label: "State transition reason", value: reason === "" ? "-" : reason },
          {
            label: "EKS cluster",
            value: cluster === "" ? "-" : <AppLink to={`/clusters/${encodeURIComponent(cluster)}`}>{cluster}</AppLink>,
          },
          { label: "Instance type", value: instance.InstanceType ?? "-" },
          { label: "AMI ID", value: <Copyable text={instance.ImageId} what="AMI ID" /> },
          { label: "Architecture", value: instance.Architecture ?? "-" },
          { label: "Private IPv4 address", value: <Copyable text={instance.PrivateIpAddress} what="Address" /> },
          { label: "Public IPv4 address", value: <Copyable text={instance.PublicIpAddress} what="Address" /> },
          { label: "Private DNS name", value: <Copyable text={instance.PrivateDnsName} what="Name" /> },
          { label: "VPC ID", value: <Copyable text={instance.VpcId} what="VPC ID" /> },
          { label: "Subnet ID", value: <Copyable text={instance.SubnetId} what="Subnet ID" /> },
          { label: "Availability Zone", value: instance.Placement?.AvailabilityZone ?? "-" },
          {
            label: "Security groups",
            value: instance.SecurityGroups?.map((g) => `${g.GroupName ?? ""} (${g.GroupId ?? ""})`).join(", ") ?? "-",
          },
          { label: "IAM instance profile", value: <Copyable text={instance.IamInstanceProfile?.Arn} what="ARN" /> },
          { label: "Key pair", value: instance.KeyName ?? "-" },
          { label: "Lifecycle", value: instance.InstanceLifecycle ?? "normal" },
          { label: "IMDSv2", value: instance.MetadataOptions?.HttpTokens === "required" ? "Required" : "Optional" },
          { label: "Launch time", value: <Time at={instance.LaunchTime} /> },
        ]}
      />
    </Container>
  );
}
