import {
  CloudWatchLogsClient,
  DeleteQueryDefinitionCommand,
  DescribeQueryDefinitionsCommand,
  PutQueryDefinitionCommand,
} from "@aws-sdk/client-cloudwatch-logs";
import Button from "@cloudscape-design/components/button";
import ButtonDropdown from "@cloudscape-design/components/button-dropdown";
import FormField from "@cloudscape-design/components/form-field";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useAws, useAwsChange } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { FormModal } from "../../components/FormModal";
import { CommandTabs } from "../../components/ShowCommand";
import { useSession } from "../../session/SessionProvider";

interface Props {
  query: string;
  logGroupNames: string[];
  onChoose: (saved: { query: string; logGroupNames: string[] }) => void;
}

/** SavedQueries lists the query definitions of the account, and saves the query of the editor as one. */
export function SavedQueries({ query, logGroupNames, onChoose }: Props) {
  const { data } = useAws(CloudWatchLogsClient, DescribeQueryDefinitionsCommand, { maxResults: 1000 });
  const saved = data?.queryDefinitions ?? [];
  const itemsOf = (action: string) =>
    saved.map(({ queryDefinitionId = "", name = "" }) => ({ id: `${action} ${queryDefinitionId}`, text: name }));
  const [saving, setSaving] = useState(false);
  const remove = useAwsChange(CloudWatchLogsClient, DeleteQueryDefinitionCommand, {
    attempt: () => "Delete the saved query",
    success: () => "The saved query was deleted.",
  });
  return (
    <SpaceBetween direction="horizontal" size="xs">
      <Button onClick={() => setSaving(true)}>Save</Button>
      <ButtonDropdown
        disabled={saved.length === 0}
        disabledReason="No query has been saved"
        items={[
          { text: "Open", items: itemsOf("open") },
          { text: "Delete", items: itemsOf("delete") },
        ]}
        expandableGroups
        onItemClick={({ detail }) => {
          const [action, queryDefinitionId] = detail.id.split(" ");
          const found = saved.find((definition) => definition.queryDefinitionId === queryDefinitionId);
          if (action === "delete") remove.mutate({ queryDefinitionId });
          else if (found !== undefined) {
            onChoose({ query: found.queryString ?? "", logGroupNames: found.logGroupNames ?? [] });
          }
        }}
      >
        Saved queries
      </ButtonDropdown>
      {saving && <SaveQuery query={query} logGroupNames={logGroupNames} onDismiss={() => setSaving(false)} />}
    </SpaceBetween>
  );
}

function SaveQuery({ query, logGroupNames, onDismiss }: Omit<Props, "onChoose"> & { onDismiss: () => void }) {
  const { session } = useSession();
  const [name, setName] = useState("");
  const save = useAwsChange(CloudWatchLogsClient, PutQueryDefinitionCommand, {
    attempt: (input) => `Save the query ${input.name ?? ""}`,
    success: (input) => `The query ${input.name ?? ""} was saved.`,
    quiet: true,
  });
  const input = { name, queryString: query, logGroupNames };
  return (
    <FormModal
      title="Save query"
      submit="Save"
      disabled={name === ""}
      submitting={save.isPending}
      onSubmit={() => save.mutate(input, { onSuccess: onDismiss })}
      onDismiss={onDismiss}
    >
      <FormField
        label="Query name"
        description="With slashes, as in eks/denials, AWS's console shows folders."
        errorText={save.error?.message}
      >
        <Input value={name} autoFocus onChange={({ detail }) => setName(detail.value)} />
      </FormField>
      <CommandTabs commands={[awsCommand("logs", "put-query-definition", input, session.region)]} />
    </FormModal>
  );
}
