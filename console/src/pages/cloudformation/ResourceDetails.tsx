import type { StackResourceSummary } from "@aws-sdk/client-cloudformation";
import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import ExpandableSection from "@cloudscape-design/components/expandable-section";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Link from "@cloudscape-design/components/link";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { stringify } from "yaml";
import { AppLink } from "../../components/AppLink";
import { Status } from "../../components/Status";
import type { Graph, GraphNode } from "./graph";
import { resourceAddress } from "./stacks";
import type { Reason } from "./template";

interface Props {
  graph: Graph;
  node: GraphNode;
  /** What the stack has of it; undefined before it is created, and where its condition is false. */
  summary: StackResourceSummary | undefined;
  onSelect: (id: string) => void;
}

/** ResourceDetails shows a resource of a graph: what became of it, what it depends on, and its definition. */
export function ResourceDetails({ graph, node: { id, resource }, summary, onSelect }: Props) {
  const physicalId = summary?.PhysicalResourceId ?? "";
  const to = resourceAddress(summary?.ResourceType, physicalId);
  const needs = graph.edges.filter(({ from }) => from === id).map((edge) => ({ other: edge.to, ...edge }));
  const neededBy = graph.edges.filter((edge) => edge.to === id).map((edge) => ({ other: edge.from, ...edge }));
  return (
    <Container header={<Header variant="h2">{id}</Header>}>
      <SpaceBetween size="m">
        <KeyValuePairs
          columns={2}
          items={[
            { label: "Type", value: resource?.Type ?? summary?.ResourceType ?? "-" },
            {
              label: "Physical ID",
              value: to === undefined ? physicalId || "-" : <AppLink to={to}>{physicalId}</AppLink>,
            },
            {
              label: "Status",
              value: summary === undefined ? "Not created" : <Status status={summary.ResourceStatus} raw />,
            },
            { label: "Status reason", value: summary?.ResourceStatusReason ?? "-" },
            { label: "Condition", value: resource?.Condition ?? "-" },
            { label: "Deletion policy", value: resource?.DeletionPolicy ?? "-" },
            { label: "Depends on", value: <Others edges={needs} onSelect={onSelect} /> },
            { label: "Needed by", value: <Others edges={neededBy} onSelect={onSelect} /> },
          ]}
        />
        {resource !== undefined && (
          <ExpandableSection headerText="Definition">
            <pre className="command" tabIndex={0} aria-label={`Definition of ${id}`}>
              {stringify(resource)}
            </pre>
          </ExpandableSection>
        )}
      </SpaceBetween>
    </Container>
  );
}

interface OthersProps {
  edges: { other: string; reasons: Reason[] }[];
  onSelect: (id: string) => void;
}

function Others({ edges, onSelect }: OthersProps) {
  if (edges.length === 0) return <>-</>;
  return edges.map(({ other, reasons }) => (
    <div key={other}>
      <Link onFollow={() => onSelect(other)}>{other}</Link>
      {reasons.map((reason, i) => (
        <Box key={i} variant="small" display="block">
          {reasonText(reason)}
        </Box>
      ))}
    </div>
  ));
}

/** ReasonText says where the template names a resource: "Fn::GetAtt Arn in Properties.RoleArn". */
function reasonText({ by, path, attribute }: Reason): string {
  if (by === "DependsOn") return by;
  return [by, attribute, "in", path].filter(Boolean).join(" ");
}
