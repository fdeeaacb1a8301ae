import type { Cluster } from "@aws-sdk/client-eks";
import {
  DescribeAccessEntryCommand,
  EKSClient,
  paginateListAccessEntries,
  paginateListAssociatedAccessPolicies,
} from "@aws-sdk/client-eks";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useMemo } from "react";
import { useDescribed } from "../../aws/describe";
import { awsCommand, inTurn, kubectlCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { ErrorAlert } from "../../components/ErrorAlert";
import { type Column, ResourceTable } from "../../components/ResourceTable";
import { core } from "../../kubernetes/objects";
import { useWatch } from "../../kubernetes/watch";
import { useSession } from "../../session/SessionProvider";
import { formatPolicy } from "../clusters/tabs/AccessTab";
import {
  type AwsAuth,
  type Binding,
  bindingsOf,
  clusterRoleBindings,
  type Entry,
  formatBinding,
  type Mapping,
  resolveMappings,
  roleBindings,
} from "./access";
import { ClusterSelect } from "./ClusterSelect";
import { principalAddress, principalOf } from "./policies";

/** ClusterAccessPage shows who may do what in a cluster: from the principal of IAM to the roles of Kubernetes. */
export default function ClusterAccessPage() {
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          description="From principals of IAM to users and groups of Kubernetes, and what these may do."
        >
          Cluster access
        </Header>
      }
    >
      <SpaceBetween size="l">
        <ClusterSelect>{(cluster) => <Access key={cluster.arn} cluster={cluster} />}</ClusterSelect>
      </SpaceBetween>
    </ContentLayout>
  );
}

const configMaps = core("configmaps");
const noEntries = (async function* () {
  // A cluster that reads aws-auth only refuses to list access entries.
})();

function useEntries(cluster: Cluster) {
  const clusterName = cluster.name ?? "";
  const mode = cluster.accessConfig?.authenticationMode;
  return useDescribed(EKSClient, {
    paginate: useEntries,
    input: { clusterName, mode },
    pages: (client) => (mode === "CONFIG_MAP" ? noEntries : paginateListAccessEntries({ client }, { clusterName })),
    names: (page) => page.accessEntries,
    describe: async (client, principalArn, abortSignal): Promise<Entry> => {
      const of = { clusterName, principalArn };
      const { accessEntry } = await client.send(new DescribeAccessEntryCommand(of), { abortSignal });
      const policies = [];
      for await (const page of paginateListAssociatedAccessPolicies({ client }, of)) {
        policies.push(...(page.associatedAccessPolicies ?? []));
      }
      return { ...accessEntry, policies };
    },
  });
}

interface Row extends Mapping {
  roles: string[];
}

const columns: Column<Row>[] = [
  {
    id: "principal",
    header: "IAM principal",
    text: (r) => r.principal,
    cell: (r) => {
      const principal = principalOf(r.principal);
      return principal === undefined ? r.principal : <AppLink to={principalAddress(principal)}>{r.principal}</AppLink>;
    },
    width: 380,
  },
  { id: "source", header: "Source", text: (r) => r.source, width: 130 },
  {
    id: "effect",
    header: "In effect",
    text: (r) => (r.ignored === "" ? "Yes" : `No: ${r.ignored}`),
    cell: (r) =>
      r.ignored === "" ? (
        <StatusIndicator type="success">Yes</StatusIndicator>
      ) : (
        <StatusIndicator type="stopped">No: {r.ignored}</StatusIndicator>
      ),
    width: 120,
  },
  { id: "username", header: "Kubernetes user", text: (r) => r.username, width: 300 },
  { id: "groups", header: "Kubernetes groups", text: (r) => r.groups.join(", "), width: 240 },
  {
    id: "policies",
    header: "Access policies",
    text: (r) => r.policies.map(formatPolicy).join("; "),
    width: 300,
  },
  { id: "roles", header: "Roles by RBAC", text: (r) => r.roles.join("; "), width: 360 },
];

function Access({ cluster }: { cluster: Cluster }) {
  const { session } = useSession();
  const name = cluster.name ?? "";
  const mode = cluster.accessConfig?.authenticationMode ?? "";
  const entries = useEntries(cluster);
  const awsAuth = useWatch<AwsAuth>(name, configMaps, "kube-system", { fieldSelector: "metadata.name=aws-auth" });
  const everywhere = useWatch<Binding>(name, clusterRoleBindings);
  const namespaced = useWatch<Binding>(name, roleBindings);
  const rows = useMemo<Row[]>(() => {
    const bindings = [...everywhere.items, ...namespaced.items];
    return resolveMappings(mode, entries.data ?? [], awsAuth.items[0]).map((mapping) => ({
      ...mapping,
      roles: bindingsOf(mapping, bindings).map(formatBinding),
    }));
  }, [mode, entries.data, awsAuth.items, everywhere.items, namespaced.items]);
  const unread = awsAuth.error ?? everywhere.error ?? namespaced.error;
  const loading = entries.data === undefined || awsAuth.loading;
  const of = { clusterName: name };
  return (
    <SpaceBetween size="l">
      {unread !== null && <ErrorAlert attempted="Read aws-auth and the role bindings" error={unread} />}
      <ResourceTable
        title="Who may do what"
        nouns={["principal", "principals"]}
        description={`Authentication mode: ${mode}`}
        items={loading ? undefined : rows}
        columns={columns}
        keyOf={(r) => `${r.source} ${r.principal} ${r.username}`}
        nameOf={(r) => r.principal}
        error={entries.error}
        refresh={() => void entries.refetch()}
        refreshing={entries.isFetching}
        commands={[
          awsCommand("eks", "list-access-entries", of, session.region),
          inTurn(
            kubectlCommand(name, "get", "configmap", "aws-auth", "-n", "kube-system", "-o", "yaml"),
            kubectlCommand(name, "get", "clusterrolebindings,rolebindings", "-A", "-o", "wide"),
          ),
        ]}
      />
    </SpaceBetween>
  );
}
