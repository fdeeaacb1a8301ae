// What can be selected on the map, and what belongs to it.
import type { RouteTable, SecurityGroup } from "@aws-sdk/client-ec2";
import type { Card, Gateway, Interface, LoadBalancer, Network, SubnetBox, Zone } from "./network";

export type Thing =
  | { type: "vpc"; network: Network }
  | { type: "subnet"; subnet: SubnetBox; zone: Zone }
  | { type: "card"; card: Card; subnet: SubnetBox }
  | { type: "interface"; eni: Interface; card: Card; subnet: SubnetBox }
  | { type: "gateway"; gateway: Gateway; network: Network }
  | { type: "load-balancer"; balancer: LoadBalancer }
  | { type: "route-table"; table: RouteTable; network: Network }
  | { type: "security-group"; group: SecurityGroup; network: Network };

/** ThingsOf returns all that can be selected, by ID. */
export function thingsOf(networks: Network[]): Map<string, Thing> {
  const things = new Map<string, Thing>();
  for (const network of networks) {
    things.set(network.id, { type: "vpc", network });
    for (const gateway of network.gateways) things.set(gateway.id, { type: "gateway", gateway, network });
    for (const balancer of network.loadBalancers) things.set(balancer.id, { type: "load-balancer", balancer });
    for (const table of network.routeTables) {
      things.set(table.RouteTableId ?? "", { type: "route-table", table, network });
    }
    for (const group of network.securityGroups) {
      things.set(group.GroupId ?? "", { type: "security-group", group, network });
    }
    for (const zone of network.zones) {
      for (const subnet of zone.subnets) {
        things.set(subnet.id, { type: "subnet", subnet, zone });
        for (const card of subnet.cards) {
          for (const eni of card.interfaces) things.set(eni.id, { type: "interface", eni, card, subnet });
          if (card.id !== card.interfaces[0]?.id) things.set(card.id, { type: "card", card, subnet });
        }
      }
    }
  }
  return things;
}

/** TitleOf returns what a thing is called, and what it is. */
export function titleOf(thing: Thing): { title: string; what: string } {
  switch (thing.type) {
    case "vpc":
      return { title: thing.network.name, what: "VPC" };
    case "subnet":
      return { title: thing.subnet.name, what: "Subnet" };
    case "card":
      return { title: thing.card.title, what: thing.card.kind === "nat-gateway" ? "NAT gateway" : "Instance" };
    case "interface":
      return { title: thing.eni.id, what: "Network interface" };
    case "gateway":
      return { title: thing.gateway.name, what: thing.gateway.type };
    case "load-balancer":
      return { title: thing.balancer.name, what: thing.balancer.type };
    case "route-table":
      return { title: thing.table.RouteTableId ?? "", what: "Route table" };
    case "security-group":
      return { title: thing.group.GroupName ?? "", what: "Security group" };
  }
}

/** RelatedTo returns what belongs to a thing: targets of a load balancer, what a security group applies to. */
export function relatedTo(thing: Thing | undefined, things: Map<string, Thing>): Set<string> {
  const related = new Set<string>();
  const all = [...things.values()];
  const addRoutes = (table: RouteTable | undefined) => {
    if (table?.RouteTableId !== undefined) related.add(table.RouteTableId);
    for (const { GatewayId, NatGatewayId, NetworkInterfaceId } of table?.Routes ?? []) {
      for (const id of [GatewayId, NatGatewayId, NetworkInterfaceId]) if (id !== undefined) related.add(id);
    }
  };
  switch (thing?.type) {
    case "subnet":
      addRoutes(thing.subnet.routeTable);
      break;
    case "card":
    case "interface": {
      addRoutes(thing.subnet.routeTable);
      for (const eni of thing.card.interfaces) for (const { id } of eni.securityGroups) related.add(id);
      for (const each of all) {
        if (each.type !== "load-balancer") continue;
        const targets = cardsOfTargets(each.balancer);
        if (targets(thing.card)) related.add(each.balancer.id);
      }
      break;
    }
    case "route-table":
      addRoutes(thing.table);
      for (const each of all) {
        if (each.type === "subnet" && each.subnet.routeTable === thing.table) related.add(each.subnet.id);
      }
      break;
    case "gateway":
      for (const each of all) {
        if (each.type !== "route-table" || each.table.Routes?.every((r) => r.GatewayId !== thing.gateway.id)) continue;
        related.add(each.table.RouteTableId ?? "");
      }
      break;
    case "security-group":
      for (const each of all) {
        if (each.type !== "interface") continue;
        if (each.eni.securityGroups.some(({ id }) => id === thing.group.GroupId)) related.add(each.eni.id);
      }
      break;
    case "load-balancer": {
      const targets = cardsOfTargets(thing.balancer);
      for (const each of all) {
        if (each.type !== "interface") continue;
        if (each.eni.description === `ELB ${thing.balancer.path}`) related.add(each.eni.id);
        if (targets(each.card)) related.add(each.card.id);
      }
    }
  }
  return related;
}

/** CardsOfTargets returns whether a card has a target of a load balancer. */
function cardsOfTargets({ targets }: LoadBalancer): (card: Card) => boolean {
  const ids = new Set(targets.map(({ id }) => id));
  return (card) =>
    ids.has(card.id) || card.interfaces.some(({ addresses }) => addresses.some(({ ip }) => ids.has(ip)));
}
