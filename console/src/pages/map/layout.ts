// Where everything is on the map. Lengths are in units of the map: pixels, when it is not zoomed.
import type { Card, Interface, Network, SubnetBox } from "./network";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface PlacedCard extends Box {
  card: Card;
}

export interface PlacedSubnet extends Box {
  subnet: SubnetBox;
  cards: PlacedCard[];
}

export interface PlacedZone extends Box {
  name: string;
  subnets: PlacedSubnet[];
}

/** A small box in a row above or below the zones: a gateway, a load balancer, a route table, a security group. */
export interface PlacedChip extends Box {
  id: string;
  kind: "gateway" | "load-balancer" | "route-table" | "security-group";
  title: string;
  subtitle: string;
}

export interface PlacedNetwork extends Box {
  network: Network;
  zones: PlacedZone[];
  chips: PlacedChip[];
}

export interface Layout extends Box {
  networks: PlacedNetwork[];
  /** The box of each thing, by its ID. */
  boxes: Map<string, Box>;
}

const gap = 12;
export const padding = 16;
/** Titles of boxes. */
export const titleHeight = 44;
export const cardWidth = 190;
export const cardTitle = 38;
export const interfaceTitle = 16;
/** A dot stands for an address. */
export const dotPitch = 11;
export const dotsPerRow = 16;
const chipWidth = 190;
const chipHeight = 40;
/** Cards of a subnet fill a box of about this shape, width to height. */
const shape = 1;

/** CardHeight returns the height of a card: a title, and for each network interface a title and rows of dots. */
export function cardHeight(card: Card): number {
  const rows = card.interfaces.reduce((sum, eni) => sum + interfaceHeight(eni), 0);
  return cardTitle + rows + (rows === 0 ? 0 : 8);
}

/** InterfaceHeight returns the height of a network interface in its card. */
export function interfaceHeight({ addresses }: Interface): number {
  return interfaceTitle + Math.ceil(addresses.length / dotsPerRow) * dotPitch;
}

/** DotAt returns the center of the dot of an address, from the upper left corner of its network interface. */
export function dotAt(index: number): { x: number; y: number } {
  return {
    x: 15 + (index % dotsPerRow) * dotPitch,
    y: interfaceTitle + Math.floor(index / dotsPerRow) * dotPitch + dotPitch / 2 - 2,
  };
}

/** LayOut places networks beside each other. */
export function layOut(networks: Network[]): Layout {
  const boxes = new Map<string, Box>();
  const placed: PlacedNetwork[] = [];
  let x = 0;
  let height = 0;
  for (const network of networks) {
    const at = placeNetwork(network, x, boxes);
    placed.push(at);
    x += at.width + 4 * gap;
    height = Math.max(height, at.height);
  }
  return { x: 0, y: 0, width: Math.max(0, x - 4 * gap), height, networks: placed, boxes };
}

