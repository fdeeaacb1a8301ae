import type { FargateProfile } from "@aws-sdk/client-eks";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
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
import { computeAddress } from "../addresses";
import { pairsOf } from "../forms/problems";
import { roleName } from "../forms/roles";
import { HealthIssues } from "../HealthIssues";
import { formatPairs } from "../nodegroup/review";
import { ResourceTags } from "../ResourceTags";
import { DeleteFargateProfile } from "./DeleteFargateProfile";
import { useProfile } from "./profiles";

/** FargateProfilePage is the page of a Fargate profile. */
export default function FargateProfilePage() {
  const { cluster = "", profile: name = "" } = useParams();
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useProfile(cluster, name);
  const navigate = useNavigate();
  const [deleting, setDeleting] = useState(false);
  const profile = data?.fargateProfile;
  const failure = error !== null && (
    <ErrorAlert attempted={`Describe Fargate profile ${name}`} error={error} retry={() => void refetch()} />
  );
  if (profile === undefined) {
    if (error === null) return <Loading what={`Fargate profile ${name}`} />;
    return <ContentLayout header={<Header variant="h1">{name}</Header>}>{failure}</ContentLayout>;
  }
  const issues = profile.health?.issues ?? [];
  const input = { clusterName: cluster, fargateProfileName: name };
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand commands={[awsCommand("eks", "describe-fargate-profile", input, session.region)]} />
              <Button
                iconName="refresh"
                ariaLabel="Refresh Fargate profile"
                loading={isFetching}
                loadingText="Refreshing Fargate profile"
                onClick={() => void refetch()}
              />
              <Button onClick={() => setDeleting(true)}>Delete</Button>
            </SpaceBetween>
          }
        >
          {name}
        </Header>
      }
    >
      <SpaceBetween size="l">
        {failure}
        {issues.length > 0 && <HealthIssues title="Health issues" issues={issues} />}
        <Details profile={profile} />
        <Selectors profile={profile} />
        <ResourceTags what="Fargate profile" arn={profile.fargateProfileArn} tags={profile.tags} />
      </SpaceBetween>
      {deleting && (
        <DeleteFargateProfile
          cluster={cluster}
          name={name}
          onDismiss={() => setDeleting(false)}
          onDeleted={() => void navigate(computeAddress(cluster))}
        />
      )}
    </ContentLayout>
  );
}

function Details({ profile }: { profile: FargateProfile }) {
  const role = profile.podExecutionRoleArn ?? "";
  return (
    <Container header={<Header variant="h2">Details</Header>}>
      <KeyValuePairs
        columns={3}
        items={[
          { label: "Status", value: <Status status={profile.status} /> },
          { label: "Fargate profile ARN", value: <Copyable text={profile.fargateProfileArn} what="ARN" /> },
          { label: "Created", value: <Time at={profile.createdAt} /> },
          {
            label: "Pod execution role",
            value: <AppLink to={`/iam-roles/${encodeURIComponent(roleName(role))}`}>{roleName(role)}</AppLink>,
          },
          { label: "Subnets", value: profile.subnets?.map((id) => <Box key={id}>{id}</Box>) ?? "-" },
        ]}
      />
    </Container>
  );
}

function Selectors({ profile }: { profile: FargateProfile }) {
  const selectors = profile.selectors ?? [];
  return (
    <Table
      items={selectors}
      enableKeyboardNavigation
      ariaLabels={{ tableLabel: "Pod selectors" }}
      header={
        <Header variant="h2" counter={`(${selectors.length})`}>
          Pod selectors
        </Header>
      }
      columnDefinitions={[
        { id: "namespace", header: "Namespace", cell: ({ namespace }) => namespace, isRowHeader: true },
        { id: "labels", header: "Match labels", cell: ({ labels }) => formatPairs(pairsOf(labels)) },
      ]}
    />
  );
}
