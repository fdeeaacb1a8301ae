import type { Addon, PodIdentityAssociation } from "@aws-sdk/client-eks";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import Tabs from "@cloudscape-design/components/tabs";
import { useState } from "react";
import { useNavigate, useParams } from "react-router";
import { awsCommand } from "../../../commands/command";
import { AppLink } from "../../../components/AppLink";
import { Copyable } from "../../../components/Copyable";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { Loading } from "../../../components/Loading";
import { ShowCommand } from "../../../components/ShowCommand";
import { Status } from "../../../components/Status";
import { Time } from "../../../components/Time";
import { useSession } from "../../../session/SessionProvider";
import { useCluster } from "../clusters";
import { HealthIssues } from "../HealthIssues";
import { ResourceTags } from "../ResourceTags";
import { UpdateHistory } from "../UpdateHistory";
import { isChanging, useAddon, useAddonAssociations, useAddonUpdates, useAddonVersions } from "./addons";
import { Conflicts } from "./Conflicts";
import { RemoveAddon } from "./RemoveAddon";
import { formatSchema } from "./schema";

/** AddonPage is the page of an add-on of a cluster. */
export default function AddonPage() {
  const { cluster: clusterName = "", addon: addonName = "" } = useParams();
  const navigate = useNavigate();
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useAddon(clusterName, addonName);
  const of = { clusterName, addonName };
  const [removing, setRemoving] = useState(false);
  const addon = data?.addon;
  const cluster = useCluster(clusterName);
  const info = useAddonVersions(cluster.data?.cluster?.version, addonName).data?.[0];
  const updates = useAddonUpdates(clusterName, addonName);
  const page = `/clusters/${encodeURIComponent(clusterName)}/add-ons/${encodeURIComponent(addonName)}`;
  const failure = error !== null && (
    <ErrorAlert attempted={`Describe add-on ${addonName}`} error={error} retry={() => void refetch()} />
  );
  if (addon === undefined) {
    if (error === null) return <Loading what={`add-on ${addonName}`} />;
    return <ContentLayout header={<Header variant="h1">{addonName}</Header>}>{failure}</ContentLayout>;
  }
  const issues = addon.health?.issues ?? [];
  const newest = updates.data?.[0];
  const latest = info?.addonVersions?.[0]?.addonVersion;
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand commands={[awsCommand("eks", "describe-addon", of, session.region)]} />
              <Button
                iconName="refresh"
                ariaLabel="Refresh add-on"
                loading={isFetching}
                loadingText="Refreshing add-on"
                onClick={() => void refetch()}
              />
              <Button disabled={addon.status === "DELETING"} onClick={() => setRemoving(true)}>
                Remove
              </Button>
              <Button variant="primary" disabled={isChanging(addon)} onClick={() => void navigate(`${page}/edit`)}>
                Edit
              </Button>
            </SpaceBetween>
          }
        >
          {addonName}
        </Header>
      }
    >
      <SpaceBetween size="l">
        {failure}
        <Conflicts
          clusterName={clusterName}
          addon={addon}
          issues={issues}
          update={newest?.status === "Failed" ? newest : undefined}
        />
        <Container header={<Header variant="h2">Details</Header>}>
          <KeyValuePairs
            columns={3}
            items={[
              { label: "Status", value: <Status status={addon.status} /> },
              {
                label: "Version",
                value: (
                  <>
                    {addon.addonVersion ?? "-"}
                    {latest !== undefined && latest !== addon.addonVersion && !isChanging(addon) && (
                      <Box>
                        <AppLink to={`${page}/edit`}>Update version</AppLink> ({latest} is the latest)
                      </Box>
                    )}
                  </>
                ),
              },
              {
                label: "Health issues",
                value: (
                  <StatusIndicator type={issues.length === 0 ? "success" : "error"}>{issues.length}</StatusIndicator>
                ),
              },
              { label: "Category", value: info?.type ?? "-" },
              { label: "Listed by", value: addon.publisher ?? "-" },
              { label: "Namespace", value: addon.namespaceConfig?.namespace ?? "-" },
              {
                label: "IAM role for service account (IRSA)",
                value: <Copyable text={addon.serviceAccountRoleArn} what="IAM role ARN" />,
              },
              { label: "Created", value: <Time at={addon.createdAt} /> },
              { label: "Modified", value: <Time at={addon.modifiedAt} /> },
              { label: "Add-on ARN", value: <Copyable text={addon.addonArn} what="Add-on ARN" /> },
            ]}
          />
        </Container>
        <Tabs
          ariaLabel="Add-on"
          tabs={[
            { id: "issues", label: "Health issues", content: <HealthIssues title="Health issues" issues={issues} /> },
            {
              id: "associations",
              label: "Pod Identity associations",
              content: <Associations clusterName={clusterName} addon={addon} />,
            },
            { id: "values", label: "Configuration values", content: <Values addon={addon} /> },
            {
              id: "updates",
              label: "Update history",
              content: <UpdateHistory name={clusterName} addonName={addonName} />,
            },
            {
              id: "tags",
              label: "Tags",
              content: <ResourceTags what="add-on" arn={addon.addonArn} tags={addon.tags} />,
            },
          ]}
        />
      </SpaceBetween>
      {removing && (
        <RemoveAddon
          {...of}
          onDismiss={() => setRemoving(false)}
          onRemoved={() => void navigate(`/clusters/${encodeURIComponent(clusterName)}/add-ons`)}
        />
      )}
    </ContentLayout>
  );
}

function Associations({ clusterName, addon }: { clusterName: string; addon: Addon }) {
  const { data, error } = useAddonAssociations(clusterName, addon.addonArn);
  if (error !== null) return <ErrorAlert attempted="List Pod Identity associations" error={error} />;
  const address = ({ associationId = "" }: PodIdentityAssociation) =>
    `/clusters/${encodeURIComponent(clusterName)}/pod-identity-associations/${encodeURIComponent(associationId)}`;
  return (
    <Table
      items={data ?? []}
      loading={data === undefined}
      loadingText="Loading associations"
      wrapLines
      enableKeyboardNavigation
      ariaLabels={{ tableLabel: "Pod Identity associations" }}
      empty={<Box textAlign="center">No associations</Box>}
      header={
        <Header variant="h2" description="Owned by the add-on: edit the add-on to change them.">
          Pod Identity associations
        </Header>
      }
      columnDefinitions={[
        {
          id: "account",
          header: "Service account",
          cell: (a) => <AppLink to={address(a)}>{a.serviceAccount ?? ""}</AppLink>,
          isRowHeader: true,
        },
        { id: "role", header: "IAM role ARN", cell: (a) => <Copyable text={a.roleArn} what="IAM role ARN" /> },
        { id: "modified", header: "Modified", cell: (a) => <Time at={a.modifiedAt} /> },
      ]}
    />
  );
}

function Values({ addon }: { addon: Addon }) {
  const values = addon.configurationValues ?? "";
  return (
    <Container header={<Header variant="h2">Configuration values</Header>}>
      {values === "" ? (
        <Box>No configuration values: the add-on has its defaults.</Box>
      ) : (
        <pre className="command" tabIndex={0} aria-label="Configuration values">
          {formatSchema(values)}
        </pre>
      )}
    </Container>
  );
}
