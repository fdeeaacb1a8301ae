// VPC Reachability Analyzer: what is asked, and what its answer says.
import {
  type AnalysisAclRule,
  type AnalysisComponent,
  type AnalysisRouteTableRoute,
  type AnalysisSecurityGroupRule,
  CreateNetworkInsightsPathCommand,
  type CreateNetworkInsightsPathCommandInput,
  DeleteNetworkInsightsAnalysisCommand,
  DeleteNetworkInsightsPathCommand,
  DescribeNetworkInsightsAnalysesCommand,
  type EC2Client,
  type Explanation,
  type NetworkInsightsAnalysis,
  type PathComponent,
  StartNetworkInsightsAnalysisCommand,
} from "@aws-sdk/client-ec2";
import { assigned, awsCommand, type Command, inTurn, Variable } from "../../commands/command";

/** An end of a path: a resource, one of its addresses, or an address alone (without an ID). */
export interface End {
  id?: string;
  ip?: string;
}

export interface Question {
  source: End;
  destination: End;
  protocol: "tcp" | "udp";
  /** Undefined for any. */
  port?: number;
}

/** EndText returns an end as people read it: "eni-0a1b, 10.0.0.7". */
export function endText(end: End | undefined): string {
  return [end?.id, end?.ip].filter((part) => part !== undefined).join(", ");
}

/** EndOf returns what somebody entered: an address, or an ID with or without an address. */
export function endOf(text: string): End | undefined {
  const [, id, ip] = /^\s*([a-z]+-[0-9a-z-]+)?[\s,]*(\d+\.\d+\.\d+\.\d+)?\s*$/.exec(text) ?? [];
  return id === undefined && ip === undefined ? undefined : { id, ip };
}

/** PathInput returns the request for a path. */
export function pathInput({ source, destination, protocol, port }: Question): CreateNetworkInsightsPathCommandInput {
  return {
    Source: source.id,
    SourceIp: source.ip,
    Destination: destination.id,
    DestinationIp: destination.ip,
    Protocol: protocol,
    DestinationPort: port,
  };
}

/** AnalysisCommand returns the commands that ask the same, and delete what they made. */
export function analysisCommand(question: Question, region: string): Command {
  const [path, analysis] = [new Variable("path"), new Variable("analysis")];
  const ec2 = (operation: string, input: object) => awsCommand("ec2", operation, input, region);
  const create = { query: "NetworkInsightsPath.NetworkInsightsPathId", output: "text" };
  const start = { query: "NetworkInsightsAnalysis.NetworkInsightsAnalysisId", output: "text" };
  return inTurn(
    assigned(path, ec2("create-network-insights-path", { ...pathInput(question), ...create })),
    assigned(analysis, ec2("start-network-insights-analysis", { NetworkInsightsPathId: path, ...start })),
    ec2("describe-network-insights-analyses", { NetworkInsightsAnalysisIds: [analysis] }),
    ec2("delete-network-insights-analysis", { NetworkInsightsAnalysisId: analysis }),
    ec2("delete-network-insights-path", { NetworkInsightsPathId: path }),
  );
}

/** How often an analysis that runs is asked for, in milliseconds. */
const pollInterval = 250;

/** Analyze asks whether a packet gets through. The path and the analysis are deleted, also when it is aborted. */
export async function analyze(
  client: EC2Client,
  question: Question,
  signal: AbortSignal,
): Promise<NetworkInsightsAnalysis> {
  const created = await client.send(new CreateNetworkInsightsPathCommand(pathInput(question)));
  const NetworkInsightsPathId = created.NetworkInsightsPath?.NetworkInsightsPathId;
  try {
    const started = await client.send(new StartNetworkInsightsAnalysisCommand({ NetworkInsightsPathId }));
    const NetworkInsightsAnalysisId = started.NetworkInsightsAnalysis?.NetworkInsightsAnalysisId ?? "";
    try {
      for (;;) {
        signal.throwIfAborted();
        const command = new DescribeNetworkInsightsAnalysesCommand({
          NetworkInsightsAnalysisIds: [NetworkInsightsAnalysisId],
        });
        const [analysis] = (await client.send(command)).NetworkInsightsAnalyses ?? [];
        if (analysis === undefined) throw new Error(`the analysis ${NetworkInsightsAnalysisId} was deleted`);
        if (analysis.Status === "failed") throw new Error(analysis.StatusMessage ?? "the analysis failed");
        if (analysis.Status === "succeeded") return analysis;
        await new Promise((resolve) => setTimeout(resolve, pollInterval));
      }
    } finally {
      await client.send(new DeleteNetworkInsightsAnalysisCommand({ NetworkInsightsAnalysisId }));
    }
  } finally {
    await client.send(new DeleteNetworkInsightsPathCommand({ NetworkInsightsPathId }));
  }
}

/** What explains or decides, as far as a component and an explanation have it in common. */
interface Deciding {
  SecurityGroupRule?: AnalysisSecurityGroupRule;
  AclRule?: AnalysisAclRule;
  RouteTableRoute?: AnalysisRouteTableRoute;
}

