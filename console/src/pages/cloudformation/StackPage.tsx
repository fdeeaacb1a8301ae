import { CloudFormationClient, DescribeStacksCommand, type Stack } from "@aws-sdk/client-cloudformation";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { lazy, useState } from "react";
import { useParams } from "react-router";
import { pollWhile, useAws } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { Copyable } from "../../components/Copyable";
import { DetailPage } from "../../components/DetailPage";
import { PageTabs } from "../../components/PageTabs";
import { Status } from "../../components/Status";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";
import { DeleteStack } from "./DeleteStack";
import { isChanging, stackAddress, stackName } from "./stacks";
import { Outputs, Parameters, StackEvents, StackResources, StackTags, Template } from "./StackTabs";

const StackGraph = lazy(() => import("./StackGraph"));

/** StackPage is the page of a stack, with its tabs. */
export default function StackPage() {
  const { stack: id = "", tab = "info" } = useParams();
  const { session } = useSession();
  const query = useAws(
    CloudFormationClient,
    DescribeStacksCommand,
    { StackName: id },
    { poll: pollWhile(({ Stacks }) => isChanging(Stacks?.[0]?.StackStatus)) },
  );
  const [deleting, setDeleting] = useState(false);
  const found = query.data?.Stacks?.[0];
  const changing = isChanging(found?.StackStatus);
  return (
    <DetailPage
      what="stack"
      name={stackName(id)}
      query={query}
      found={found}
      commands={[awsCommand("cloudformation", "describe-stacks", { StackName: id }, session.region)]}
      actions={
        <Button disabled={found?.StackStatus === "DELETE_COMPLETE"} onClick={() => setDeleting(true)}>
          Delete
        </Button>
      }
    >
      {(stack) => (
        <>
          <PageTabs
            label="Stack"
            address={stackAddress(id)}
            open={tab}
            tabs={[
              { id: "info", label: "Stack info", content: <StackInfo stack={stack} /> },
              { id: "events", label: "Events", content: <StackEvents id={id} changing={changing} /> },
              { id: "resources", label: "Resources", content: <StackResources id={id} changing={changing} /> },
              { id: "graph", label: "Resources graph", content: <StackGraph id={id} changing={changing} /> },
              { id: "outputs", label: "Outputs", content: <Outputs stack={stack} /> },
              { id: "parameters", label: "Parameters", content: <Parameters stack={stack} /> },
              { id: "template", label: "Template", content: <Template id={id} /> },
            ]}
          />
          {deleting && <DeleteStack id={stack.StackId ?? id} onDismiss={() => setDeleting(false)} />}
        </>
      )}
    </DetailPage>
  );
}

function StackInfo({ stack }: { stack: Stack }) {
  const parent = stack.ParentId;
  return (
    <SpaceBetween size="l">
      <Container header={<Header variant="h2">Overview</Header>}>
        <KeyValuePairs
          columns={3}
          items={[
            { label: "Stack ID", value: <Copyable text={stack.StackId} what="Stack ID" /> },
            { label: "Description", value: stack.Description ?? "-" },
            { label: "Status", value: <Status status={stack.StackStatus} raw /> },
            { label: "Status reason", value: stack.StackStatusReason ?? "-" },
            {
              label: "Parent stack",
              value: parent === undefined ? "-" : <AppLink to={stackAddress(parent)}>{stackName(parent)}</AppLink>,
            },
            { label: "Created time", value: <Time at={stack.CreationTime} /> },
            { label: "Updated time", value: <Time at={stack.LastUpdatedTime} /> },
            { label: "Deleted time", value: <Time at={stack.DeletionTime} /> },
            { label: "Drift status", value: stack.DriftInformation?.StackDriftStatus ?? "-" },
            {
              label: "Termination protection",
              value: stack.EnableTerminationProtection === true ? "Activated" : "Deactivated",
            },
            { label: "IAM role", value: stack.RoleARN ?? "-" },
            { label: "Capabilities", value: stack.Capabilities?.join(", ") ?? "-" },
          ]}
        />
      </Container>
      <StackTags stack={stack} />
    </SpaceBetween>
  );
}
