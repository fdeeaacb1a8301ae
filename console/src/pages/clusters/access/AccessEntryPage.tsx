import {
  type AccessEntry,
  AssociateAccessPolicyCommand,
  type AssociatedAccessPolicy,
  DescribeAccessEntryCommand,
  DisassociateAccessPolicyCommand,
  EKSClient,
  paginateListAssociatedAccessPolicies,
  UpdateAccessEntryCommand,
} from "@aws-sdk/client-eks";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import Input from "@cloudscape-design/components/input";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useNavigate, useParams } from "react-router";
import { useAws, useAwsChange, useAwsPages } from "../../../aws/queries";
import { awsCommand, cloudFormationResource } from "../../../commands/command";
import { AppLink } from "../../../components/AppLink";
import { Copyable } from "../../../components/Copyable";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { ChangeModal } from "../forms/ChangeModal";
import { Loading } from "../../../components/Loading";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { ResourceTags } from "../ResourceTags";
import { ShowCommand } from "../../../components/ShowCommand";
import { Time } from "../../../components/Time";
import { useSession } from "../../../session/SessionProvider";
import { principalAddress, principalOf, splitWords } from "../../identity/policies";
import { DeleteAccessEntry } from "./DeleteAccessEntry";
import { nameOf, PolicyFields } from "./PolicyFields";
import { entryTypes, groupProblem, hasPolicies, newPolicy, type Policy, policyProblem } from "./request";
import { scopeOf, usernameProblem } from "./request";

/** AccessEntryPage is the page of an access entry: who a principal is in a cluster, and what it may do. */
export default function AccessEntryPage() {
  const { cluster: clusterName = "", principal: principalArn = "" } = useParams();
  const of = { clusterName, principalArn };
  const navigate = useNavigate();
  const { session } = useSession();
  const { data, error, refetch, isFetching } = useAws(EKSClient, DescribeAccessEntryCommand, of);
  const [editing, setEditing] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const entry = data?.accessEntry;
  const failure = error !== null && (
    <ErrorAlert attempted={`Describe the access entry of ${principalArn}`} error={error} retry={() => void refetch()} />
  );
  if (entry === undefined) {
    if (error === null) return <Loading what="the access entry" />;
    return <ContentLayout header={<Header variant="h1">Access entry</Header>}>{failure}</ContentLayout>;
  }
  const principal = principalOf(principalArn);
  const type = entryTypes.find(({ value }) => value === entry.type)?.label ?? entry.type;
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          description={principalArn}
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand commands={[awsCommand("eks", "describe-access-entry", of, session.region)]} />
              <Button
                iconName="refresh"
                ariaLabel="Refresh access entry"
                loading={isFetching}
                loadingText="Refreshing access entry"
                onClick={() => void refetch()}
              />
              <Button onClick={() => setDeleting(true)}>Delete</Button>
              <Button
                disabled={entry.type !== "STANDARD"}
                disabledReason="Only entries of type Standard can be changed."
                onClick={() => setEditing(true)}
              >
                Edit
              </Button>
            </SpaceBetween>
          }
        >
          {principal?.name ?? principalArn}
        </Header>
      }
    >
      <SpaceBetween size="l">
        {failure}
        <Container header={<Header variant="h2">Details</Header>}>
          <KeyValuePairs
            columns={3}
            items={[
              {
                label: "IAM principal ARN",
                value:
                  principal === undefined ? (
                    principalArn
                  ) : (
                    <AppLink to={principalAddress(principal)}>{principalArn}</AppLink>
                  ),
              },
              { label: "Type", value: type },
              { label: "Username", value: <Copyable text={entry.username} what="username" /> },
              { label: "Groups", value: entry.kubernetesGroups?.join(", ") || "-" },
              { label: "Created", value: <Time at={entry.createdAt} /> },
              { label: "Modified", value: <Time at={entry.modifiedAt} /> },
              { label: "Access entry ARN", value: <Copyable text={entry.accessEntryArn} what="access entry ARN" /> },
            ]}
          />
        </Container>
        {hasPolicies(entry.type ?? "") && <Policies {...of} />}
        <ResourceTags what="access entry" arn={entry.accessEntryArn} tags={entry.tags} />
      </SpaceBetween>
      {editing && <EditEntry entry={entry} onDismiss={() => setEditing(false)} />}
      {deleting && (
        <DeleteAccessEntry
          {...of}
          onDismiss={() => setDeleting(false)}
          onDeleted={() => void navigate(`/clusters/${encodeURIComponent(clusterName)}/access`)}
        />
      )}
    </ContentLayout>
  );
}

