import { AssociateAccessPolicyCommand, CreateAccessEntryCommand, EKSClient } from "@aws-sdk/client-eks";
import { IAMClient, paginateListRoles, paginateListUsers } from "@aws-sdk/client-iam";
import Autosuggest from "@cloudscape-design/components/autosuggest";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useNavigate, useParams } from "react-router";
import { useAwsChange, useAwsPages } from "../../../aws/queries";
import { FormPage } from "../forms/FormPage";
import { TagFields } from "../forms/TagFields";
import { useSession } from "../../../session/SessionProvider";
import { splitWords } from "../../identity/policies";
import { PolicyFields } from "./PolicyFields";
import {
  type EntryForm,
  entryCommandsOf,
  entryProblems,
  entryRequestsOf,
  entryTypes,
  hasPolicies,
  newEntry,
  newPolicy,
  policyProblem,
} from "./request";

/** CreateAccessEntryPage lets a principal of IAM into a cluster, with access policies. */
export default function CreateAccessEntryPage() {
  const { cluster: clusterName = "" } = useParams();
  const { session } = useSession();
  const navigate = useNavigate();
  const [form, setForm] = useState<EntryForm>(newEntry);
  const [groups, setGroups] = useState("");
  const [submitted, setSubmitted] = useState(false);
  const create = useAwsChange(EKSClient, CreateAccessEntryCommand, {
    attempt: (input) => `Create the access entry of ${input.principalArn ?? ""}`,
    success: (input) => `The access entry of ${input.principalArn ?? ""} was created.`,
    quiet: true,
  });
  const associate = useAwsChange(EKSClient, AssociateAccessPolicyCommand, {
    attempt: (input) => `Associate ${input.policyArn ?? ""}`,
  });
  const change = (next: Partial<EntryForm>) => setForm((before) => ({ ...before, ...next }));
  const problems = submitted ? entryProblems(form) : {};
  const type = entryTypes.find(({ value }) => value === form.type);
  const cluster = `/clusters/${encodeURIComponent(clusterName)}`;
  const submit = async () => {
    setSubmitted(true);
    const wrong = hasPolicies(form.type) && form.policies.some((policy) => policyProblem(policy) !== undefined);
    if (wrong || Object.keys(entryProblems(form)).length > 0) return;
    const [entry, policies] = entryRequestsOf(clusterName, form);
    try {
      await create.mutateAsync(entry);
    } catch {
      return; // the form says why
    }
    try {
      for (const policy of policies) await associate.mutateAsync(policy);
    } catch {
      // A message above the page says why: the entry is there, and its page takes the policy.
    }
    void navigate(`${cluster}/access-entries/${encodeURIComponent(form.principalArn)}`);
  };
  return (
    <FormPage
      title="Create access entry"
      submitText="Create"
      pending={create.isPending || associate.isPending}
      attempted={`Create the access entry of ${form.principalArn}`}
      error={create.error}
      commands={entryCommandsOf(clusterName, form, session.region)}
      cancelTo={`${cluster}/access`}
      onSubmit={() => void submit()}
    >
      <Container header={<Header variant="h2">Configure IAM access entry</Header>}>
        <SpaceBetween size="m">
          <PrincipalField
            value={form.principalArn}
            errorText={problems.principalArn}
            onChange={(principalArn) => change({ principalArn })}
          />
          <FormField label="Type" description={type?.description}>
            <Select
              selectedOption={type ?? null}
              options={entryTypes}
              onChange={({ detail }) => change({ type: detail.selectedOption.value ?? "" })}
            />
          </FormField>
          {form.type === "STANDARD" && (
            <>
              <FormField
                label="Username"
                description="The Kubernetes username that the principal has. EKS chooses one, unless you enter it."
                errorText={problems.username}
              >
                <Input value={form.username} onChange={({ detail }) => change({ username: detail.value })} />
              </FormField>
              <FormField
                label="Groups"
                description="Kubernetes groups that the principal is in, separated by commas. Role bindings name them."
                errorText={problems.groups}
              >
                <Input
                  value={groups}
                  onChange={({ detail }) => {
                    setGroups(detail.value);
                    change({ groups: splitWords(detail.value) });
                  }}
                />
              </FormField>
            </>
          )}
        </SpaceBetween>
      </Container>
      {hasPolicies(form.type) && <Policies form={form} change={change} submitted={submitted} />}
      <Container header={<Header variant="h2">Tags</Header>}>
        <TagFields tags={form.tags} onChange={(tags) => change({ tags })} />
      </Container>
    </FormPage>
  );
}

interface PoliciesProps {
  form: EntryForm;
  change: (next: Partial<EntryForm>) => void;
  submitted: boolean;
}

function Policies({ form: { policies }, change, submitted }: PoliciesProps) {
  return (
    <Container
      header={
        <Header
          variant="h2"
          description="What EKS lets the principal do in Kubernetes. Role bindings of its groups add to that."
          actions={
            <Button formAction="none" onClick={() => change({ policies: [...policies, newPolicy] })}>
              Add policy
            </Button>
          }
        >
          Access policies
        </Header>
      }
    >
      <SpaceBetween size="l">
        {policies.length === 0 && "No access policies"}
        {policies.map((policy, i) => (
          <SpaceBetween key={i} size="s">
            <PolicyFields
              policy={policy}
              errorText={submitted ? policyProblem(policy) : undefined}
              change={(next) => change({ policies: policies.map((p, j) => (i === j ? { ...p, ...next } : p)) })}
            />
            <Button formAction="none" onClick={() => change({ policies: policies.filter((_, j) => i !== j) })}>
              Remove policy
            </Button>
          </SpaceBetween>
        ))}
      </SpaceBetween>
    </Container>
  );
}

interface PrincipalProps {
  value: string;
  errorText?: string;
  onChange: (arn: string) => void;
}

/** PrincipalField takes the ARN of a role or user, and suggests those of the account. */
function PrincipalField({ value, errorText, onChange }: PrincipalProps) {
  const roles = useAwsPages(IAMClient, paginateListRoles, {}, (page) => page.Roles);
  const users = useAwsPages(IAMClient, paginateListUsers, {}, (page) => page.Users);
  const error = roles.error ?? users.error;
  const loading = roles.isLoading || users.isLoading;
  const serviceLinked = /:role\/aws-service-role\//; // EKS lets nobody have entries of these
  const options = [
    { label: "Roles", all: (roles.data ?? []).filter(({ Arn = "" }) => !serviceLinked.test(Arn)) },
    { label: "Users", all: users.data ?? [] },
  ].map(({ label, all }) => ({ label, options: all.map(({ Arn = "" }) => ({ value: Arn })) }));
  return (
    <FormField
      label="IAM principal ARN"
      description="The IAM role or user that gets access to Kubernetes objects. It cannot be changed later."
      errorText={errorText}
    >
      <Autosuggest
        autoFocus
        value={value}
        options={options.filter((group) => group.options.length > 0)}
        placeholder="Choose a principal, or enter its ARN"
        empty="No roles and users"
        enteredTextLabel={(text) => `Use: "${text}"`}
        statusType={loading ? "loading" : error === null ? "finished" : "error"}
        loadingText="Loading roles and users"
        errorText={error?.message}
        onChange={({ detail }) => onChange(detail.value)}
      />
    </FormField>
  );
}
