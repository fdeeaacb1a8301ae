import { EC2Client, type NetworkInsightsAnalysis } from "@aws-sdk/client-ec2";
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import { useEffect, useRef, useState } from "react";
import { useClient } from "../../aws/client";
import { ErrorAlert } from "../../components/ErrorAlert";
import { ShowCommand } from "../../components/ShowCommand";
import { useSession } from "../../session/SessionProvider";
import * as reach from "./reachability";

export interface Ends {
  source: string;
  destination: string;
}

interface Props {
  ends: Ends;
  onEnds: (ends: Ends) => void;
  analysis: NetworkInsightsAnalysis | undefined;
  onAnalysis: (analysis: NetworkInsightsAnalysis | undefined) => void;
}

const protocols = [
  { value: "tcp", label: "TCP" },
  { value: "udp", label: "UDP" },
];

/** ReachabilityForm asks VPC Reachability Analyzer whether a packet gets from one thing to another. */
export function ReachabilityForm({ ends, onEnds, analysis, onAnalysis }: Props) {
  const client = useClient(EC2Client);
  const { session } = useSession();
  const [protocol, setProtocol] = useState<"tcp" | "udp">("tcp");
  const [port, setPort] = useState("");
  const [running, setRunning] = useState(false);
  const [error, setError] = useState<unknown>();
  const current = useRef<AbortController>(undefined);
  useEffect(() => () => current.current?.abort(), []);

  const source = reach.endOf(ends.source);
  const destination = reach.endOf(ends.destination);
  const portError =
    port === "" || (/^\d+$/.test(port) && Number(port) <= 65535) ? undefined : "Enter a port from 0 to 65535.";
  const question =
    source?.id === undefined || destination === undefined || portError !== undefined
      ? undefined
      : { source, destination, protocol, port: port === "" ? undefined : Number(port) };

  const change = (next: Ends) => {
    onAnalysis(undefined);
    onEnds(next);
  };
  const start = (asked: reach.Question) => {
    current.current?.abort();
    const abort = new AbortController();
    current.current = abort;
    setRunning(true);
    setError(undefined);
    onAnalysis(undefined);
    reach
      .analyze(client, asked, abort.signal)
      .then(
        (answer) => {
          if (!abort.signal.aborted) onAnalysis(answer);
        },
        (failure: unknown) => {
          if (!abort.signal.aborted) setError(failure);
        },
      )
      .finally(() => {
        if (!abort.signal.aborted) setRunning(false);
      });
  };
  return (
    <SpaceBetween size="m">
      <ColumnLayout columns={2}>
        <FormField
          label="Source"
          description="Use what is selected, or enter the ID of an instance, network interface or gateway."
          errorText={
            ends.source !== "" && source?.id === undefined ? "Enter an ID, and an address if need be." : undefined
          }
        >
          <Input
            value={ends.source}
            placeholder="i-0123456789abcdef0"
            onChange={({ detail }) => change({ ...ends, source: detail.value })}
          />
        </FormField>
        <FormField
          label="Destination"
          description="As the source, or an IPv4 address alone."
          errorText={ends.destination !== "" && destination === undefined ? "Enter an ID or an address." : undefined}
        >
          <Input
            value={ends.destination}
            placeholder="10.0.0.10"
            onChange={({ detail }) => change({ ...ends, destination: detail.value })}
          />
        </FormField>
        <FormField label="Protocol">
          <Select
            selectedOption={protocols.find(({ value }) => value === protocol) ?? null}
            options={protocols}
            onChange={({ detail }) => {
              onAnalysis(undefined);
              setProtocol(detail.selectedOption.value === "udp" ? "udp" : "tcp");
            }}
          />
        </FormField>
        <FormField label="Destination port - optional" errorText={portError}>
          <Input
            value={port}
            inputMode="numeric"
            placeholder="443"
            onChange={({ detail }) => {
              onAnalysis(undefined);
              setPort(detail.value.trim());
            }}
          />
        </FormField>
      </ColumnLayout>
      <SpaceBetween direction="horizontal" size="xs">
        <Button
          variant="primary"
          loading={running}
          disabled={question === undefined}
          disabledReason="Choose a source and a destination."
          onClick={() => question !== undefined && start(question)}
        >
          Analyze reachability
        </Button>
        <Button onClick={() => change({ source: ends.destination, destination: ends.source })}>Swap</Button>
        {question !== undefined && <ShowCommand commands={[reach.analysisCommand(question, session.region)]} />}
      </SpaceBetween>
      {error !== undefined && <ErrorAlert attempted="Analyze reachability" error={error} />}
      {analysis !== undefined && <Answer analysis={analysis} />}
    </SpaceBetween>
  );
}

function Answer({ analysis }: { analysis: NetworkInsightsAnalysis }) {
  const { NetworkPathFound: found, ForwardPathComponents: path = [], Explanations: explanations = [] } = analysis;
  return (
    <SpaceBetween size="m">
      <div aria-live="polite">
        <Alert type={found === true ? "success" : "error"} header={found === true ? "Reachable" : "Not reachable"}>
          {found === true
            ? "The packet gets to the destination, and its answer back."
            : "The packet, or its answer, does not get through."}
        </Alert>
      </div>
      {explanations.length > 0 && (
        <Table
          variant="embedded"
          header={<Box variant="h3">Explanations</Box>}
          items={explanations}
          columnDefinitions={[
            { id: "why", header: "Explanation", cell: reach.meaningOf },
            { id: "code", header: "Code", cell: ({ ExplanationCode }) => ExplanationCode ?? "-" },
            { id: "where", header: "Where", cell: (e) => <Lines lines={reach.placesOf(e)} /> },
            { id: "rule", header: "Deciding rule or route", cell: (e) => <Lines lines={reach.rulesOf(e)} /> },
          ]}
          wrapLines
        />
      )}
      {path.length > 0 && (
        <Table
          variant="embedded"
          header={<Box variant="h3">Forward path</Box>}
          items={path}
          columnDefinitions={[
            { id: "number", header: "#", cell: ({ SequenceNumber }) => SequenceNumber ?? "-", width: 50 },
            {
              id: "component",
              header: "Component",
              cell: ({ Component }) => reach.componentText(Component),
              minWidth: 160,
            },
            { id: "rule", header: "Deciding rule or route", cell: (c) => <Lines lines={reach.rulesOf(c)} /> },
            { id: "header", header: "Packet", cell: (c) => reach.headerText(c) || "-" },
          ]}
          wrapLines
        />
      )}
    </SpaceBetween>
  );
}

function Lines({ lines }: { lines: string[] }) {
  if (lines.length === 0) return <>-</>;
  return lines.map((line) => <div key={line}>{line}</div>);
}
