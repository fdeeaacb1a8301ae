import {
  DescribePodIdentityAssociationCommand,
  EKSClient,
  paginateListPodIdentityAssociations,
} from "@aws-sdk/client-eks";
import { GetRoleCommand, IAMClient } from "@aws-sdk/client-iam";
import Alert from "@cloudscape-design/components/alert";
import Box from "@cloudscape-design/components/box";
import Container from "@cloudscape-design/components/container";
import ContentLayout from "@cloudscape-design/components/content-layout";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import Select from "@cloudscape-design/components/select";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useSearchParams } from "react-router";
import { useDescribed } from "../../aws/describe";
import { useAws } from "../../aws/queries";
import { awsCommand, kubectlCommand } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";
import { core, type KubernetesObject, pods } from "../../kubernetes/objects";
import { useWatch } from "../../kubernetes/watch";
import { useSession } from "../../session/SessionProvider";
import { objectAddress } from "../resources/address";
import { type Chain, credentialsOf, type Pod, serviceAccountOf } from "./chain";
import { ClusterSelect } from "./ClusterSelect";
import { decodeDocument, type Principal, principalAddress, principalOf } from "./policies";
import { Document, PolicyList } from "./PolicyList";

const serviceAccounts = core("serviceaccounts");

/** PodCredentialsPage shows the chain of a pod's credentials: service account, association or annotation, role. */
export default function PodCredentialsPage() {
  return (
    <ContentLayout
      header={
        <Header variant="h1" description="From a pod, by its service account, to a role and its policies.">
          Pod credentials
        </Header>
      }
    >
      <SpaceBetween size="l">
        <ClusterSelect>{({ name = "" }) => <PodSelect key={name} cluster={name} />}</ClusterSelect>
      </SpaceBetween>
    </ContentLayout>
  );
}

const keyOf = ({ metadata }: KubernetesObject) => `${metadata.namespace ?? ""}/${metadata.name}`;

function PodSelect({ cluster }: { cluster: string }) {
  const [query, setQuery] = useSearchParams();
  const { items, loading, error } = useWatch<Pod>(cluster, pods);
  const pod = items.find((each) => keyOf(each) === query.get("pod"));
  return (
    <SpaceBetween size="l">
      {error !== null && <ErrorAlert attempted="List pods" error={error} />}
      <FormField label="Pod">
        <Select
          selectedOption={pod === undefined ? null : { value: keyOf(pod), label: keyOf(pod) }}
          options={items.map(keyOf).sort().map((key) => ({ value: key, label: key }))}
          filteringType="auto"
          placeholder="Choose a pod"
          empty="No pods"
          statusType={loading ? "loading" : "finished"}
          loadingText="Loading pods"
          onChange={({ detail }) => setQuery({ cluster, pod: detail.selectedOption.value ?? "" })}
        />
      </FormField>
      {pod !== undefined && <Credentials key={keyOf(pod)} cluster={cluster} pod={pod} />}
    </SpaceBetween>
  );
}

function useAssociation(clusterName: string, namespace: string, serviceAccount: string) {
  const input = { clusterName, namespace, serviceAccount };
  return useDescribed(EKSClient, {
    paginate: useAssociation,
    input,
    pages: (client) => paginateListPodIdentityAssociations({ client }, input),
    names: (page) => page.associations?.map(({ associationId }) => associationId),
    describe: async (client, associationId, abortSignal) => {
      const of = new DescribePodIdentityAssociationCommand({ clusterName, associationId });
      return (await client.send(of, { abortSignal })).association;
    },
  });
}

function Credentials({ cluster, pod }: { cluster: string; pod: Pod }) {
  const { session } = useSession();
  const { namespace = "", name } = pod.metadata;
  const account = serviceAccountOf(pod);
  const accounts = useWatch<KubernetesObject>(cluster, serviceAccounts, namespace, {
    fieldSelector: `metadata.name=${account}`,
  });
  const association = useAssociation(cluster, namespace, account);
  const failed = accounts.error ?? association.error;
  if (failed !== null) return <ErrorAlert attempted="Read the service account and its association" error={failed} />;
  if (accounts.loading || association.data === undefined) return <Loading what="the chain" />;
  const chain = credentialsOf(pod, accounts.items[0], association.data[0]);
  // The policies of roles of other accounts are not ours to read.
  const role = chain.roleArn?.split(":")[4] === session.account ? principalOf(chain.roleArn) : undefined;
  const objects = [`pod/${name}`, `serviceaccount/${account}`];
  const of = { clusterName: cluster, namespace, serviceAccount: account };
  return (
    <SpaceBetween size="l">
      {chain.problem !== undefined && (
        <Alert type="warning" header="The pod does not have these credentials">
          {chain.problem}
        </Alert>
      )}
      <Container
        header={
          <Header
            variant="h2"
            actions={
              <ShowCommand
                commands={[
                  kubectlCommand(cluster, "get", ...objects, "-n", namespace, "-o", "yaml"),
                  awsCommand("eks", "list-pod-identity-associations", of, session.region),
                ]}
              />
            }
          >
            Chain of credentials
          </Header>
        }
      >
        <KeyValuePairs
          columns={4}
          items={[
            { label: "Pod", value: <AppLink to={objectAddress(cluster, pods, { namespace, name })}>{name}</AppLink> },
            {
              label: "Service account",
              value: (
                <AppLink to={objectAddress(cluster, serviceAccounts, { namespace, name: account })}>{account}</AppLink>
              ),
            },
            {
              label: "Credentials by",
              value: chain.associationId === undefined ? chain.by : `${chain.by}: ${chain.associationId}`,
            },
            { label: "IAM role", value: <RoleOf chain={chain} role={role} /> },
          ]}
        />
      </Container>
      {role !== undefined && <Trust role={role} />}
      {role !== undefined && <PolicyList principal={role} />}
    </SpaceBetween>
  );
}

function RoleOf({ chain, role }: { chain: Chain; role: Principal | undefined }) {
  if (chain.by === "Environment variables") return <>The owner of the access key that the pod names</>;
  if (chain.by === "Instance profile") return <>The role of the node, where the pod reaches the metadata service</>;
  return (
    <>
      {role === undefined ? (chain.roleArn ?? "-") : <AppLink to={principalAddress(role)}>{chain.roleArn}</AppLink>}
      {chain.targetRoleArn !== undefined && <Box>which assumes {chain.targetRoleArn}</Box>}
    </>
  );
}

function Trust({ role }: { role: Principal }) {
  const input = { RoleName: role.name };
  const { data, error, refetch } = useAws(IAMClient, GetRoleCommand, input);
  return (
    <Container
      header={
        <Header variant="h2" actions={<ShowCommand commands={[awsCommand("iam", "get-role", input)]} />}>
          Trusted entities
        </Header>
      }
    >
      {error !== null && <ErrorAlert attempted="Get the role" error={error} retry={() => void refetch()} />}
      {data !== undefined && (
        <Document label="Trust policy" text={decodeDocument(data.Role?.AssumeRolePolicyDocument)} />
      )}
    </Container>
  );
}
