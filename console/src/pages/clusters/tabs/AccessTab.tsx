import {
  type AccessEntry,
  type AssociatedAccessPolicy,
  DeleteAccessEntryCommand,
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
import { useDescribed } from "../../../aws/describe";
import { useAwsChange, useAwsPages } from "../../../aws/queries";
import { awsCommand } from "../../../commands/command";
import { DeleteModal } from "../../../components/DeleteModal";
import { type Column, ResourceTable } from "../../../components/ResourceTable";
import { useSession } from "../../../session/SessionProvider";
import type { TabProps } from "../tab";

const modes: Record<string, string> = {
  API: "EKS API",
  API_AND_CONFIG_MAP: "EKS API and ConfigMap",
  CONFIG_MAP: "ConfigMap",
};

/** AccessTab shows who may do what in a cluster: IAM principals, and service accounts with IAM roles. */
export default function AccessTab({ cluster, name }: TabProps) {
  const mode = cluster.accessConfig?.authenticationMode ?? "";
  return (
    <SpaceBetween size="l">
      <Container header={<Header variant="h2">Cluster access</Header>}>
        <KeyValuePairs columns={2} items={[{ label: "Authentication mode", value: modes[mode] ?? mode }]} />
      </Container>
      {mode !== "CONFIG_MAP" && <AccessEntries name={name} />}
      <PodIdentityAssociations name={name} />
    </SpaceBetween>
  );
}

interface Entry extends AccessEntry {
  policies: AssociatedAccessPolicy[];
}

const entryColumns: Column<Entry>[] = [
  { id: "principal", header: "IAM principal ARN", text: (e) => e.principalArn ?? "", width: 380 },
  { id: "type", header: "Type", text: (e) => formatType(e.type), width: 130 },
  { id: "username", header: "Username", text: (e) => e.username ?? "", width: 300 },
  { id: "groups", header: "Group names", text: (e) => e.kubernetesGroups?.join(", ") ?? "", width: 180 },
  { id: "policies", header: "Access policies", text: (e) => e.policies.map(formatPolicy).join("; "), width: 320 },
];

const formatType = (type = "") => type.charAt(0) + type.slice(1).toLowerCase().replaceAll("_", " ");

/** FormatPolicy returns an access policy with its scope: "AmazonEKSViewPolicy (default, web)". */
export function formatPolicy({ policyArn = "", accessScope }: AssociatedAccessPolicy): string {
  const where = accessScope?.type === "namespace" ? (accessScope.namespaces?.join(", ") ?? "") : "cluster";
  return `${policyArn.slice(policyArn.lastIndexOf("/") + 1)} (${where})`;
}

function AccessEntries({ name }: { name: string }) {
  const { session } = useSession();
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
  const remove = useAwsChange(EKSClient, DeleteAccessEntryCommand, {
    attempt: (input) => `Delete the access entry of ${input.principalArn ?? ""}`,
    success: (input) => `The access entry of ${input.principalArn ?? ""} was deleted.`,
    quiet: true,
  });
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
          <Button disabled={first === undefined} onClick={() => setDeleting(first?.principalArn)}>
            Delete
          </Button>
        }
      />
      {deleting !== undefined && (
        <DeleteModal
          what="access entry"
          name={deleting}
          word="delete"
          onDismiss={() => setDeleting(undefined)}
          onDelete={() => remove.mutateAsync({ clusterName: name, principalArn: deleting })}
        >
          The principal can no longer log in to the cluster by this entry.
        </DeleteModal>
      )}
    </>
  );
}

const associationColumns: Column<PodIdentityAssociationSummary>[] = [
  { id: "namespace", header: "Kubernetes namespace", text: (a) => a.namespace ?? "", width: 220 },
  { id: "account", header: "Kubernetes service account", text: (a) => a.serviceAccount ?? "", width: 260 },
  { id: "id", header: "Association ID", text: (a) => a.associationId ?? "", width: 220 },
  { id: "owner", header: "Owner", text: (a) => a.ownerArn ?? "", width: 300 },
];

function PodIdentityAssociations({ name }: { name: string }) {
  const { session } = useSession();
  const input = { clusterName: name };
  const { data, error, refetch, isFetching } = useAwsPages(
    EKSClient,
    paginateListPodIdentityAssociations,
    input,
    (page) => page.associations,
  );
  return (
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
    />
  );
}
