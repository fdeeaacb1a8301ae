import { CloudTrailClient, type Event } from "@aws-sdk/client-cloudtrail";
import Button from "@cloudscape-design/components/button";
import ContentLayout from "@cloudscape-design/components/content-layout";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { awsKey } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { Time } from "../../components/Time";
import { asIs, attributes, type Lookup, lookupInput, parseRecord, spans, useEvents } from "./events";

const timeOf = ({ EventTime }: Event) => EventTime?.toISOString() ?? "";
const resources = (event: Event, part: "ResourceType" | "ResourceName") =>
  (event.Resources ?? []).map((resource) => resource[part] ?? "").join(", ");

const columns: Column<Event>[] = [
  {
    id: "time",
    header: "Event time",
    text: timeOf,
    cell: ({ EventTime }) => <Time at={EventTime} />,
    compare: (a, b) => timeOf(b).localeCompare(timeOf(a)), // the newest first
    width: 160,
  },
  {
    id: "name",
    header: "Event name",
    text: ({ EventName }) => EventName ?? "",
    cell: ({ EventId = "", EventName }) => <AppLink to={`/event-history/${EventId}`}>{EventName ?? EventId}</AppLink>,
    width: 240,
  },
  { id: "user", header: "User name", text: ({ Username }) => Username ?? "", width: 200 },
  { id: "source", header: "Event source", text: ({ EventSource }) => EventSource ?? "", width: 220 },
  { id: "types", header: "Resource type", text: (event) => resources(event, "ResourceType"), width: 220 },
  { id: "names", header: "Resource name", text: (event) => resources(event, "ResourceName"), width: 240 },
  { id: "error", header: "Error code", text: (event) => parseRecord(event).errorCode ?? "", width: 200 },
  {
    id: "address",
    header: "Source IP address",
    text: (event) => parseRecord(event).sourceIPAddress ?? "",
    hidden: true,
  },
  { id: "key", header: "AWS access key", text: ({ AccessKeyId }) => AccessKeyId ?? "", hidden: true },
  { id: "readOnly", header: "Read-only", text: ({ ReadOnly }) => ReadOnly ?? "", hidden: true },
  { id: "region", header: "AWS region", text: (event) => parseRecord(event).awsRegion ?? "", hidden: true },
  { id: "id", header: "Event ID", text: ({ EventId }) => EventId ?? "", hidden: true },
];

const readOnly = [
  { value: "false", label: "false" },
  { value: "true", label: "true" },
];

/** EventHistoryPage looks events up by one of their attributes, as AWS's console does. */
export default function EventHistoryPage() {
  const [query, setQuery] = useSearchParams();
  const AttributeKey = attributes.find(({ value }) => value === query.get("attribute"))?.value ?? "ReadOnly";
  const AttributeValue = query.get("value") ?? (AttributeKey === "ReadOnly" ? "false" : "");
  const span = query.get("hours") ?? "24";
  const [typed, setTyped] = useState(AttributeValue);
  const lookup: Lookup = {
    attribute: AttributeValue === "" ? undefined : { AttributeKey, AttributeValue },
    hours: Number(span),
  };
  const { data, error, isFetching, hasNextPage, fetchNextPage } = useEvents(lookup, asIs);
  const queries = useQueryClient();
  const ask = (attribute: string, value: string, hours: string) => setQuery({ attribute, value, hours });
  return (
    <ContentLayout
      header={
        <Header variant="h1" description="Who called which operation of the AWS APIs in this Region, in 90 days.">
          Event history
        </Header>
      }
    >
      <SpaceBetween size="l">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            ask(AttributeKey, typed.trim(), span);
          }}
        >
          <SpaceBetween direction="horizontal" size="m">
            <FormField label="Lookup attribute">
              <Select
                selectedOption={attributes.find(({ value }) => value === AttributeKey) ?? null}
                options={[...attributes]}
                onChange={({ detail }) => {
                  const attribute = detail.selectedOption.value ?? "ReadOnly";
                  const value = attribute === "ReadOnly" ? "false" : "";
                  setTyped(value);
                  ask(attribute, value, span);
                }}
              />
            </FormField>
            <FormField label="Value">
              {AttributeKey === "ReadOnly" ? (
                <Select
                  selectedOption={readOnly.find(({ value }) => value === AttributeValue) ?? null}
                  options={readOnly}
                  onChange={({ detail }) => ask(AttributeKey, detail.selectedOption.value ?? "false", span)}
                />
              ) : (
                <Input
                  value={typed}
                  placeholder="The whole value, with case; empty for all events"
                  onChange={({ detail }) => setTyped(detail.value)}
                />
              )}
            </FormField>
            <FormField label="Time range">
              <Select
                selectedOption={spans.find(({ value }) => value === span) ?? null}
                options={[...spans]}
                onChange={({ detail }) => ask(AttributeKey, AttributeValue, detail.selectedOption.value ?? "24")}
              />
            </FormField>
          </SpaceBetween>
        </form>
        <ResourceTable
          title="Events"
          nouns={["event", "events"]}
          items={data?.pages.flatMap(({ events }) => events)}
          columns={columns}
          keyOf={({ EventId }) => EventId ?? ""}
          nameOf={({ EventName }) => EventName ?? ""}
          error={error}
          refresh={() => void queries.resetQueries({ queryKey: awsKey(CloudTrailClient, asIs) })}
          refreshing={isFetching}
          commands={[awsCommand("cloudtrail", "lookup-events", lookupInput(lookup, data?.pages[0]?.since))]}
          actions={
            <Button
              disabled={!hasNextPage}
              disabledReason="There are no more events."
              loading={isFetching}
              loadingText="Looking events up"
              onClick={() => void fetchNextPage()}
            >
              Load more
            </Button>
          }
        />
      </SpaceBetween>
    </ContentLayout>
  );
}