interface EntryOf {
  clusterName: string;
  principalArn: string;
}

const columns: Column<AssociatedAccessPolicy>[] = [
  { id: "name", header: "Policy name", text: (p) => nameOf(p.policyArn ?? ""), width: 300 },
  {
    id: "scope",
    header: "Access scope",
    text: (p) => (p.accessScope?.type === "namespace" ? "Kubernetes namespace" : "Cluster"),
    width: 200,
  },
  { id: "namespaces", header: "Namespaces", text: (p) => p.accessScope?.namespaces?.join(", ") ?? "", width: 240 },
  {
    id: "associated",
    header: "Associated",
    text: (p) => p.associatedAt?.toISOString() ?? "",
    cell: (p) => <Time at={p.associatedAt} />,
    width: 160,
  },
  { id: "arn", header: "Policy ARN", text: (p) => p.policyArn ?? "", hidden: true, width: 480 },
];

function Policies(of: EntryOf) {
  const { session } = useSession();
  const policies = useAwsPages(
    EKSClient,
    paginateListAssociatedAccessPolicies,
    of,
    (page) => page.associatedAccessPolicies,
  );
  const [selected, setSelected] = useState<AssociatedAccessPolicy[]>([]);
  const [editing, setEditing] = useState<Policy>();
  const disassociate = useAwsChange(EKSClient, DisassociateAccessPolicyCommand, {
    attempt: (input) => `Remove access policy ${nameOf(input.policyArn ?? "")}`,
    success: (input) => `Access policy ${nameOf(input.policyArn ?? "")} was removed.`,
  });
  const [first] = selected;
  const { region } = session;
  const policyArn = first?.policyArn ?? "";
  return (
    <>
      <ResourceTable
        title="Access policies"
        nouns={["access policy", "access policies"]}
        items={policies.data}
        columns={columns}
        keyOf={(p) => p.policyArn ?? ""}
        nameOf={(p) => nameOf(p.policyArn ?? "")}
        error={policies.error}
        refresh={() => void policies.refetch()}
        refreshing={policies.isFetching}
        commands={[
          awsCommand("eks", "list-associated-access-policies", of, region),
          ...(first === undefined
            ? []
            : [
                {
                  ...awsCommand("eks", "disassociate-access-policy", { ...of, policyArn }, region),
                  title: "Remove the selected",
                },
              ]),
        ]}
        selection="single"
        selected={selected}
        onSelect={setSelected}
        actions={
          <SpaceBetween direction="horizontal" size="xs">
            <Button
              disabled={first === undefined}
              loading={disassociate.isPending}
              onClick={() => disassociate.mutate({ ...of, policyArn }, { onSuccess: () => setSelected([]) })}
            >
              Remove
            </Button>
            <Button
              disabled={first === undefined}
              onClick={() =>
                setEditing({
                  policyArn,
                  scope: first?.accessScope?.type ?? "cluster",
                  namespaces: first?.accessScope?.namespaces ?? [],
                })
              }
            >
              Edit access scope
            </Button>
            <Button variant="primary" onClick={() => setEditing(newPolicy)}>
              Add access policy
            </Button>
          </SpaceBetween>
        }
      />
      {editing !== undefined && <AssociatePolicy of={of} before={editing} onDismiss={() => setEditing(undefined)} />}
    </>
  );
}

