import {
  type EvaluationResult,
  IAMClient,
  paginateSimulatePrincipalPolicy,
  type SimulatePrincipalPolicyCommandInput,
} from "@aws-sdk/client-iam";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import Textarea from "@cloudscape-design/components/textarea";
import { useState } from "react";
import { useSearchParams } from "react-router";
import { useAwsPages } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { ErrorAlert } from "../../components/ErrorAlert";
import { ShowCommand } from "../../components/ShowCommand";
import { deciding, explain, principalOf, splitWords, usePolicies } from "./policies";

/** SimulatorPage tells whether the policies of a principal allow requests, and which statement decides. */
export default function SimulatorPage() {
  const [query, setQuery] = useSearchParams();
  const [arn, setArn] = useState(query.get("principal") ?? "");
  const [actions, setActions] = useState(query.get("actions") ?? "");
  const [resources, setResources] = useState(query.get("resources") ?? "*");
  const principal = query.get("principal") ?? "";
  const asked: SimulatePrincipalPolicyCommandInput = {
    PolicySourceArn: principal,
    ActionNames: splitWords(query.get("actions") ?? ""),
    ResourceArns: splitWords(query.get("resources") ?? ""),
  };
  const complete = principal !== "" && asked.ActionNames?.length !== 0;
  const submit = () => {
    setQuery({ principal: arn.trim(), actions: splitWords(actions).join(" "), resources: resources.trim() });
  };
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          description="Evaluates the policies of a user, group or role. Nothing is changed or called."
          actions={complete && <ShowCommand commands={[awsCommand("iam", "simulate-principal-policy", asked)]} />}
        >
          Policy simulator
        </Header>
      }
    >
      <SpaceBetween size="l">
        <form
          onSubmit={(event) => {
            event.preventDefault();
            submit();
          }}
        >
          <Container
            footer={
              <Button
                variant="primary"
                formAction="submit"
                disabled={arn.trim() === "" || splitWords(actions).length === 0}
              >
                Run simulation
              </Button>
            }
          >
            <SpaceBetween size="m">
              <FormField label="Principal ARN" constraintText="The ARN of a user, group or role.">
                <Input
                  value={arn}
                  placeholder="arn:aws:iam::111122223333:role/name"
                  onChange={({ detail }) => setArn(detail.value)}
                />
              </FormField>
              <FormField label="Actions" constraintText="Separated by spaces, commas or lines.">
                <Textarea
                  value={actions}
                  rows={2}
                  placeholder="eks:DescribeCluster ec2:DescribeInstances"
                  onChange={({ detail }) => setActions(detail.value)}
                />
              </FormField>
              <FormField label="Resource ARNs" constraintText="Separated by spaces, commas or lines; * for any.">
                <Textarea value={resources} rows={2} onChange={({ detail }) => setResources(detail.value)} />
              </FormField>
            </SpaceBetween>
          </Container>
        </form>
        {complete && <Results asked={asked} arn={principal} />}
      </SpaceBetween>
    </ContentLayout>
  );
}

const looks: Record<string, { type: "success" | "error" | "stopped"; text: string }> = {
  allowed: { type: "success", text: "Allowed" },
  explicitDeny: { type: "error", text: "Denied" },
  implicitDeny: { type: "stopped", text: "Implicitly denied" },
};

function Results({ asked, arn }: { asked: SimulatePrincipalPolicyCommandInput; arn: string }) {
  const results = useAwsPages(
    IAMClient,
    paginateSimulatePrincipalPolicy,
    asked,
    (page) => page.EvaluationResults,
    { poll: false },
  );
  const policies = usePolicies(principalOf(arn));
  const { data, error, refetch } = results;
  return (
    <SpaceBetween size="l">
      {error !== null && <ErrorAlert attempted="Simulate the policies" error={error} retry={() => void refetch()} />}
      <Table
        items={(data ?? []).map((result) => ({ result, decisions: deciding(result, policies.data ?? []) }))}
        loading={data === undefined && error === null}
        loadingText="Evaluating policies"
        wrapLines
        ariaLabels={{ tableLabel: "Evaluation results" }}
        header={<Header variant="h2">Evaluation results</Header>}
        columnDefinitions={[
          { id: "action", header: "Action", cell: ({ result }) => result.EvalActionName, isRowHeader: true },
          { id: "resource", header: "Resource", cell: ({ result }) => result.EvalResourceName ?? "*" },
          { id: "decision", header: "Permission", cell: ({ result }) => <Permission result={result} /> },
          {
            id: "statement",
            header: "Deciding statement",
            minWidth: 340,
            cell: ({ result, decisions }) => (
              <SpaceBetween size="xs">
                <Box>{explain(result, decisions)}</Box>
                {decisions.map(({ policy, text }, i) => (
                  <pre key={i} className="command" tabIndex={0} aria-label={`Statement of ${policy}`}>
                    {text}
                  </pre>
                ))}
              </SpaceBetween>
            ),
          },
          {
            id: "missing",
            header: "Missing context values",
            cell: ({ result }) => result.MissingContextValues?.join(", ") ?? "-",
          },
        ]}
      />
    </SpaceBetween>
  );
}

function Permission({ result }: { result: EvaluationResult }) {
  const look = looks[result.EvalDecision ?? ""] ?? { type: "stopped" as const, text: result.EvalDecision ?? "-" };
  return <StatusIndicator type={look.type}>{look.text}</StatusIndicator>;
}