/** RulesOf returns the rules and the route of a component of a path, or of an explanation. */
export function rulesOf({ SecurityGroupRule: rule, AclRule: acl, RouteTableRoute: route }: Deciding): string[] {
  const rules: string[] = [];
  if (route !== undefined) {
    const target =
      route.GatewayId ??
      route.NatGatewayId ??
      route.NetworkInterfaceId ??
      route.InstanceId ??
      route.EgressOnlyInternetGatewayId ??
      "nothing";
    rules.push(`Route ${route.DestinationCidr ?? route.DestinationPrefixListId ?? ""} to ${target}`);
  }
  if (acl !== undefined) {
    const effect = acl.RuleAction === "allow" ? "allows" : "denies";
    const direction = acl.Egress === true ? "outbound" : "inbound";
    const number = acl.RuleNumber === 32767 ? "*" : String(acl.RuleNumber ?? "");
    const what = trafficText(acl.Protocol, acl.PortRange, acl.Cidr);
    rules.push(`Network ACL rule ${number} (${direction}) ${effect} ${what}`);
  }
  if (rule !== undefined) {
    const direction = rule.Direction === "egress" ? "outbound" : "inbound";
    const peer = rule.SecurityGroupId ?? rule.PrefixListId ?? rule.Cidr;
    rules.push(`Security group rule (${direction}) allows ${trafficText(rule.Protocol, rule.PortRange, peer)}`);
  }
  return rules;
}

function trafficText(
  protocol: string | undefined,
  ports: { From?: number; To?: number } | undefined,
  peer: string | undefined,
): string {
  const names: Record<string, string> = { "-1": "all traffic", "6": "tcp", "17": "udp", "1": "icmp" };
  const parts = [names[protocol ?? "-1"] ?? protocol];
  if (ports?.From !== undefined) parts.push(portsText(ports));
  if (peer !== undefined) parts.push(`with ${peer}`);
  return parts.join(" ");
}

function portsText({ From, To }: { From?: number; To?: number }): string {
  return From === To ? `${From ?? ""}` : `${From ?? ""}-${To ?? ""}`;
}

/** ComponentText returns the name of a component with its ID. */
export function componentText(component: AnalysisComponent | undefined): string {
  const id = component?.Id ?? component?.Arn ?? "";
  const name = component?.Name;
  return name === undefined || name === "" || name === id ? id : `${name} (${id})`;
}

/** HeaderText returns the addresses and ports of the packet behind a component: "10.0.0.7 to 10.0.1.9:443". */
export function headerText({ OutboundHeader, InboundHeader }: PathComponent): string {
  const header = OutboundHeader ?? InboundHeader;
  if (header === undefined) return "";
  const { SourceAddresses = [], DestinationAddresses = [], DestinationPortRanges: ports = [] } = header;
  const port = ports.map(portsText).join(", ");
  const to = DestinationAddresses.join(", ");
  return `${SourceAddresses.join(", ")} to ${to}${port === "" ? "" : `:${port}`}`;
}

// https://docs.aws.amazon.com/vpc/latest/reachability/explanation-codes.html
const meanings: Record<string, string> = {
  ENI_SG_RULES_MISMATCH: "No rule of the security groups allows the packet",
  SG_HAS_NO_RULES: "The security group has no rules",
  SUBNET_ACL_RESTRICTION: "A network ACL denies the packet or its answer",
  NO_ROUTE_TO_DESTINATION: "The route table has no route to the destination",
  BAD_STATE_ROUTE: "The target of the route is gone or detached",
  NO_POSSIBLE_DESTINATION: "Nothing has the address, or the packet ends elsewhere",
  ENI_SOURCE_DEST_CHECK_RESTRICTION: "The source/destination check drops packets of other addresses",
  IGW_PUBLIC_IP_ASSOCIATION_FOR_EGRESS: "The network interface has no public address to leave the VPC with",
  IGW_PRIVATE_IP_ASSOCIATION_FOR_INGRESS: "No network interface has the public address",
  IGW_NAT_REFLECTION: "The packet or its answer leaves the VPC by an internet gateway before its destination",
  ELBV2_LISTENERS_MISMATCH: "The load balancer does not listen there",
  ELB_LISTENERS_MISMATCH: "The load balancer does not listen there",
  BAD_STATE: "The resource does not run",
  BAD_STATE_ATTACHMENT: "The resource is attached to nothing",
  COMPONENT_FILTER_RESTRICTION: "The filters of the analysis exclude the way",
};

/** MeaningOf returns what an explanation says, in words. */
export function meaningOf({ ExplanationCode: code = "", Direction }: Explanation): string {
  const meaning = meanings[code] ?? code;
  if (Direction === undefined || Direction === "") return meaning;
  return `${meaning} (${Direction === "egress" ? "outbound" : "inbound"})`;
}

/** PlacesOf returns the resources that an explanation is about. */
export function placesOf(explanation: Explanation): string[] {
  const { Component, SecurityGroup, SecurityGroups, Acl, RouteTable, Subnet, Vpc, NetworkInterface } = explanation;
  const groups = [SecurityGroup, ...(SecurityGroups ?? [])];
  const components = [Component, NetworkInterface, ...groups, Acl, RouteTable, Subnet, Vpc];
  return [...new Set(components.map(componentText).filter((text) => text !== ""))];
}

/** WayOf returns what a packet passes, in order, without the rules and tables that let it pass. */
export function wayOf(analysis: NetworkInsightsAnalysis | undefined): string[] {
  const ids = (analysis?.ForwardPathComponents ?? []).flatMap(({ Component }) => Component?.Id ?? []);
  return ids.filter((id) => !/^(sg|acl|rtb)-/.test(id));
}

/** IdsOf returns the resources of an analysis, which the map marks. */
export function idsOf(analysis: NetworkInsightsAnalysis | undefined): string[] {
  const components = [
    ...(analysis?.ForwardPathComponents ?? []).flatMap((c) => [c.Component, c.Subnet, c.AttachedTo]),
    ...(analysis?.Explanations ?? []).flatMap((e) => [e.Component, e.NetworkInterface, e.RouteTable, e.SecurityGroup]),
  ];
  return [...new Set(components.flatMap((component) => component?.Id ?? []))];
}