function placeNetwork(network: Network, x: number, boxes: Map<string, Box>): PlacedNetwork {
  const columns = network.zones.map(({ subnets }) => Math.max(1, ...subnets.map(columnsOf)));
  const widths = columns.map((n) => n * (cardWidth + gap) - gap + 4 * padding);
  const zonesWidth = widths.reduce((sum, width) => sum + width + gap, -gap);
  const width = Math.max(zonesWidth, 2 * (chipWidth + gap) - gap) + 2 * padding;
  const chips: PlacedChip[] = [];
  let y = titleHeight + padding;
  const place = (row: Omit<PlacedChip, keyof Box>[]) => {
    const perRow = Math.max(1, Math.floor((width - 2 * padding + gap) / (chipWidth + gap)));
    row.forEach((chip, i) => {
      const at = {
        x: x + padding + (i % perRow) * (chipWidth + gap),
        y: y + Math.floor(i / perRow) * (chipHeight + gap),
        width: chipWidth,
        height: chipHeight,
      };
      chips.push({ ...chip, ...at });
      boxes.set(chip.id, at);
    });
    if (row.length > 0) y += Math.ceil(row.length / perRow) * (chipHeight + gap) + gap;
  };
  place([
    ...network.gateways.map(({ id, name, type }) => ({
      id,
      kind: "gateway" as const,
      title: name,
      subtitle: type,
    })),
    ...network.loadBalancers.map(({ id, name, type, targets }) => ({
      id,
      kind: "load-balancer" as const,
      title: name,
      subtitle: `${type}, ${count(targets.length, "target")}`,
    })),
  ]);
  const top = y;
  let zoneX = x + padding;
  let zonesHeight = 0;
  const zones = network.zones.map(({ name, subnets }, i) => {
    const zoneWidth = widths[i] ?? 0;
    const zone: PlacedZone = { name, x: zoneX, y: top, width: zoneWidth, height: 0, subnets: [] };
    let subnetY = top + titleHeight;
    for (const subnet of subnets) {
      const placed = placeSubnet(subnet, zoneX + padding, subnetY, zoneWidth - 2 * padding, columns[i] ?? 1, boxes);
      zone.subnets.push(placed);
      subnetY += placed.height + gap;
    }
    zone.height = subnetY - top;
    zonesHeight = Math.max(zonesHeight, zone.height);
    zoneX += zoneWidth + gap;
    return zone;
  });
  for (const zone of zones) zone.height = zonesHeight;
  y = top + zonesHeight + (zones.length === 0 ? 0 : padding);
  place(
    network.routeTables.map((table) => ({
      id: table.RouteTableId ?? "",
      kind: "route-table" as const,
      title: table.Tags?.find(({ Key }) => Key === "Name")?.Value ?? table.RouteTableId ?? "",
      subtitle: `Route table, ${count(table.Routes?.length ?? 0, "route")}`,
    })),
  );
  place(
    network.securityGroups.map((group) => ({
      id: group.GroupId ?? "",
      kind: "security-group" as const,
      title: group.GroupName ?? "",
      subtitle: `Security group, ${count(group.IpPermissions?.length ?? 0, "inbound rule")}`,
    })),
  );
  const box = { x, y: 0, width, height: y };
  boxes.set(network.id, box);
  return { ...box, network, zones, chips };
}

/** ColumnsOf returns how many cards of a subnet are beside each other. */
function columnsOf({ cards }: SubnetBox): number {
  const area = cards.reduce((sum, card) => sum + (cardWidth + gap) * (cardHeight(card) + gap), 0);
  return Math.max(1, Math.round(Math.sqrt(area * shape) / (cardWidth + gap)));
}

function placeSubnet(
  subnet: SubnetBox,
  x: number,
  y: number,
  width: number,
  columns: number,
  boxes: Map<string, Box>,
): PlacedSubnet {
  const cards: PlacedCard[] = [];
  let rowY = y + titleHeight;
  for (let first = 0; first < subnet.cards.length; first += columns) {
    const row = subnet.cards.slice(first, first + columns);
    row.forEach((card, i) => {
      const cardX = x + padding + i * (cardWidth + gap);
      const at = { x: cardX, y: rowY, width: cardWidth, height: cardHeight(card) };
      cards.push({ ...at, card });
      boxes.set(card.id, at);
      let eniY = rowY + cardTitle;
      for (const eni of card.interfaces) {
        const height = interfaceHeight(eni);
        // A card of a single network interface has its ID.
        if (eni.id !== card.id) boxes.set(eni.id, { x: cardX, y: eniY, width: cardWidth, height });
        eniY += height;
      }
    });
    rowY += Math.max(...row.map(cardHeight)) + gap;
  }
  const box = { x, y, width, height: rowY - y + (cards.length === 0 ? 0 : padding - gap) };
  boxes.set(subnet.id, box);
  return { ...box, subnet, cards };
}

/** Count returns a number of things: "1 target", "2,000 pods". */
export function count(n: number, noun: string): string {
  return `${n.toLocaleString("en-US")} ${noun}${n === 1 ? "" : "s"}`;
}
