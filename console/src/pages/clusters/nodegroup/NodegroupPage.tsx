import type { Nodegroup } from "@aws-sdk/client-eks";
import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Tabs from "@cloudscape-design/components/tabs";
import { useState } from "react";
import { useNavigate, useParams } from "react-router";
import { awsCommand, kubectlCommand } from "../../../commands/command";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { Loading } from "../../../components/Loading";
import { ShowCommand } from "../../../components/ShowCommand";
import { Status } from "../../../components/Status";
import { useSession } from "../../../session/SessionProvider";
import { computeAddress, nodegroupAddress } from "../addresses";
import { useCluster } from "../clusters";
import { HealthIssues } from "../HealthIssues";
import { NodesTable } from "../NodesTable";
import { ResourceTags } from "../ResourceTags";
import { UpdateHistory } from "../UpdateHistory";
import { formatAmiType } from "./amiTypes";
import { DeleteNodegroup } from "./DeleteNodegroup";
import { NodegroupDetails, NodegroupLabels, NodegroupTaints, NodegroupUpdateConfig } from "./NodegroupTabs";
import { useNodegroup } from "./nodegroups";
import { UpdateVersion } from "./UpdateVersion";

/** NodegroupPage is the page of a node group, with its tabs. */
export default function NodegroupPage() {
  const { cluster = "", nodegroup: name = "", tab = "details" } = useParams();
  const navigate = useNavigate();
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useNodegroup(cluster, name);
  const version = useCluster(cluster).data?.cluster?.version;
  const [deleting, setDeleting] = useState(false);
  const [updating, setUpdating] = useState(false);
  const group = data?.nodegroup;
  const failure = error !== null && (
    <ErrorAlert attempted={`Describe node group ${name}`} error={error} retry={() => void refetch()} />
  );
  if (group === undefined) {
    if (error === null) return <Loading what={`node group ${name}`} />;
    return <ContentLayout header={<Header variant="h1">{name}</Header>}>{failure}</ContentLayout>;
  }
  const issues = group.health?.issues ?? [];
  const outdated = version !== undefined && group.version !== undefined && group.version !== version;
  const open = (id: string) => void navigate(nodegroupAddress(cluster, name, id), { replace: true });
  const tabs = [
    { id: "details", label: "Details", content: <NodegroupDetails group={group} /> },
    { id: "nodes", label: "Nodes", content: <NodesTable name={cluster} nodegroup={name} /> },
    {
      id: "health-issues",
      label: `Health issues (${issues.length})`,
      content: <HealthIssues title="Health issues" issues={issues} />,
    },
    { id: "labels", label: "Kubernetes labels", content: <NodegroupLabels group={group} /> },
    { id: "taints", label: "Kubernetes taints", content: <NodegroupTaints group={group} /> },
    { id: "update-config", label: "Update config", content: <NodegroupUpdateConfig group={group} /> },
    {
      id: "update-history",
      label: "Update history",
      content: <UpdateHistory name={cluster} nodegroupName={name} />,
    },
    {
      id: "tags",
      label: "Tags",
      content: <ResourceTags what="node group" arn={group.nodegroupArn} tags={group.tags} />,
    },
  ];
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand
                commands={[
                  awsCommand(
                    "eks",
                    "describe-nodegroup",
                    { clusterName: cluster, nodegroupName: name },
                    session.region,
                  ),
                  kubectlCommand(cluster, "get", "nodes", "-l", `eks.amazonaws.com/nodegroup=${name}`),
                ]}
              />
              <Button
                iconName="refresh"
                ariaLabel="Refresh node group"
                loading={isFetching}
                loadingText="Refreshing node group"
                onClick={() => void refetch()}
              />
              <Button onClick={() => void navigate(nodegroupAddress(cluster, name, "edit"))}>Edit</Button>
              <Button onClick={() => setDeleting(true)}>Delete</Button>
              <Button onClick={() => setUpdating(true)}>Update version</Button>
            </SpaceBetween>
          }
        >
          {name}
        </Header>
      }
    >
      <SpaceBetween size="l">
        {failure}
        {issues.length > 0 && (
          <Alert
            type={group.status === "CREATE_FAILED" || group.status === "DELETE_FAILED" ? "error" : "warning"}
            header={issues[0]?.code}
            action={<Button onClick={() => open("health-issues")}>View health issues</Button>}
          >
            {issues[0]?.message}
          </Alert>
        )}
        {outdated && (
          <Alert
            type="info"
            header={`New Kubernetes version available: ${version}`}
            action={<Button onClick={() => setUpdating(true)}>Update now</Button>}
          >
            The nodes of this group have Kubernetes {group.version}; the cluster has {version}.
          </Alert>
        )}
        <Summary group={group} />
        <Tabs
          ariaLabel="Node group"
          activeTabId={tab}
          onChange={({ detail }) => open(detail.activeTabId)}
          tabs={tabs.map((each) => ({ ...each, content: each.id === tab && each.content }))}
        />
      </SpaceBetween>
      {deleting && (
        <DeleteNodegroup
          cluster={cluster}
          name={name}
          onDismiss={() => setDeleting(false)}
          onDeleted={() => void navigate(computeAddress(cluster))}
        />
      )}
      {updating && <UpdateVersion group={group} clusterVersion={version} onDismiss={() => setUpdating(false)} />}
    </ContentLayout>
  );
}

function Summary({ group }: { group: Nodegroup }) {
  return (
    <Container header={<Header variant="h2">Node group configuration</Header>}>
      <KeyValuePairs
        columns={3}
        items={[
          { label: "Kubernetes version", value: group.version ?? "-" },
          { label: "AMI type", value: formatAmiType(group.amiType) },
          { label: "Status", value: <Status status={group.status} /> },
          { label: "AMI release version", value: group.releaseVersion ?? "-" },
          { label: "Instance types", value: group.instanceTypes?.join(", ") ?? "Specified in launch template" },
          {
            label: "Disk size",
            value: group.diskSize === undefined ? "Specified in launch template" : `${group.diskSize} GiB`,
          },
        ]}
      />
    </Container>
  );
}
