// The network that the map shows: what EC2, Elastic Load Balancing and the clusters of a VPC say, put together.
import type {
  EgressOnlyInternetGateway,
  Instance,
  InternetGateway,
  NatGateway,
  NetworkInterface,
  RouteTable,
  SecurityGroup,
  Subnet,
  Tag,
  Vpc,
  VpcEndpoint,
} from "@aws-sdk/client-ec2";

/** What EC2 and Elastic Load Balancing say of a region. */
export interface Facts {
  vpcs: Vpc[];
  subnets: Subnet[];
  routeTables: RouteTable[];
  internetGateways: InternetGateway[];
  egressOnlyGateways: EgressOnlyInternetGateway[];
  natGateways: NatGateway[];
  instances: Instance[];
  interfaces: NetworkInterface[];
  securityGroups: SecurityGroup[];
  endpoints: VpcEndpoint[];
  loadBalancers: LoadBalancer[];
}

/** A load balancer of any type. */
export interface LoadBalancer {
  /** The ARN; a Classic Load Balancer has its name. */
  id: string;
  name: string;
  /** As the descriptions of its network interfaces name it: "app/web/50dc6c495c0c9188". */
  path: string;
  type: string;
  state: string;
  scheme: string;
  dnsName: string;
  vpc: string;
  targets: Target[];
}

/** A target of a load balancer. The ID is that of an instance, or an IP address. */
export interface Target {
  id: string;
  port?: number;
  group: string;
  health: string;
  reason?: string;
}

/** A pod, as far as the map shows it. */
export interface Pod {
  uid: string;
  cluster: string;
  vpc: string;
  namespace: string;
  name: string;
  phase: string;
  node: string;
  ip: string;
}

/** An address of a network interface, and the pods behind it: many where they use the network of their node. */
export interface Address {
  ip: string;
  primary: boolean;
  pods: Pod[];
}

export interface Interface {
  id: string;
  type: string;
  description: string;
  status: string;
  publicIp?: string;
  securityGroups: { id: string; name: string }[];
  /** Secondary addresses of prefixes are those that pods have. */
  addresses: Address[];
  prefixes: string[];
}

export type CardKind =
  | "instance"
  | "fargate"
  | "cluster"
  | "load-balancer"
  | "nat-gateway"
  | "endpoint"
  | "interface";

/** Something in a subnet: an instance, or what has network interfaces of its own. */
export interface Card {
  id: string;
  kind: CardKind;
  title: string;
  /** Of an instance or a NAT gateway: "running". */
  state: string;
  interfaces: Interface[];
  pods: number;
}

export interface SubnetBox {
  id: string;
  name: string;
  cidr: string;
  routeTable?: RouteTable;
  /** Has a route to an internet gateway. */
  isPublic: boolean;
  cards: Card[];
}

export interface Zone {
  name: string;
  subnets: SubnetBox[];
}

export interface Gateway {
  id: string;
  name: string;
  type: "Internet gateway" | "Egress-only internet gateway" | "Gateway endpoint";
}

export interface Network {
  id: string;
  name: string;
  cidrs: string[];
  isDefault: boolean;
  zones: Zone[];
  gateways: Gateway[];
  loadBalancers: LoadBalancer[];
  routeTables: RouteTable[];
  securityGroups: SecurityGroup[];
}

/** NameOf returns the tag Name, or what stands in for it. */
export function nameOf(tags: Tag[] | undefined, otherwise: string): string {
  const name = tags?.find(({ Key }) => Key === "Name")?.Value;
  return name === undefined || name === "" ? otherwise : name;
}

/** AddressesOf returns the addresses of a prefix of IPv4: 16 of a /28. A larger block than a /24 has none. */
export function addressesOf(prefix: string): string[] {
  const [base = "", bits = ""] = prefix.split("/");
  const size = 2 ** (32 - Number(bits));
  const parts = base.split(".").map(Number);
  if (parts.length !== 4 || parts.some((n) => !(n >= 0 && n <= 255)) || !(size >= 1 && size <= 256)) return [];
  const first = parts.reduce((sum, part) => sum * 256 + part, 0);
  return Array.from({ length: size }, (_, i) =>
    [24, 16, 8, 0].map((shift) => Math.floor((first + i) / 2 ** shift) % 256).join("."),
  );
}

