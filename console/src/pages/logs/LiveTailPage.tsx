import {
  CloudWatchLogsClient,
  type LiveTailSessionLogEvent,
  paginateDescribeLogGroups,
  StartLiveTailCommand,
} from "@aws-sdk/client-cloudwatch-logs";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Multiselect from "@cloudscape-design/components/multiselect";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useEffect, useRef, useState } from "react";
import { useSearchParams } from "react-router";
import { useClient } from "../../aws/client";
import { useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { ErrorAlert } from "../../components/ErrorAlert";
import { ShowCommand } from "../../components/ShowCommand";
import { useSession } from "../../session/SessionProvider";

/** The events that are kept on the page; older ones go. */
const most = 500;

/** LiveTailPage shows events of log groups as they are ingested. */
export default function LiveTailPage() {
  const { session } = useSession();
  const [parameters] = useSearchParams();
  const groups = useAwsPages(CloudWatchLogsClient, paginateDescribeLogGroups, {}, (page) => page.logGroups);
  const [chosen, setChosen] = useState<string[]>(() => parameters.getAll("group"));
  const [pattern, setPattern] = useState("");
  const { events, running, error, start, stop, clear } = useLiveTail();
  const arns = (groups.data ?? []).flatMap(({ logGroupName = "", logGroupArn }) =>
    chosen.includes(logGroupName) && logGroupArn !== undefined ? [logGroupArn] : [],
  );
  const input = { logGroupIdentifiers: arns, logEventFilterPattern: pattern === "" ? undefined : pattern };
  return (
    <SpaceBetween size="l">
      <Container
        header={
          <Header
            variant="h1"
            description="Events of log groups as they are ingested, up to 500 a second, for up to three hours."
            actions={<ShowCommand commands={[awsCommand("logs", "start-live-tail", input, session.region)]} />}
          >
            Live Tail
          </Header>
        }
      >
        <SpaceBetween size="m">
          {groups.error !== null && <ErrorAlert attempted="List log groups" error={groups.error} />}
          {error !== undefined && <ErrorAlert attempted="Live Tail" error={error} />}
          <ColumnLayout columns={2}>
            <FormField label="Log groups" description="Up to 10 log groups.">
              <Multiselect
                filteringType="auto"
                placeholder="Choose log groups"
                disabled={running}
                options={(groups.data ?? []).map(({ logGroupName: value = "" }) => ({ value, label: value }))}
                selectedOptions={chosen.map((value) => ({ value, label: value }))}
                deselectAriaLabel={({ label = "" }) => `Remove ${label}`}
                empty="There are no log groups."
                onChange={({ detail }) => setChosen(detail.selectedOptions.map(({ value = "" }) => value).slice(0, 10))}
              />
            </FormField>
            <FormField label="Filter pattern" description='Case-sensitive: "aws-node", or { $.verb = "patch" }.'>
              <Input value={pattern} disabled={running} onChange={({ detail }) => setPattern(detail.value)} />
            </FormField>
          </ColumnLayout>
          <SpaceBetween direction="horizontal" size="xs">
            <Button variant="primary" disabled={running || arns.length === 0} onClick={() => start(input)}>
              Start
            </Button>
            <Button disabled={!running} onClick={stop}>
              Stop
            </Button>
            <Button disabled={events.length === 0} onClick={clear}>
              Clear
            </Button>
            {running && <StatusIndicator type="in-progress">Following</StatusIndicator>}
          </SpaceBetween>
        </SpaceBetween>
      </Container>
      <Table
        wrapLines
        ariaLabels={{ tableLabel: "Events" }}
        header={<Header counter={`(${events.length})`}>Events</Header>}
        items={events}
        columnDefinitions={[
          {
            id: "timestamp",
            header: "Timestamp",
            cell: (event) => new Date(event.timestamp ?? 0).toISOString(),
            width: 230,
          },
          { id: "stream", header: "Log stream", cell: (event) => event.logStreamName ?? "-", width: 260 },
          { id: "message", header: "Message", cell: (event) => <span className="log-value">{event.message}</span> },
        ]}
        empty={<Box textAlign="center">{running ? "No event has come yet." : "Choose log groups, and start."}</Box>}
      />
    </SpaceBetween>
  );
}

/** UseLiveTail follows log groups, the newest event first. A session that is left is ended. */
function useLiveTail() {
  const client = useClient(CloudWatchLogsClient);
  const [events, setEvents] = useState<LiveTailSessionLogEvent[]>([]);
  const [running, setRunning] = useState(false);
  const [error, setError] = useState<unknown>();
  const current = useRef<AbortController>(undefined);
  useEffect(() => () => current.current?.abort(), []);

  const stop = () => {
    current.current?.abort();
    setRunning(false);
  };
  const start = (input: { logGroupIdentifiers: string[]; logEventFilterPattern?: string }) => {
    const abort = new AbortController();
    current.current = abort;
    setError(undefined);
    setRunning(true);
    const follow = async () => {
      const { responseStream } = await client.send(new StartLiveTailCommand(input), { abortSignal: abort.signal });
      for await (const { sessionUpdate, SessionStreamingException, SessionTimeoutException } of responseStream ?? []) {
        if (SessionStreamingException !== undefined) throw SessionStreamingException;
        if (SessionTimeoutException !== undefined) throw SessionTimeoutException;
        const found = sessionUpdate?.sessionResults ?? [];
        if (found.length > 0) setEvents((before) => [...found.toReversed(), ...before].slice(0, most));
      }
    };
    follow()
      .catch((reason: unknown) => {
        if (!abort.signal.aborted) setError(reason);
      })
      .finally(() => {
        if (!abort.signal.aborted) setRunning(false);
      });
  };
  return { events, running, error, start, stop, clear: () => setEvents([]) };
}
