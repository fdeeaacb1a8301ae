import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import KeyValuePairs from "@cloudscape-design/components/key-value-pairs";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Table from "@cloudscape-design/components/table";
import type { IpPermission } from "@aws-sdk/client-ec2";
import { awsCommand, type Command } from "../../commands/command";
import { AppLink } from "../../components/AppLink";
import { Copyable } from "../../components/Copyable";
import { ShowCommand } from "../../components/ShowCommand";
import { Status } from "../../components/Status";
import { useSession } from "../../session/SessionProvider";
import { pods as podResource } from "../../kubernetes/objects";
import { objectAddress } from "../resources/address";
import { kindNames } from "./colors";
import type { Interface, Pod } from "./network";
import { endText } from "./reachability";
import type { Thing } from "./things";

interface Props {
  thing: Thing;
  /** The address that is selected. */
  address?: string;
  onSelect: (id: string, address?: string) => void;
  onSource: (end: string) => void;
  onDestination: (end: string) => void;
}

/** Details shows what is known of a thing on the map. */
export function Details({ thing, address, onSelect, onSource, onDestination }: Props) {
  const { session } = useSession();
  const end = endOfThing(thing, address);
  return (
    <SpaceBetween size="m">
      <SpaceBetween direction="horizontal" size="xs">
        {end !== undefined && <Button onClick={() => onSource(end)}>Use as source</Button>}
        {end !== undefined && <Button onClick={() => onDestination(end)}>Use as destination</Button>}
        <ShowCommand commands={commandsOf(thing, session.region)} />
      </SpaceBetween>
      <KeyValuePairs columns={3} items={pairsOf(thing, address, onSelect)} />
      <Tables thing={thing} onSelect={onSelect} />
    </SpaceBetween>
  );
}

/** EndOfThing returns what a path of a packet begins or ends at; undefined for what cannot be one. */
function endOfThing(thing: Thing, address: string | undefined): string | undefined {
  switch (thing.type) {
    case "card":
      return thing.card.kind === "instance" ? thing.card.id : thing.card.interfaces[0]?.id;
    case "interface":
      return endText({ id: thing.eni.id, ip: address });
    case "gateway":
      return thing.gateway.type === "Internet gateway" ? thing.gateway.id : undefined;
    default:
      return undefined;
  }
}

interface Pair {
  label: string;
  value: React.ReactNode;
}

function pairsOf(thing: Thing, address: string | undefined, onSelect: Props["onSelect"]): Pair[] {
  const id = (label: string, text: string | undefined): Pair => ({
    label,
    value: <Copyable text={text} what={label} />,
  });
  const link = (label: string, to: string, text = to): Pair => ({
    label,
    value: <SelectLink text={text} onClick={() => onSelect(to)} />,
  });
  switch (thing.type) {
    case "vpc":
      return [
        id("VPC ID", thing.network.id),
        { label: "CIDR blocks", value: thing.network.cidrs.join(", ") },
        { label: "Default VPC", value: thing.network.isDefault ? "Yes" : "No" },
      ];
    case "subnet": {
      const table = thing.subnet.routeTable?.RouteTableId;
      return [
        id("Subnet ID", thing.subnet.id),
        { label: "IPv4 CIDR", value: thing.subnet.cidr },
        { label: "Availability Zone", value: thing.zone.name },
        table === undefined ? { label: "Route table", value: "-" } : link("Route table", table),
        { label: "Route to an internet gateway", value: thing.subnet.isPublic ? "Yes" : "No" },
      ];
    }
    case "card":
      return [
        id(thing.card.kind === "nat-gateway" ? "NAT gateway ID" : "Instance ID", thing.card.id),
        { label: "State", value: <Status status={thing.card.state} /> },
        link("Subnet", thing.subnet.id, thing.subnet.name),
      ];
    case "interface":
      return [
        id("Network interface ID", thing.eni.id),
        ...(address === undefined ? [] : [id("Selected address", address)]),
        ...(thing.card.kind === "instance"
          ? [link("Instance", thing.card.id, thing.card.title)]
          : [{ label: "Belongs to", value: `${kindNames[thing.card.kind]}: ${thing.card.title}` }]),
        link("Subnet", thing.subnet.id, thing.subnet.name),
        { label: "Type", value: thing.eni.type },
        { label: "Status", value: <Status status={thing.eni.status} /> },
        { label: "Description", value: thing.eni.description === "" ? "-" : thing.eni.description },
        { label: "Public IPv4 address", value: thing.eni.publicIp ?? "-" },
        { label: "IPv4 prefixes", value: thing.eni.prefixes.length === 0 ? "-" : thing.eni.prefixes.join(", ") },
        {
          label: "Security groups",
          value: thing.eni.securityGroups.map((group) => (
            <div key={group.id}>
              <SelectLink text={`${group.name} (${group.id})`} onClick={() => onSelect(group.id)} />
            </div>
          )),
        },
      ];
    case "gateway":
      return [
        id("ID", thing.gateway.id),
        { label: "Type", value: thing.gateway.type },
        link("VPC", thing.network.id, thing.network.name),
      ];
    case "load-balancer":
      return [
        id("DNS name", thing.balancer.dnsName),
        { label: "Type", value: thing.balancer.type },
        { label: "State", value: <Status status={thing.balancer.state} /> },
        { label: "Scheme", value: thing.balancer.scheme },
      ];
    case "route-table":
      return [
        id("Route table ID", thing.table.RouteTableId),
        { label: "Main", value: thing.table.Associations?.some(({ Main }) => Main) === true ? "Yes" : "No" },
        link("VPC", thing.network.id, thing.network.name),
      ];
    case "security-group":
      return [
        id("Security group ID", thing.group.GroupId),
        { label: "Description", value: thing.group.Description ?? "-" },
        link("VPC", thing.network.id, thing.network.name),
      ];
  }
}