/** Networks returns the VPCs with all that is in them, the default VPC last. */
export function networksOf(facts: Facts, pods: Pod[]): Network[] {
  const podsAt = groupBy(
    pods.filter(({ ip }) => ip !== ""),
    ({ vpc, ip }) => `${vpc} ${ip}`,
  );
  const cards = cardsOf(facts, podsAt);
  const of = facts.vpcs.map((vpc) => networkOf(vpc, facts, cards));
  return of.sort((a, b) => Number(a.isDefault) - Number(b.isDefault) || a.name.localeCompare(b.name));
}

function networkOf(vpc: Vpc, facts: Facts, cards: Map<string, Card[]>): Network {
  const id = vpc.VpcId ?? "";
  const routeTables = facts.routeTables.filter(({ VpcId }) => VpcId === id);
  const zones = groupBy(
    facts.subnets.filter(({ VpcId }) => VpcId === id),
    ({ AvailabilityZone }) => AvailabilityZone ?? "",
  );
  const attached = (gateway: InternetGateway | EgressOnlyInternetGateway) =>
    gateway.Attachments?.some(({ VpcId }) => VpcId === id) === true;
  return {
    id,
    name: nameOf(vpc.Tags, id),
    cidrs: vpc.CidrBlockAssociationSet?.flatMap(({ CidrBlock }) => CidrBlock ?? []) ?? [vpc.CidrBlock ?? ""],
    isDefault: vpc.IsDefault === true,
    zones: [...zones]
      .map(([name, subnets]) => ({
        name,
        subnets: subnets
          .map((subnet) => subnetOf(subnet, routeTables, cards))
          .sort((a, b) => Number(b.isPublic) - Number(a.isPublic) || compareNames(a, b)),
      }))
      .sort(compareNames),
    gateways: [
      ...facts.internetGateways
        .filter(attached)
        .map((g) => gatewayOf(g.InternetGatewayId, g.Tags, "Internet gateway")),
      ...facts.egressOnlyGateways
        .filter(attached)
        .map((g) => gatewayOf(g.EgressOnlyInternetGatewayId, g.Tags, "Egress-only internet gateway")),
      ...facts.endpoints
        .filter(({ VpcId, VpcEndpointType }) => VpcId === id && VpcEndpointType === "Gateway")
        .map((e) => ({ ...gatewayOf(e.VpcEndpointId, e.Tags, "Gateway endpoint"), name: e.ServiceName ?? "" })),
    ],
    loadBalancers: facts.loadBalancers.filter((balancer) => balancer.vpc === id).sort(compareNames),
    routeTables,
    securityGroups: facts.securityGroups.filter(({ VpcId }) => VpcId === id),
  };
}

function gatewayOf(id: string | undefined, tags: Tag[] | undefined, type: Gateway["type"]): Gateway {
  return { id: id ?? "", name: nameOf(tags, id ?? ""), type };
}

function compareNames(a: { name: string }, b: { name: string }): number {
  return a.name.localeCompare(b.name, "en", { numeric: true });
}

function subnetOf(subnet: Subnet, routeTables: RouteTable[], cards: Map<string, Card[]>): SubnetBox {
  const id = subnet.SubnetId ?? "";
  const routeTable =
    routeTables.find(({ Associations }) => Associations?.some(({ SubnetId }) => SubnetId === id)) ??
    routeTables.find(({ Associations }) => Associations?.some(({ Main }) => Main));
  return {
    id,
    name: nameOf(subnet.Tags, id),
    cidr: subnet.CidrBlock ?? "",
    routeTable,
    isPublic: routeTable?.Routes?.some(({ GatewayId }) => GatewayId?.startsWith("igw-")) === true,
    cards: cards.get(id) ?? [],
  };
}

/** CardsOf returns the cards of each subnet. An instance is in the subnet of its first network interface. */
function cardsOf(facts: Facts, podsAt: Map<string, Pod[]>): Map<string, Card[]> {
  const cards = new Map<string, Card & { subnet: string }>();
  for (const instance of facts.instances) {
    const id = instance.InstanceId ?? "";
    const state = instance.State?.Name ?? "";
    if (state === "terminated" || instance.SubnetId === undefined) continue;
    const title = nameOf(instance.Tags, id);
    cards.set(id, { id, kind: "instance", title, state, interfaces: [], pods: 0, subnet: instance.SubnetId });
  }
  const inOrder = [...facts.interfaces].sort(
    (a, b) => (a.Attachment?.DeviceIndex ?? 0) - (b.Attachment?.DeviceIndex ?? 0),
  );
  for (const eni of inOrder) {
    const shown = interfaceOf(eni, podsAt);
    const owner = cards.get(eni.Attachment?.InstanceId ?? "") ?? ownerOf(eni, shown, facts);
    const card = cards.get(owner.id) ?? { ...owner, subnet: eni.SubnetId ?? "" };
    cards.set(card.id, card);
    card.interfaces.push(shown);
    card.pods += shown.addresses.reduce((sum, { pods }) => sum + pods.length, 0);
  }
  const order: CardKind[] = ["nat-gateway", "load-balancer", "cluster", "instance", "fargate", "endpoint", "interface"];
  const sorted = [...cards.values()].sort(
    (a, b) => order.indexOf(a.kind) - order.indexOf(b.kind) || a.title.localeCompare(b.title),
  );
  return groupBy(sorted, ({ subnet }) => subnet);
}

