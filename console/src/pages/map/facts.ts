// What the map reads: EC2, Elastic Load Balancing, and the pods of clusters.
import {
  EC2Client,
  type NetworkInterface,
  paginateDescribeEgressOnlyInternetGateways,
  paginateDescribeInstances,
  paginateDescribeInternetGateways,
  paginateDescribeNatGateways,
  paginateDescribeNetworkInterfaces,
  paginateDescribeRouteTables,
  paginateDescribeSecurityGroups,
  paginateDescribeSubnets,
  paginateDescribeVpcEndpoints,
  paginateDescribeVpcs,
} from "@aws-sdk/client-ec2";
import {
  DescribeInstanceHealthCommand,
  ElasticLoadBalancingClient,
  paginateDescribeLoadBalancers as paginateDescribeClassicLoadBalancers,
} from "@aws-sdk/client-elastic-load-balancing";
import {
  DescribeTargetHealthCommand,
  ElasticLoadBalancingV2Client,
  paginateDescribeLoadBalancers,
  paginateDescribeTargetGroups,
  type TargetGroup,
} from "@aws-sdk/client-elastic-load-balancing-v2";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useClient } from "../../aws/client";
import { describeEach } from "../../aws/describe";
import { awsKey, slow, useAwsPages } from "../../aws/queries";
import { awsCommand, type Command, eachInTurn, kubectlCommand, Variable } from "../../commands/command";
import { useSession } from "../../session/SessionProvider";
import { addressesOf, type Facts, loadBalancerPath, type LoadBalancer, type Pod, type Target } from "./network";

const soon = slow / 2;
const each = 20;

/** PollOf returns when a list is read again: a long one, which takes the browser and the daemon longer, later. */
export function pollOf(length: number): number {
  return Math.max(soon, each * length);
}

const live = { poll: (answer?: unknown[]) => pollOf(answer?.length ?? 0) };

/** The network of the region. What cannot be read is missing, and its error says why. */
export interface Read {
  /** Undefined until all has been read once. */
  facts?: Facts;
  errors: { attempted: string; error: Error }[];
  retry: () => void;
}

/** Addresses returns those of network interfaces, prefixes among them, by "VPC address". */
const addressesIn = new WeakMap<NetworkInterface[], Set<string>>();
function addresses(interfaces: NetworkInterface[]): Set<string> {
  const known = addressesIn.get(interfaces);
  if (known !== undefined) return known;
  const found = new Set<string>();
  for (const { VpcId: vpc = "", PrivateIpAddresses = [], Ipv4Prefixes = [] } of interfaces) {
    for (const { PrivateIpAddress: ip = "" } of PrivateIpAddresses) found.add(`${vpc} ${ip}`);
    for (const { Ipv4Prefix = "" } of Ipv4Prefixes) for (const ip of addressesOf(Ipv4Prefix)) found.add(`${vpc} ${ip}`);
  }
  addressesIn.set(interfaces, found);
  return found;
}

/** HasStrangers reports whether a pod has an address that no network interface has: nodes come, which EC2 tells of. */
export function hasStrangers(interfaces: NetworkInterface[], pods: Pod[]): boolean {
  const known = addresses(interfaces);
  return pods.some(({ vpc, ip }) => !known.has(`${vpc} ${ip}`));
}

