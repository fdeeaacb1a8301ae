import { CloudTrailClient } from "@aws-sdk/client-cloudtrail";
import Button from "@cloudscape-design/components/button";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { awsKey } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Time } from "../../components/Time";
import { DenialReason } from "./DenialReason";
import { type Denial, denialOf, lookupInput, spans, useEvents } from "./events";

const timeOf = ({ at }: Denial) => at?.toISOString() ?? "";

const columns: Column<Denial>[] = [
  {
    id: "time",
    header: "Time",
    text: timeOf,
    cell: ({ at }) => <Time at={at} />,
    compare: (a, b) => timeOf(b).localeCompare(timeOf(a)), // the newest first
    width: 160,
  },
  { id: "who", header: "Who", text: ({ who }) => who, width: 340 },
  { id: "action", header: "Action", text: ({ action }) => action, width: 220 },
  { id: "resource", header: "Resource", text: ({ resource }) => resource, width: 340 },
  { id: "message", header: "Message", text: ({ message }) => message, width: 420 },
  { id: "source", header: "Source IP address", text: ({ record }) => record.sourceIPAddress ?? "", hidden: true },
  { id: "event", header: "Event name", text: ({ record }) => record.eventName ?? "", hidden: true },
  { id: "id", header: "Event ID", text: ({ id }) => id, hidden: true },
];

/** DenialsPage lists calls that policies did not allow, and says what decided. */
export default function DenialsPage() {
  const [span, setSpan] = useState<string>("24");
  const [selected, setSelected] = useState<Denial[]>([]);
  const lookup = { hours: Number(span) };
  const { data, error, isFetching, hasNextPage, fetchNextPage } = useEvents(lookup, denialOf);
  const queries = useQueryClient();
  const [denial] = selected;
  return (
    <ContentLayout
      header={
        <Header variant="h1" description="Calls of the AWS APIs in this Region that policies did not allow.">
          Recent denials
        </Header>
      }
    >
      <SpaceBetween size="l">
        <ResourceTable
          title="Denied calls"
          nouns={["denied call", "denied calls"]}
          items={data?.pages.flatMap(({ events }) => events)}
          columns={columns}
          keyOf={({ id }) => id}
          nameOf={({ action, who }) => `${action} by ${who}`}
          error={error}
          refresh={() => void queries.resetQueries({ queryKey: awsKey(CloudTrailClient, denialOf) })}
          refreshing={isFetching}
          commands={[awsCommand("cloudtrail", "lookup-events", lookupInput(lookup, data?.pages[0]?.since))]}
          selection="single"
          selected={selected}
          onSelect={setSelected}
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <Button
                disabled={!hasNextPage}
                disabledReason="All events of this time were looked at."
                loading={isFetching}
                loadingText="Looking events up"
                onClick={() => void fetchNextPage()}
              >
                Look further back
              </Button>
              <Select
                selectedOption={spans.find(({ value }) => value === span) ?? null}
                options={[...spans]}
                ariaLabel="Time range"
                onChange={({ detail }) => {
                  setSpan(detail.selectedOption.value ?? "24");
                  setSelected([]);
                }}
              />
            </SpaceBetween>
          }
        />
        {denial !== undefined && <DenialReason key={denial.id} denial={denial} />}
      </SpaceBetween>
    </ContentLayout>
  );
}
