import {
  CloudWatchLogsClient,
  GetLogGroupFieldsCommand,
  paginateDescribeLogGroups,
} from "@aws-sdk/client-cloudwatch-logs";
import Alert from "@cloudscape-design/components/alert";
import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import ColumnLayout from "@cloudscape-design/components/column-layout";
import Container from "@cloudscape-design/components/container";
import DateRangePicker, { type DateRangePickerProps } from "@cloudscape-design/components/date-range-picker";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Multiselect from "@cloudscape-design/components/multiselect";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { useAws, useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { ErrorAlert } from "../../components/ErrorAlert";
import { ShowCommand } from "../../components/ShowCommand";
import { useSession } from "../../session/SessionProvider";
import { QueryEditor } from "./QueryEditor";
import { QueryResults } from "./QueryResults";
import { samples } from "./samples";
import { SavedQueries } from "./SavedQueries";
import { problemOf, rangeTexts, relativeRanges, timesOf } from "./timeRange";
import { useQueryRun } from "./useQueryRun";

const firstQuery = "fields @timestamp, @message, @logStream\n| sort @timestamp desc\n| limit 100";

/** LogsInsightsPage runs queries over log groups. Its address may name some, and a query: ?group=...&query=... */
export default function LogsInsightsPage() {
  const { session } = useSession();
  const [parameters] = useSearchParams();
  const groups = useAwsPages(CloudWatchLogsClient, paginateDescribeLogGroups, {}, (page) => page.logGroups);
  const names = (groups.data ?? []).map((group) => group.logGroupName ?? "");
  const [chosen, setChosen] = useState<string[]>(() => parameters.getAll("group"));
  const [query, setQuery] = useState(() => parameters.get("query") ?? firstQuery);
  const [range, setRange] = useState<DateRangePickerProps.Value | null>(relativeRanges[2] ?? null);
  const [now, setNow] = useState(() => Date.now()); // when the range was chosen, or the query was run last
  const { run, start, stop } = useQueryRun();
  const [first] = chosen;
  const fields = useAws(CloudWatchLogsClient, GetLogGroupFieldsCommand, { logGroupName: first }, {
    enabled: first !== undefined,
    poll: false,
  });

  const questionAt = (now: number) => ({
    logGroupNames: chosen,
    queryString: query,
    ...timesOf(range ?? { type: "relative", amount: 1, unit: "hour" }, now),
  });
  const ready = chosen.length > 0 && problemOf(range) === undefined;
  const ask = () => {
    if (!ready) return;
    const now = Date.now();
    setNow(now);
    start(questionAt(now));
  };

  return (
    <SpaceBetween size="l">
      <Container
        header={
          <Header
            variant="h1"
            description="Queries over log groups, in the query language of CloudWatch Logs Insights."
            actions={
              <SpaceBetween direction="horizontal" size="xs">
                <ShowCommand
                  commands={[
                    awsCommand("logs", "start-query", questionAt(now), session.region),
                    awsCommand("logs", "get-query-results", { queryId: "QUERY_ID" }, session.region),
                  ].map((command, i) => ({ ...command, title: i === 0 ? "Start" : "Results" }))}
                />
                <ButtonDropdown
                  items={samples.map(({ title }, i) => ({ id: String(i), text: title }))}
                  onItemClick={({ detail }) => setQuery(samples[Number(detail.id)]?.query ?? query)}
                >
                  Sample queries
                </ButtonDropdown>
              </SpaceBetween>
            }
          >
            Logs Insights
          </Header>
        }
      >
        <SpaceBetween size="m">
          {groups.error !== null && (
            <ErrorAlert attempted="List log groups" error={groups.error} retry={() => void groups.refetch()} />
          )}
          <ColumnLayout columns={2}>
            <FormField label="Log groups" description="Up to 50 log groups.">
              <Multiselect
                filteringType="auto"
                placeholder="Choose log groups"
                statusType={groups.data === undefined ? "loading" : "finished"}
                loadingText="Loading log groups"
                empty="There are no log groups. Control plane logs are in /aws/eks/<cluster>/cluster."
                options={[...new Set([...names, ...chosen])].map((value) => ({ value, label: value }))}
                selectedOptions={chosen.map((value) => ({ value, label: value }))}
                deselectAriaLabel={({ label = "" }) => `Remove ${label}`}
                onChange={({ detail }) => setChosen(detail.selectedOptions.map(({ value = "" }) => value).slice(0, 50))}
              />
            </FormField>
            <FormField label="Time range">
              <DateRangePicker
                value={range}
                relativeOptions={relativeRanges}
                isValidRange={(value) => {
                  const problem = problemOf(value);
                  return problem === undefined ? { valid: true } : { valid: false, errorMessage: problem };
                }}
                i18nStrings={rangeTexts}
                placeholder="Choose a time range"
                onChange={({ detail }) => {
                  setRange(detail.value);
                  setNow(Date.now());
                }}
              />
            </FormField>
          </ColumnLayout>
          <QueryEditor
            value={query}
            onChange={setQuery}
            onRun={ask}
            mistake={run.mistake}
            fields={(fields.data?.logGroupFields ?? []).map(({ name = "" }) => name)}
          />
          {run.mistake !== undefined && (
            <Alert type="error" header="The query has a mistake">
              {run.mistake.message}
            </Alert>
          )}
          {run.error !== undefined && run.mistake === undefined && <ErrorAlert attempted="Query" error={run.error} />}
          <SpaceBetween direction="horizontal" size="xs">
            <Button
              variant="primary"
              disabled={!ready || run.running}
              disabledReason="Choose a log group"
              onClick={ask}
            >
              Run query
            </Button>
            <Button disabled={!run.running} onClick={stop}>
              Cancel
            </Button>
            <SavedQueries
              query={query}
              logGroupNames={chosen}
              onChoose={(saved) => {
                setQuery(saved.query);
                if (saved.logGroupNames.length > 0) setChosen(saved.logGroupNames);
              }}
            />
          </SpaceBetween>
        </SpaceBetween>
      </Container>
      <QueryResults run={run} />
    </SpaceBetween>
  );
}
