import { CloudFormationClient, paginateDescribeStacks } from "@aws-sdk/client-cloudformation";
import { EC2Client, paginateDescribeInstanceStatus } from "@aws-sdk/client-ec2";
import {
  DescribeAddonCommand,
  DescribeNodegroupCommand,
  EKSClient,
  paginateListAddons,
  paginateListNodegroups,
} from "@aws-sdk/client-eks";
import Box from "@cloudscape-design/components/box";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import Table from "@cloudscape-design/components/table";
import { useDescribed } from "../../aws/describe";
import { pollWhile, useAwsPages } from "../../aws/queries";
import { awsCommand, eachInTurn } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { useSession } from "../../session/SessionProvider";
import { useClusters } from "../clusters/clusters";
import { isChanging } from "../cloudformation/stacks";
import { useInstances } from "../ec2/instances";
import { type Problem, problems } from "./summary";
import { Tile } from "./Tile";

async function* nodegroupsOf(client: EKSClient, clusters: string[]) {
  for (const clusterName of clusters) {
    for await (const { nodegroups } of paginateListNodegroups({ client }, { clusterName })) {
      yield nodegroups?.map((nodegroupName) => ({ clusterName, nodegroupName }));
    }
  }
}

async function* addonsOf(client: EKSClient, clusters: string[]) {
  for (const clusterName of clusters) {
    for await (const { addons } of paginateListAddons({ client }, { clusterName })) {
      yield addons?.map((addonName) => ({ clusterName, addonName }));
    }
  }
}

/** ProblemsTile lists what AWS says is wrong, with whatever runs in the region. */
export function ProblemsTile() {
  const { session } = useSession();
  const clusters = useClusters();
  const names = clusters.data?.map(({ name = "" }) => name) ?? [];
  const nodegroups = useDescribed(EKSClient, {
    paginate: nodegroupsOf,
    input: { names },
    pages: (client) => nodegroupsOf(client, names),
    names: (page) => page,
    describe: async (client, input, abortSignal) =>
      (await client.send(new DescribeNodegroupCommand(input), { abortSignal })).nodegroup,
  });
  const addons = useDescribed(EKSClient, {
    paginate: addonsOf,
    input: { names },
    pages: (client) => addonsOf(client, names),
    names: (page) => page,
    describe: async (client, input, abortSignal) =>
      (await client.send(new DescribeAddonCommand(input), { abortSignal })).addon,
  });
  const instances = useInstances();
  const impaired = { Filters: [{ Name: "instance-status.status", Values: ["impaired"] }] };
  const statuses = useAwsPages(EC2Client, paginateDescribeInstanceStatus, impaired, (page) => page.InstanceStatuses);
  const stacks = useAwsPages(
    CloudFormationClient,
    paginateDescribeStacks,
    {},
    (page) => page.Stacks,
    { poll: pollWhile((all) => all.some((s) => isChanging(s.StackStatus))) },
  );
  const all = [clusters, nodegroups, addons, instances, statuses, stacks];
  const found = problems({
    clusters: clusters.data ?? [],
    nodegroups: nodegroups.data ?? [],
    addons: addons.data ?? [],
    instances: instances.data ?? [],
    statuses: statuses.data ?? [],
    stacks: stacks.data ?? [],
  });
  const { region } = session;
  const commands = [
    ...names.map((name) => awsCommand("eks", "describe-cluster", { name, query: "cluster.health" }, region)),
    ...(nodegroups.data ?? []).map(({ clusterName, nodegroupName }) =>
      awsCommand("eks", "describe-nodegroup", { clusterName, nodegroupName, query: "nodegroup.health" }, region),
    ),
    ...(addons.data ?? []).map(({ clusterName, addonName }) =>
      awsCommand("eks", "describe-addon", { clusterName, addonName, query: "addon.health" }, region),
    ),
    awsCommand(
      "ec2",
      "describe-instances",
      { query: "Reservations[].Instances[].[InstanceId,StateReason]", output: "text" },
      region,
    ),
    awsCommand("ec2", "describe-instance-status", impaired, region),
    awsCommand(
      "cloudformation",
      "describe-stacks",
      { query: "Stacks[].[StackName,StackStatus,StackStatusReason]", output: "text" },
      region,
    ),
  ];
  return (
    <Tile
      title="What is wrong"
      commands={eachInTurn(commands)}
      error={all.map(({ error }) => error).find((error) => error !== null) ?? null}
      loading={all.some(({ data }) => data === undefined)}
      retry={() => void Promise.all(all.map((each) => each.refetch()))}
    >
      {found.length === 0 ? (
        <StatusIndicator type="success">
          Nothing: no health issues of clusters, node groups and add-ons, and no instances and stacks that failed
        </StatusIndicator>
      ) : (
        <Problems found={found} />
      )}
    </Tile>
  );
}

function Problems({ found }: { found: Problem[] }) {
  return (
    <Table
      variant="embedded"
      wrapLines
      items={found}
      ariaLabels={{ tableLabel: "What is wrong" }}
      columnDefinitions={[
        { id: "of", header: "Resource", cell: (p) => <AppLink to={p.to}>{p.name}</AppLink>, isRowHeader: true },
        { id: "kind", header: "Type", cell: (p) => p.kind },
        { id: "code", header: "Issue", cell: (p) => <StatusIndicator type="error">{p.code}</StatusIndicator> },
        { id: "message", header: "Description", cell: (p) => (p.message === "" ? "-" : p.message) },
        {
          id: "resources",
          header: "Affected resources",
          cell: (p) => (p.resources.length === 0 ? "-" : p.resources.map((id) => <Box key={id}>{id}</Box>)),
        },
      ]}
    />
  );
}
