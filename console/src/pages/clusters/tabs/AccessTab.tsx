import {
  type AccessEntry,
  type AssociatedAccessPolicy,
  DescribeAccessEntryCommand,
  EKSClient,
  paginateListAccessEntries,
  paginateListAssociatedAccessPolicies,
  paginateListPodIdentityAssociations,
  type PodIdentityAssociationSummary,
} from "@aws-sdk/client-eks";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useState } from "react";
import { useNavigate } from "react-router";
import { useDescribed } from "../../../aws/describe";
import { useAwsPages } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { AppLink } from "../../../components/AppLink";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { useSession } from "../../../session/SessionProvider";
import { DeleteAccessEntry } from "../access/DeleteAccessEntry";
import { DeleteAssociation } from "../access/DeleteAssociation";
import { entryTypes } from "../access/request";
import type { TabProps } from "../tab";
import { AuthenticationMode, modeName } from "../update/Settings";

/** AccessTab shows who may do what in a cluster: IAM principals, and service accounts with IAM roles. */
export default function AccessTab({ cluster, name }: TabProps) {
  const [managing, setManaging] = useState(false);
  const mode = cluster.accessConfig?.authenticationMode;
  return (
    <SpaceBetween size="l">
      <Container
        header={
          <Header
            variant="h2"
            actions={
              <Button
                disabled={mode === "API"}
                disabledReason="EKS API is the last authentication mode: there is no way back."
                onClick={() => setManaging(true)}
              >
                Manage access
              </Button>
            }
          >
            Cluster access
          </Header>
        }
      >
        <KeyValuePairs columns={2} items={[{ label: "Authentication mode", value: modeName(mode) }]} />
      </Container>
      {mode !== "CONFIG_MAP" && <AccessEntries name={name} />}
      <PodIdentityAssociations name={name} />
      {managing && <AuthenticationMode cluster={cluster} onDismiss={() => setManaging(false)} />}
    </SpaceBetween>
  );
}

interface Entry extends AccessEntry {
  policies: AssociatedAccessPolicy[];
}

const addressOf = (name: string, ...rest: string[]) =>
  `/clusters/${encodeURIComponent(name)}/${rest.map(encodeURIComponent).join("/")}`;

const entryAddress = ({ clusterName = "", principalArn = "" }: Entry) =>
  addressOf(clusterName, "access-entries", principalArn);

const entryColumns: Column<Entry>[] = [
  {
    id: "principal",
    header: "IAM principal ARN",
    text: (e) => e.principalArn ?? "",
    cell: (e) => <AppLink to={entryAddress(e)}>{e.principalArn ?? ""}</AppLink>,
    width: 380,
  },
  { id: "type", header: "Type", text: (e) => typeName(e.type), width: 130 },
  { id: "username", header: "Username", text: (e) => e.username ?? "", width: 300 },
  { id: "groups", header: "Group names", text: (e) => e.kubernetesGroups?.join(", ") ?? "", width: 180 },
  { id: "policies", header: "Access policies", text: (e) => e.policies.map(formatPolicy).join("; "), width: 320 },
];

const typeName = (type = "") => entryTypes.find(({ value }) => value === type)?.label ?? type;

/** FormatPolicy returns an access policy with its scope: "AmazonEKSViewPolicy (default, web)". */
export function formatPolicy({ policyArn = "", accessScope }: AssociatedAccessPolicy): string {
  const where = accessScope?.type === "namespace" ? (accessScope.namespaces?.join(", ") ?? "") : "cluster";
  return `${policyArn.slice(policyArn.lastIndexOf("/") + 1)} (${where})`;
}

