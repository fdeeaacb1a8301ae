import { CloudFormationClient, GetTemplateCommand, type StackResourceSummary } from "@aws-sdk/client-cloudformation";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Grid from "@cloudscape-design/components/grid";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useEffect, useMemo, useRef, useState } from "react";
import { useAws } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";
import { useSession } from "../../session/SessionProvider";
import { type Graph, layOutGraph } from "./graph";
import { GraphDrawing } from "./GraphDrawing";
import { ResourceDetails } from "./ResourceDetails";
import { type StackProps, useStackResources } from "./StackTabs";
import { resourcesOf } from "./template";

/** StackGraph shows the resources of a stack, with what each depends on by the template. */
export default function StackGraph({ id, changing }: StackProps) {
  const { session } = useSession();
  const input = { StackName: id, TemplateStage: "Processed" as const };
  const template = useAws(CloudFormationClient, GetTemplateCommand, input);
  const listed = useStackResources(id, changing);
  const summaries = useMemo(
    () => new Map(listed.data?.map((summary) => [summary.LogicalResourceId ?? "", summary])),
    [listed.data],
  );
  // The layout changes with what there is, and not with a status.
  const listedIds = [...summaries.keys()].sort().join(" ");
  const body = template.data?.TemplateBody;
  const { graph, error } = useMemo((): { graph?: Graph; error?: unknown } => {
    if (body === undefined) return {};
    try {
      return { graph: layOutGraph(resourcesOf(body), listedIds.split(" ").filter(Boolean)) };
    } catch (unread) {
      return { error: unread };
    }
  }, [body, listedIds]);
  const failed = template.error ?? listed.error;
  const retry = () => {
    void template.refetch();
    void listed.refetch();
  };
  if (failed !== null) return <ErrorAlert attempted="Read the template and resources" error={failed} retry={retry} />;
  if (error !== undefined) return <ErrorAlert attempted="Read the template" error={error} />;
  if (graph === undefined || listed.data === undefined) return <Loading what="the graph" />;
  const commands = [
    awsCommand("cloudformation", "get-template", { ...input, query: "TemplateBody" }, session.region),
    awsCommand("cloudformation", "list-stack-resources", { StackName: id }, session.region),
  ].map(({ text }, i) => ({ title: i === 0 ? "Dependencies" : "Statuses", text }));
  return <GraphAndDetails graph={graph} summaries={summaries} actions={<ShowCommand commands={commands} />} />;
}

interface Props {
  graph: Graph;
  summaries: Map<string, StackResourceSummary>;
  actions: React.ReactNode;
}

const smallest = 0.25;
const largest = 2;
/** The least scale at which all of a graph is shown at first. One that is larger scrolls. */
const legible = 0.75;

function GraphAndDetails({ graph, summaries, actions }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [chosen, setChosen] = useState<number>();
  const [selected, setSelected] = useState<string>();
  const whole = width === 0 ? 1 : Math.min(1, width / graph.width);
  const scale = chosen ?? Math.max(legible, whole);
  const zoom = (to: number) => setChosen(Math.min(largest, Math.max(smallest, to)));
  useEffect(() => {
    const element = frame.current;
    if (element === null) return;
    const resized = new ResizeObserver(() => setWidth(element.clientWidth));
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  const shown = graph.nodes.find((node) => node.id === selected);
  return (
    <Grid gridDefinition={[{ colspan: { default: 12, m: 8 } }, { colspan: { default: 12, m: 4 } }]}>
      <Container
        header={
          <Header
            variant="h2"
            counter={`(${graph.nodes.length})`}
            description={
              "An arrow leads from a resource to one that it depends on. CloudFormation creates from left to right. " +
              "The tab Resources lists the same."
            }
            actions={
              <SpaceBetween direction="horizontal" size="xs">
                {actions}
                <Button iconName="zoom-out" ariaLabel="Zoom out" onClick={() => zoom(scale / 1.25)} />
                <Button iconName="zoom-in" ariaLabel="Zoom in" onClick={() => zoom(scale * 1.25)} />
                <Button iconName="zoom-to-fit" ariaLabel="Fit to width" onClick={() => zoom(whole)} />
              </SpaceBetween>
            }
          >
            Resources graph
          </Header>
        }
      >
        {graph.nodes.length === 0 && <Box>The stack has no resources.</Box>}
        <div ref={frame} className="stack-graph">
          <GraphDrawing
            graph={graph}
            summaries={summaries}
            scale={scale}
            selected={selected}
            onSelect={(id) => setSelected(id === selected ? undefined : id)}
          />
        </div>
      </Container>
      {shown === undefined ? (
        <Container header={<Header variant="h2">Resource</Header>}>
          <Box color="text-body-secondary">Select a resource of the graph.</Box>
        </Container>
      ) : (
        <ResourceDetails graph={graph} node={shown} summary={summaries.get(shown.id)} onSelect={setSelected} />
      )}
    </Grid>
  );
}