/** AssociatePolicy gives an entry an access policy, or another scope of one that it has. */
function AssociatePolicy({ of, before, onDismiss }: { of: EntryOf; before: Policy; onDismiss: () => void }) {
  const { session } = useSession();
  const [policy, setPolicy] = useState(before);
  const associate = useAwsChange(EKSClient, AssociateAccessPolicyCommand, {
    attempt: (input) => `Associate access policy ${nameOf(input.policyArn ?? "")}`,
    success: (input) => `Access policy ${nameOf(input.policyArn ?? "")} is associated.`,
    quiet: true,
  });
  const fixed = before.policyArn !== "";
  const accessScope = scopeOf(policy);
  const input = { ...of, policyArn: policy.policyArn, accessScope };
  return (
    <ChangeModal
      title={fixed ? `Edit access scope of ${nameOf(policy.policyArn)}` : "Add access policy"}
      submit={fixed ? "Save changes" : "Add access policy"}
      disabled={policyProblem(policy) !== undefined}
      pending={associate.isPending}
      attempted="Associate the access policy"
      error={associate.error}
      commands={[
        awsCommand("eks", "associate-access-policy", input, session.region),
        cloudFormationResource("AccessEntry", "AWS::EKS::AccessEntry", {
          ClusterName: of.clusterName,
          PrincipalArn: of.principalArn,
          AccessPolicies: [
            {
              PolicyArn: policy.policyArn,
              AccessScope: { Type: accessScope.type, Namespaces: accessScope.namespaces },
            },
          ],
        }),
      ]}
      onDismiss={onDismiss}
      onSubmit={() => associate.mutate(input, { onSuccess: onDismiss })}
    >
      <PolicyFields
        policy={policy}
        fixed={fixed}
        change={(next) => setPolicy((p) => ({ ...p, ...next }))}
        errorText={policy.policyArn === "" ? undefined : policyProblem(policy)}
      />
    </ChangeModal>
  );
}

function EditEntry({ entry, onDismiss }: { entry: AccessEntry; onDismiss: () => void }) {
  const { session } = useSession();
  const { clusterName = "", principalArn = "" } = entry;
  const [username, setUsername] = useState(entry.username ?? "");
  const [groups, setGroups] = useState(entry.kubernetesGroups?.join(", ") ?? "");
  const update = useAwsChange(EKSClient, UpdateAccessEntryCommand, {
    attempt: () => `Update the access entry of ${principalArn}`,
    success: () => `The access entry of ${principalArn} was updated.`,
    quiet: true,
  });
  const kubernetesGroups = splitWords(groups);
  const changesGroups = JSON.stringify(kubernetesGroups) !== JSON.stringify(entry.kubernetesGroups ?? []);
  const input = {
    clusterName,
    principalArn,
    username: username === entry.username ? undefined : username,
    kubernetesGroups: changesGroups ? kubernetesGroups : undefined,
  };
  const wrong = { username: usernameProblem(username), groups: groupProblem(kubernetesGroups) };
  const nothing = input.username === undefined && !changesGroups;
  // The AWS CLI takes an empty list as one word.
  const written = changesGroups && kubernetesGroups.length === 0 ? { ...input, kubernetesGroups: "[]" } : input;
  return (
    <ChangeModal
      title="Edit access entry"
      submit="Save changes"
      disabled={nothing || wrong.username !== undefined || wrong.groups !== undefined}
      pending={update.isPending}
      attempted={`Update the access entry of ${principalArn}`}
      error={update.error}
      commands={[
        awsCommand("eks", "update-access-entry", written, session.region),
        cloudFormationResource("AccessEntry", "AWS::EKS::AccessEntry", {
          ClusterName: clusterName,
          PrincipalArn: principalArn,
          Type: entry.type,
          Username: username,
          KubernetesGroups: kubernetesGroups,
        }),
      ]}
      onDismiss={onDismiss}
      onSubmit={() => update.mutate(input, { onSuccess: onDismiss })}
    >
      <FormField label="Username" errorText={wrong.username}>
        <Input value={username} onChange={({ detail }) => setUsername(detail.value)} />
      </FormField>
      <FormField label="Groups" description="Separated by commas." errorText={wrong.groups}>
        <Input value={groups} onChange={({ detail }) => setGroups(detail.value)} />
      </FormField>
    </ChangeModal>
  );
}
