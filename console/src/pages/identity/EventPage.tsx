import { CloudTrailClient, LookupEventsCommand } from "@aws-sdk/client-cloudtrail";
import Alert from "@cloudscape-design/components/alert";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useParams } from "react-router";
import { useAws } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { Copyable } from "../../components/Copyable";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";
import { Time } from "../../components/Time";
import { parseRecord } from "./events";
import { Document } from "./PolicyList";

/** EventPage shows an event and its record. */
export default function EventPage() {
  const { id = "" } = useParams();
  const asked = { LookupAttributes: [{ AttributeKey: "EventId" as const, AttributeValue: id }] };
  const { data, error, refetch } = useAws(CloudTrailClient, LookupEventsCommand, asked, { poll: false });
  const event = data?.Events?.[0];
  if (event === undefined) {
    return (
      <ContentLayout header={<Header variant="h1">{id}</Header>}>
        {error !== null && <ErrorAlert attempted="Look up the event" error={error} retry={() => void refetch()} />}
        {data === undefined && error === null && <Loading what="the event" />}
        {data !== undefined && <Alert type="error">No event found for ID: {id}.</Alert>}
      </ContentLayout>
    );
  }
  const record = parseRecord(event);
  return (
    <ContentLayout
      header={
        <Header variant="h1" actions={<ShowCommand commands={[awsCommand("cloudtrail", "lookup-events", asked)]} />}>
          {event.EventName}
        </Header>
      }
    >
      <SpaceBetween size="l">
        <Container header={<Header variant="h2">Details</Header>}>
          <KeyValuePairs
            columns={3}
            items={[
              { label: "Event time", value: <Time at={event.EventTime} /> },
              { label: "AWS access key", value: event.AccessKeyId ?? "-" },
              { label: "AWS region", value: record.awsRegion ?? "-" },
              { label: "User name", value: event.Username ?? "-" },
              { label: "Source IP address", value: record.sourceIPAddress ?? "-" },
              { label: "Error code", value: record.errorCode ?? "-" },
              { label: "Event name", value: event.EventName ?? "-" },
              { label: "Event ID", value: <Copyable text={event.EventId} what="Event ID" /> },
              { label: "Read-only", value: event.ReadOnly ?? "-" },
              { label: "Event source", value: event.EventSource ?? "-" },
              { label: "Request ID", value: record.requestID ?? "-" },
              {
                label: "Resources referenced",
                value:
                  (event.Resources ?? [])
                    .map(({ ResourceType = "", ResourceName = "" }) => `${ResourceType} ${ResourceName}`)
                    .join(", ") || "-",
              },
            ]}
          />
        </Container>
        <Container header={<Header variant="h2">Event record</Header>}>
          <Document label="Event record" text={event.CloudTrailEvent ?? ""} />
        </Container>
      </SpaceBetween>
    </ContentLayout>
  );
}