function AccessEntries({ name }: { name: string }) {
  const { session } = useSession();
  const navigate = useNavigate();
  const entries = useDescribed(EKSClient, {
    paginate: paginateListAccessEntries,
    input: { clusterName: name },
    pages: (client) => paginateListAccessEntries({ client }, { clusterName: name }),
    names: (page) => page.accessEntries,
    describe: async (client, principalArn, abortSignal): Promise<Entry> => {
      const of = { clusterName: name, principalArn };
      const policies: AssociatedAccessPolicy[] = [];
      const { accessEntry } = await client.send(new DescribeAccessEntryCommand(of), { abortSignal });
      for await (const page of paginateListAssociatedAccessPolicies({ client }, of)) {
        policies.push(...(page.associatedAccessPolicies ?? []));
      }
      return { ...accessEntry, policies };
    },
  });
  const [selected, setSelected] = useState<Entry[]>([]);
  const [deleting, setDeleting] = useState<string>();
  const [first] = selected;
  return (
    <>
      <ResourceTable
        title="IAM access entries"
        nouns={["access entry", "access entries"]}
        items={entries.data}
        columns={entryColumns}
        keyOf={(e) => e.principalArn ?? ""}
        nameOf={(e) => e.principalArn ?? ""}
        error={entries.error}
        refresh={() => void entries.refetch()}
        refreshing={entries.isFetching}
        commands={[awsCommand("eks", "list-access-entries", { clusterName: name }, session.region)]}
        selection="single"
        selected={selected}
        onSelect={setSelected}
        actions={
          <SpaceBetween direction="horizontal" size="xs">
            <Button disabled={first === undefined} onClick={() => setDeleting(first?.principalArn)}>
              Delete
            </Button>
            <Button
              disabled={first === undefined}
              onClick={() => first !== undefined && void navigate(entryAddress(first))}
            >
              View details
            </Button>
            <Button variant="primary" onClick={() => void navigate(addressOf(name, "access-entry-create"))}>
              Create access entry
            </Button>
          </SpaceBetween>
        }
      />
      {deleting !== undefined && (
        <DeleteAccessEntry clusterName={name} principalArn={deleting} onDismiss={() => setDeleting(undefined)} />
      )}
    </>
  );
}

const associationAddress = ({ clusterName = "", associationId = "" }: PodIdentityAssociationSummary) =>
  addressOf(clusterName, "pod-identity-associations", associationId);

const associationColumns: Column<PodIdentityAssociationSummary>[] = [
  { id: "namespace", header: "Kubernetes namespace", text: (a) => a.namespace ?? "", width: 220 },
  { id: "account", header: "Kubernetes service account", text: (a) => a.serviceAccount ?? "", width: 260 },
  {
    id: "id",
    header: "Association ID",
    text: (a) => a.associationId ?? "",
    cell: (a) => <AppLink to={associationAddress(a)}>{a.associationId ?? ""}</AppLink>,
    width: 220,
  },
  { id: "owner", header: "Owner", text: (a) => a.ownerArn ?? "", width: 300 },
];

function PodIdentityAssociations({ name }: { name: string }) {
  const { session } = useSession();
  const navigate = useNavigate();
  const [selected, setSelected] = useState<PodIdentityAssociationSummary[]>([]);
  const [deleting, setDeleting] = useState<PodIdentityAssociationSummary>();
  const [first] = selected;
  const input = { clusterName: name };
  const { data, error, refetch, isFetching } = useAwsPages(
    EKSClient,
    paginateListPodIdentityAssociations,
    input,
    (page) => page.associations,
  );
  return (
    <>
    <ResourceTable
      title="Pod Identity associations"
      nouns={["association", "associations"]}
      items={data}
      columns={associationColumns}
      keyOf={(a) => a.associationId ?? ""}
      nameOf={(a) => a.associationId ?? ""}
      error={error}
      refresh={() => void refetch()}
      refreshing={isFetching}
      commands={[awsCommand("eks", "list-pod-identity-associations", input, session.region)]}
      selection="single"
      selected={selected}
      onSelect={setSelected}
      actions={
        <SpaceBetween direction="horizontal" size="xs">
          <Button
            disabled={first === undefined || first.ownerArn !== undefined}
            disabledReason={first && "An add-on owns the association: edit the add-on."}
            onClick={() => setDeleting(first)}
          >
            Delete
          </Button>
          <Button
            disabled={first === undefined}
            onClick={() => first !== undefined && void navigate(associationAddress(first))}
          >
            View details
          </Button>
          <Button
            variant="primary"
            onClick={() => void navigate(addressOf(name, "pod-identity-association-create"))}
          >
            Create association
          </Button>
        </SpaceBetween>
      }
    />
      {deleting !== undefined && (
        <DeleteAssociation association={deleting} onDismiss={() => setDeleting(undefined)} />
      )}
    </>
  );
}