/** SelectLink selects something else on the map. */
function SelectLink({ text, onClick }: { text: string; onClick: () => void }) {
  return (
    <Button variant="inline-link" onClick={onClick}>
      {text}
    </Button>
  );
}

function Tables({ thing, onSelect }: { thing: Thing; onSelect: Props["onSelect"] }) {
  switch (thing.type) {
    case "card":
      return thing.card.interfaces.map((eni) => <Addresses key={eni.id} eni={eni} onSelect={onSelect} />);
    case "interface":
      return <Addresses eni={thing.eni} onSelect={onSelect} />;
    case "route-table":
      return (
        <Table
          variant="embedded"
          header={<Box variant="h3">Routes</Box>}
          items={thing.table.Routes ?? []}
          columnDefinitions={[
            {
              id: "destination",
              header: "Destination",
              cell: (r) => r.DestinationCidrBlock ?? r.DestinationIpv6CidrBlock ?? r.DestinationPrefixListId ?? "-",
            },
            {
              id: "target",
              header: "Target",
              cell: (r) =>
                r.GatewayId ?? r.NatGatewayId ?? r.NetworkInterfaceId ?? r.EgressOnlyInternetGatewayId ?? "-",
            },
            { id: "state", header: "Status", cell: ({ State }) => <Status status={State} /> },
          ]}
        />
      );
    case "security-group":
      return (
        <SpaceBetween size="m">
          <Rules title="Inbound rules" rules={thing.group.IpPermissions ?? []} />
          <Rules title="Outbound rules" rules={thing.group.IpPermissionsEgress ?? []} />
        </SpaceBetween>
      );
    case "load-balancer":
      return (
        <Table
          variant="embedded"
          header={<Box variant="h3">Targets</Box>}
          items={thing.balancer.targets}
          empty="No targets are registered."
          columnDefinitions={[
            { id: "target", header: "Target", cell: ({ id }) => id },
            { id: "port", header: "Port", cell: ({ port }) => port ?? "-" },
            { id: "group", header: "Target group", cell: ({ group }) => (group === "" ? "-" : group) },
            { id: "health", header: "Health status", cell: ({ health }) => <Status status={health} /> },
            { id: "reason", header: "Details", cell: ({ reason }) => reason ?? "-" },
          ]}
        />
      );
    default:
      return null;
  }
}

