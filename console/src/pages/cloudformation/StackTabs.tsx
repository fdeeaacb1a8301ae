// The tabs of a stack that are tables, and its template.
import {
  CloudFormationClient,
  GetTemplateCommand,
  type Output,
  paginateDescribeStackEvents,
  paginateListStackResources,
  type Parameter,
  type Stack,
  type StackEvent,
  type StackResourceSummary,
  type Tag,
} from "@aws-sdk/client-cloudformation";
import Alert from "@cloudscape-design/components/alert";
import Container from "@cloudscape-design/components/container";
import CopyToClipboard from "@cloudscape-design/components/copy-to-clipboard";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import type { UseQueryResult } from "@tanstack/react-query";
import { fast, slow, useAws, useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { ShowCommand } from "../../components/ShowCommand";
import { Status } from "../../components/Status";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";
import { resourceAddress, rootCause } from "./stacks";

export interface StackProps {
  /** The name or the ID of the stack. */
  id: string;
  changing: boolean;
}

const eventColumns: Column<StackEvent>[] = [
  {
    id: "time",
    header: "Timestamp",
    text: (e) => e.Timestamp?.toISOString() ?? "",
    cell: (e) => <Time at={e.Timestamp} />,
    compare: (a, b) => (b.Timestamp?.getTime() ?? 0) - (a.Timestamp?.getTime() ?? 0),
    width: 160,
  },
  { id: "logical", header: "Logical ID", text: (e) => e.LogicalResourceId ?? "", width: 240 },
  {
    id: "status",
    header: "Status",
    text: (e) => e.ResourceStatus ?? "",
    cell: (e) => <Status status={e.ResourceStatus} raw />,
    width: 260,
  },
  { id: "reason", header: "Status reason", text: (e) => e.ResourceStatusReason ?? "", width: 500 },
  { id: "type", header: "Type", text: (e) => e.ResourceType ?? "", width: 240 },
  { id: "physical", header: "Physical ID", text: (e) => e.PhysicalResourceId ?? "", hidden: true, width: 300 },
];

/** StackEvents lists the events of a stack, and names the one that made the last operation fail. */
export function StackEvents({ id, changing }: StackProps) {
  const { session } = useSession();
  const input = { StackName: id };
  const { data, error, refetch, isFetching } = useAwsPages(
    CloudFormationClient,
    paginateDescribeStackEvents,
    input,
    (page) => page.StackEvents,
    { poll: changing ? fast : slow },
  );
  const cause = rootCause(data ?? []);
  return (
    <SpaceBetween size="l">
      {cause !== undefined && (
        <Alert
          type="error"
          header={`Likely root cause: ${cause.LogicalResourceId ?? ""} ${cause.ResourceStatus ?? ""}`}
        >
          {cause.ResourceStatusReason ?? "no reason was given"}
        </Alert>
      )}
      <ResourceTable
        title="Events"
        nouns={["event", "events"]}
        items={data}
        columns={eventColumns}
        keyOf={(e) => e.EventId ?? ""}
        nameOf={(e) => e.EventId ?? ""}
        error={error}
        refresh={() => void refetch()}
        refreshing={isFetching}
        commands={[awsCommand("cloudformation", "describe-stack-events", input, session.region)]}
      />
    </SpaceBetween>
  );
}

/** UseStackResources lists the resources of a stack. */
export function useStackResources(id: string, changing: boolean): UseQueryResult<StackResourceSummary[]> {
  return useAwsPages(
    CloudFormationClient,
    paginateListStackResources,
    { StackName: id },
    (page) => page.StackResourceSummaries,
    { poll: changing ? fast : slow },
  );
}

const resourceColumns: Column<StackResourceSummary>[] = [
  { id: "logical", header: "Logical ID", text: (r) => r.LogicalResourceId ?? "", width: 240 },
  {
    id: "physical",
    header: "Physical ID",
    text: (r) => r.PhysicalResourceId ?? "",
    cell: (r) => {
      const to = resourceAddress(r.ResourceType, r.PhysicalResourceId);
      return to === undefined ? r.PhysicalResourceId : <AppLink to={to}>{r.PhysicalResourceId}</AppLink>;
    },
    width: 340,
  },
  { id: "type", header: "Type", text: (r) => r.ResourceType ?? "", width: 260 },
  {
    id: "status",
    header: "Status",
    text: (r) => r.ResourceStatus ?? "",
    cell: (r) => <Status status={r.ResourceStatus} raw />,
    width: 240,
  },
  { id: "reason", header: "Status reason", text: (r) => r.ResourceStatusReason ?? "", width: 320 },
  { id: "drift", header: "Drift status", text: (r) => r.DriftInformation?.StackResourceDriftStatus ?? "", width: 150 },
];

/** StackResources lists the resources of a stack, with links to their pages. */
export function StackResources({ id, changing }: StackProps) {
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useStackResources(id, changing);
  return (
    <ResourceTable
      title="Resources"
      nouns={["resource", "resources"]}
      items={data}
      columns={resourceColumns}
      keyOf={(r) => r.LogicalResourceId ?? ""}
      nameOf={(r) => r.LogicalResourceId ?? ""}
      error={error}
      refresh={() => void refetch()}
      refreshing={isFetching}
      commands={[awsCommand("cloudformation", "list-stack-resources", { StackName: id }, session.region)]}
    />
  );
}

const outputColumns: Column<Output>[] = [
  { id: "key", header: "Key", text: (o) => o.OutputKey ?? "", width: 240 },
  { id: "value", header: "Value", text: (o) => o.OutputValue ?? "", width: 460 },
  { id: "description", header: "Description", text: (o) => o.Description ?? "", width: 320 },
  { id: "export", header: "Export name", text: (o) => o.ExportName ?? "", width: 260 },
];

/** Outputs lists the outputs of a stack. */
export function Outputs({ stack }: { stack: Stack }) {
  return (
    <ResourceTable
      title="Outputs"
      nouns={["output", "outputs"]}
      items={stack.Outputs ?? []}
      columns={outputColumns}
      keyOf={(o) => o.OutputKey ?? ""}
      nameOf={(o) => o.OutputKey ?? ""}
      commands={useDescribeStacks(stack, "Stacks[].Outputs[]")}
    />
  );
}

const parameterColumns: Column<Parameter>[] = [
  { id: "key", header: "Key", text: (p) => p.ParameterKey ?? "", width: 300 },
  { id: "value", header: "Value", text: (p) => p.ParameterValue ?? "", width: 460 },
  { id: "resolved", header: "Resolved value", text: (p) => p.ResolvedValue ?? "", width: 460 },
];

/** Parameters lists the parameters of a stack. */
export function Parameters({ stack }: { stack: Stack }) {
  return (
    <ResourceTable
      title="Parameters"
      nouns={["parameter", "parameters"]}
      items={stack.Parameters ?? []}
      columns={parameterColumns}
      keyOf={(p) => p.ParameterKey ?? ""}
      nameOf={(p) => p.ParameterKey ?? ""}
      commands={useDescribeStacks(stack, "Stacks[].Parameters[]")}
    />
  );
}

const tagColumns: Column<Tag>[] = [
  { id: "key", header: "Key", text: (t) => t.Key ?? "", width: 300 },
  { id: "value", header: "Value", text: (t) => t.Value ?? "", width: 460 },
];

/** StackTags lists the tags of a stack. */
export function StackTags({ stack }: { stack: Stack }) {
  return (
    <ResourceTable
      title="Stack tags"
      nouns={["tag", "tags"]}
      items={stack.Tags ?? []}
      columns={tagColumns}
      keyOf={(t) => t.Key ?? ""}
      nameOf={(t) => t.Key ?? ""}
      commands={useDescribeStacks(stack, "Stacks[].Tags[]")}
    />
  );
}

function useDescribeStacks(stack: Stack, query: string) {
  const { session } = useSession();
  return [awsCommand("cloudformation", "describe-stacks", { StackName: stack.StackName, query }, session.region)];
}

/** Template shows the template of a stack, as it was given. */
export function Template({ id }: { id: string }) {
  const { session } = useSession();
  const input = { StackName: id };
  const { data, error, refetch } = useAws(CloudFormationClient, GetTemplateCommand, input);
  if (error !== null) return <ErrorAlert attempted="Get the template" error={error} retry={() => void refetch()} />;
  if (data === undefined) return <Loading what="the template" />;
  const body = data.TemplateBody ?? "";
  const query = { ...input, query: "TemplateBody", output: "text" };
  return (
    <Container
      header={
        <Header
          variant="h2"
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand commands={[awsCommand("cloudformation", "get-template", query, session.region)]} />
              <CopyToClipboard
                copyButtonText="Copy"
                textToCopy={body}
                copySuccessText="Copied"
                copyErrorText="It could not be copied"
              />
            </SpaceBetween>
          }
        >
          Template
        </Header>
      }
    >
      <pre className="command" tabIndex={0} aria-label="Template">
        {body}
      </pre>
    </Container>
  );
}