function interfaceOf(eni: NetworkInterface, podsAt: Map<string, Pod[]>): Interface {
  const podsOf = (ip: string) => podsAt.get(`${eni.VpcId ?? ""} ${ip}`) ?? [];
  const own = (eni.PrivateIpAddresses ?? []).map(({ PrivateIpAddress: ip = "", Primary }) => ({
    ip,
    primary: Primary === true,
    pods: podsOf(ip),
  }));
  const prefixes = eni.Ipv4Prefixes?.flatMap(({ Ipv4Prefix }) => Ipv4Prefix ?? []) ?? [];
  const within = prefixes
    .flatMap(addressesOf)
    .map((ip) => ({ ip, primary: false, pods: podsOf(ip) }))
    .filter(({ pods }) => pods.length > 0);
  return {
    id: eni.NetworkInterfaceId ?? "",
    type: eni.InterfaceType ?? "interface",
    description: eni.Description ?? "",
    status: eni.Status ?? "",
    publicIp: eni.Association?.PublicIp,
    securityGroups: (eni.Groups ?? []).map(({ GroupId = "", GroupName = "" }) => ({ id: GroupId, name: GroupName })),
    addresses: [...own.sort((a, b) => Number(b.primary) - Number(a.primary)), ...within],
    prefixes,
  };
}

/** OwnerOf returns the card of a network interface that no instance has. */
function ownerOf(eni: NetworkInterface, shown: Interface, facts: Facts): Card {
  const card = (id: string, kind: CardKind, title: string, state = ""): Card => ({
    id,
    kind,
    title,
    state,
    interfaces: [],
    pods: 0,
  });
  const nat = facts.natGateways.find(({ NatGatewayAddresses }) =>
    NatGatewayAddresses?.some(({ NetworkInterfaceId }) => NetworkInterfaceId === shown.id),
  );
  if (nat !== undefined) {
    const id = nat.NatGatewayId ?? "";
    return card(id, "nat-gateway", nameOf(nat.Tags, id), nat.State);
  }
  const endpoint = facts.endpoints.find(({ NetworkInterfaceIds }) => NetworkInterfaceIds?.includes(shown.id));
  // An interface endpoint has a network interface in each of its subnets: each has a card.
  if (endpoint !== undefined) return card(shown.id, "endpoint", endpoint.ServiceName ?? shown.id, endpoint.State);
  const [, path] = /^ELB (.+)$/.exec(shown.description) ?? [];
  if (path !== undefined) {
    const balancer = facts.loadBalancers.find((each) => each.path === path);
    return card(shown.id, "load-balancer", balancer?.name ?? path, balancer?.state);
  }
  const [, cluster] = /^Amazon EKS (.+)$/.exec(shown.description) ?? [];
  if (cluster !== undefined) return card(shown.id, "cluster", cluster);
  const pod = shown.addresses.flatMap(({ pods }) => pods).find(({ node }) => node.startsWith("fargate-"));
  if (pod !== undefined || eni.RequesterId === "amazon-eks-fargate") {
    return card(shown.id, "fargate", pod?.name ?? "Fargate", pod?.phase);
  }
  return card(shown.id, "interface", nameOf(eni.TagSet, shown.description === "" ? shown.id : shown.description));
}

/** LoadBalancerPath returns what descriptions of network interfaces say of a load balancer with an ARN. */
export function loadBalancerPath(arn: string): string {
  return arn.slice(arn.indexOf(":loadbalancer/") + ":loadbalancer/".length);
}

export function groupBy<T>(items: T[], keyOf: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [item]);
    else group.push(item);
  }
  return groups;
}