/** UseFacts reads the network of the region again and again: soon, where pods are behind addresses that are new. */
export function useFacts(pods: Pod[]): Read {
  const vpcs = useAwsPages(EC2Client, paginateDescribeVpcs, {}, (page) => page.Vpcs, live);
  const subnets = useAwsPages(EC2Client, paginateDescribeSubnets, {}, (page) => page.Subnets, live);
  const routeTables = useAwsPages(EC2Client, paginateDescribeRouteTables, {}, (page) => page.RouteTables, live);
  const internetGateways = useAwsPages(
    EC2Client,
    paginateDescribeInternetGateways,
    {},
    (page) => page.InternetGateways,
    live,
  );
  const egressOnlyGateways = useAwsPages(
    EC2Client,
    paginateDescribeEgressOnlyInternetGateways,
    {},
    (page) => page.EgressOnlyInternetGateways,
    live,
  );
  const natGateways = useAwsPages(EC2Client, paginateDescribeNatGateways, {}, (page) => page.NatGateways, live);
  const interfaces = useAwsPages(
    EC2Client,
    paginateDescribeNetworkInterfaces,
    {},
    (page) => page.NetworkInterfaces,
    { poll: (answer = []) => (hasStrangers(answer, pods) ? soon : pollOf(answer.length)) },
  );
  const strangers = useMemo(() => hasStrangers(interfaces.data ?? [], pods), [interfaces.data, pods]);
  const instances = useAwsPages(
    EC2Client,
    paginateDescribeInstances,
    {},
    (page) => page.Reservations?.flatMap(({ Instances }) => Instances ?? []),
    strangers ? { poll: soon } : live,
  );
  const securityGroups = useAwsPages(
    EC2Client,
    paginateDescribeSecurityGroups,
    {},
    (page) => page.SecurityGroups,
    live,
  );
  const endpoints = useAwsPages(EC2Client, paginateDescribeVpcEndpoints, {}, (page) => page.VpcEndpoints, live);
  const balancers = useLoadBalancers();
  const classic = useClassicLoadBalancers();

  const queries = {
    "VPCs": vpcs,
    "subnets": subnets,
    "route tables": routeTables,
    "internet gateways": internetGateways,
    "egress-only internet gateways": egressOnlyGateways,
    "NAT gateways": natGateways,
    "instances": instances,
    "network interfaces": interfaces,
    "security groups": securityGroups,
    "VPC endpoints": endpoints,
    "load balancers": balancers,
    "Classic Load Balancers": classic,
  };
  const all = Object.entries(queries);
  const pending = all.some(([, query]) => query.isPending);
  const facts = useMemo<Facts | undefined>(
    () =>
      pending
        ? undefined
        : {
            vpcs: vpcs.data ?? [],
            subnets: subnets.data ?? [],
            routeTables: routeTables.data ?? [],
            internetGateways: internetGateways.data ?? [],
            egressOnlyGateways: egressOnlyGateways.data ?? [],
            natGateways: natGateways.data ?? [],
            instances: instances.data ?? [],
            interfaces: interfaces.data ?? [],
            securityGroups: securityGroups.data ?? [],
            endpoints: endpoints.data ?? [],
            loadBalancers: [...(balancers.data ?? []), ...(classic.data ?? [])],
          },
    [
      pending,
      vpcs.data,
      subnets.data,
      routeTables.data,
      internetGateways.data,
      egressOnlyGateways.data,
      natGateways.data,
      instances.data,
      interfaces.data,
      securityGroups.data,
      endpoints.data,
      balancers.data,
      classic.data,
    ],
  );
  return {
    facts,
    errors: all.flatMap(([what, { error }]) => (error === null ? [] : [{ attempted: `Describe ${what}`, error }])),
    retry: () => {
      for (const [, query] of all) if (query.error !== null) void query.refetch();
    },
  };
}