function Rules({ title, rules }: { title: string; rules: IpPermission[] }) {
  return (
    <Table
      variant="embedded"
      header={<Box variant="h3">{title}</Box>}
      items={rules}
      empty="No rules."
      columnDefinitions={[
        { id: "protocol", header: "Protocol", cell: (r) => (r.IpProtocol === "-1" ? "All" : (r.IpProtocol ?? "-")) },
        { id: "ports", header: "Port range", cell: portText },
        { id: "peers", header: "Source or destination", cell: (rule) => peersOf(rule).join(", ") || "-" },
      ]}
      wrapLines
    />
  );
}

function portText({ FromPort, ToPort }: IpPermission): string {
  if (FromPort === undefined || FromPort === -1) return "All";
  return FromPort === ToPort ? `${FromPort}` : `${FromPort}-${ToPort ?? ""}`;
}

function peersOf({ IpRanges, Ipv6Ranges, UserIdGroupPairs, PrefixListIds }: IpPermission): string[] {
  return [
    ...(IpRanges ?? []).map(({ CidrIp }) => CidrIp ?? ""),
    ...(Ipv6Ranges ?? []).map(({ CidrIpv6 }) => CidrIpv6 ?? ""),
    ...(UserIdGroupPairs ?? []).map(({ GroupId }) => GroupId ?? ""),
    ...(PrefixListIds ?? []).map(({ PrefixListId }) => PrefixListId ?? ""),
  ];
}

function Addresses({ eni, onSelect }: { eni: Interface; onSelect: Props["onSelect"] }) {
  return (
    <Table
      variant="embedded"
      header={<Box variant="h3">Addresses of {eni.id}</Box>}
      items={eni.addresses}
      columnDefinitions={[
        {
          id: "address",
          header: "Private IPv4 address",
          cell: ({ ip }) => <SelectLink text={ip} onClick={() => onSelect(eni.id, ip)} />,
          width: 180,
        },
        { id: "primary", header: "Type", cell: ({ primary }) => (primary ? "Primary" : "Secondary"), width: 110 },
        { id: "pods", header: "Pods", cell: ({ pods }) => <Pods pods={pods} /> },
      ]}
      wrapLines
    />
  );
}

function Pods({ pods }: { pods: Pod[] }) {
  if (pods.length === 0) return <>-</>;
  return pods.map((pod) => (
    <div key={pod.uid}>
      <AppLink to={objectAddress(pod.cluster, podResource, pod)}>
        {pod.namespace}/{pod.name}
      </AppLink>{" "}
      <Status status={pod.phase} />
    </div>
  ));
}

function commandsOf(thing: Thing, region: string): Command[] {
  const ec2 = (what: string, option: string, id: string) => [
    awsCommand("ec2", `describe-${what}`, { [option]: [id] }, region),
  ];
  switch (thing.type) {
    case "vpc":
      return ec2("vpcs", "VpcIds", thing.network.id);
    case "subnet":
      return ec2("subnets", "SubnetIds", thing.subnet.id);
    case "card":
      return thing.card.kind === "nat-gateway"
        ? ec2("nat-gateways", "NatGatewayIds", thing.card.id)
        : ec2("instances", "InstanceIds", thing.card.id);
    case "interface":
      return ec2("network-interfaces", "NetworkInterfaceIds", thing.eni.id);
    case "gateway":
      if (thing.gateway.type === "Gateway endpoint") return ec2("vpc-endpoints", "VpcEndpointIds", thing.gateway.id);
      return thing.gateway.type === "Internet gateway"
        ? ec2("internet-gateways", "InternetGatewayIds", thing.gateway.id)
        : ec2("egress-only-internet-gateways", "EgressOnlyInternetGatewayIds", thing.gateway.id);
    case "route-table":
      return ec2("route-tables", "RouteTableIds", thing.table.RouteTableId ?? "");
    case "security-group":
      return ec2("security-groups", "GroupIds", thing.group.GroupId ?? "");
    case "load-balancer":
      return [
        thing.balancer.type === "Classic Load Balancer"
          ? awsCommand("elb", "describe-load-balancers", { LoadBalancerNames: [thing.balancer.name] }, region)
          : awsCommand("elbv2", "describe-load-balancers", { Names: [thing.balancer.name] }, region),
      ];
  }
}