/** UseLoadBalancers reads Application and Network Load Balancers with the targets of their target groups. */
function useLoadBalancers() {
  const client = useClient(ElasticLoadBalancingV2Client);
  const { session } = useSession();
  return useQuery<LoadBalancer[]>({
    queryKey: [...awsKey(ElasticLoadBalancingV2Client, useLoadBalancers), session.region],
    queryFn: async ({ signal }) => {
      const balancers: LoadBalancer[] = [];
      for await (const page of paginateDescribeLoadBalancers({ client }, {})) {
        for (const each of page.LoadBalancers ?? []) {
          const id = each.LoadBalancerArn ?? "";
          balancers.push({
            id,
            name: each.LoadBalancerName ?? "",
            path: loadBalancerPath(id),
            type: each.Type === "network" ? "Network Load Balancer" : "Application Load Balancer",
            state: each.State?.Code ?? "",
            scheme: each.Scheme ?? "",
            dnsName: each.DNSName ?? "",
            vpc: each.VpcId ?? "",
            targets: [],
          });
        }
      }
      const groups: TargetGroup[] = [];
      for await (const page of paginateDescribeTargetGroups({ client }, {})) groups.push(...(page.TargetGroups ?? []));
      const used = groups.filter(({ LoadBalancerArns }) => (LoadBalancerArns?.length ?? 0) > 0);
      const described = await describeEach(
        used,
        async (group) => {
          const command = new DescribeTargetHealthCommand({ TargetGroupArn: group.TargetGroupArn });
          const { TargetHealthDescriptions = [] } = await client.send(command, { abortSignal: signal });
          const targets = TargetHealthDescriptions.map<Target>(({ Target: target, TargetHealth: health }) => ({
            id: target?.Id ?? "",
            port: target?.Port,
            group: group.TargetGroupName ?? "",
            health: health?.State ?? "",
            reason: health?.Description,
          }));
          return { group, targets };
        },
        signal,
      );
      for (const { group, targets } of described) {
        for (const balancer of balancers) {
          if (group.LoadBalancerArns?.includes(balancer.id) === true) balancer.targets.push(...targets);
        }
      }
      return balancers;
    },
    refetchInterval: slow,
  });
}

/** UseClassicLoadBalancers reads Classic Load Balancers with their instances. */
function useClassicLoadBalancers() {
  const client = useClient(ElasticLoadBalancingClient);
  const { session } = useSession();
  return useQuery<LoadBalancer[]>({
    queryKey: [...awsKey(ElasticLoadBalancingClient, useClassicLoadBalancers), session.region],
    queryFn: async ({ signal }) => {
      const found = [];
      for await (const page of paginateDescribeClassicLoadBalancers({ client }, {})) {
        found.push(...(page.LoadBalancerDescriptions ?? []));
      }
      return describeEach(
        found,
        async (each) => {
          const name = each.LoadBalancerName ?? "";
          const command = new DescribeInstanceHealthCommand({ LoadBalancerName: name });
          const { InstanceStates = [] } = await client.send(command, { abortSignal: signal });
          return {
            id: name,
            name,
            path: name,
            type: "Classic Load Balancer",
            state: "active",
            scheme: each.Scheme ?? "",
            dnsName: each.DNSName ?? "",
            vpc: each.VPCId ?? "",
            targets: InstanceStates.map((state) => ({
              id: state.InstanceId ?? "",
              group: "",
              health: state.State ?? "",
              reason: state.Description,
            })),
          };
        },
        signal,
      );
    },
    refetchInterval: slow,
  });
}

/** MapCommands returns the commands that print what the map shows. */
export function mapCommands(region: string, clusters: string[]): Command[] {
  const ec2 = [
    "vpcs",
    "subnets",
    "route-tables",
    "internet-gateways",
    "egress-only-internet-gateways",
    "nat-gateways",
    "instances",
    "network-interfaces",
    "security-groups",
    "vpc-endpoints",
  ].map((what) => awsCommand("ec2", `describe-${what}`, {}, region));
  const balancing = [
    ["elbv2", "describe-load-balancers"],
    ["elbv2", "describe-target-groups"],
    ["elb", "describe-load-balancers"],
  ].map(([service = "", operation = ""]) => awsCommand(service, operation, {}, region));
  const [group, balancer] = [new Variable("TARGET_GROUP_ARN"), new Variable("LOAD_BALANCER_NAME")];
  const health = [
    awsCommand("elbv2", "describe-target-health", { TargetGroupArn: group }, region),
    awsCommand("elb", "describe-instance-health", { LoadBalancerName: balancer }, region),
  ];
  const pods = clusters.map((name) => kubectlCommand(name, "get", "pods", "-A", "-o", "wide", "--watch"));
  return [...eachInTurn([...ec2, ...balancing, ...health]), ...eachInTurn(pods)];
}
