import { expect, test } from "vitest";
import { boxPaths } from "./CardBoxes";
import { factsOf, noFacts } from "./fixture";
import { type Box, layOut } from "./layout";
import { networksOf } from "./network";
import { cardAt, cardsIn, centerOn, detailAt, drawnOf, fit, moved, overlaps, windowOf, zoomAt } from "./view";

function inside(outer: Box, inner: Box): boolean {
  return (
    inner.x >= outer.x &&
    inner.y >= outer.y &&
    inner.x + inner.width <= outer.x + outer.width &&
    inner.y + inner.height <= outer.y + outer.height
  );
}

function mapOf(nodes: number, podsPerNode: number) {
  const { facts, pods } = factsOf(nodes, podsPerNode);
  return layOut(networksOf(facts, pods));
}

test.each([
  [0, 0],
  [1, 40],
  [50, 10],
])("boxes are in boxes, and none is on another: %i nodes with %i pods", (nodes, podsPerNode) => {
  const layout = mapOf(nodes, podsPerNode);
  for (const network of layout.networks) {
    expect(inside(layout, network)).toBe(true);
    const parts: Box[] = [...network.zones, ...network.chips];
    expect(parts.every((part) => inside(network, part))).toBe(true);
    expect(parts.some((a, i) => parts.slice(i + 1).some((b) => overlaps(a, b)))).toBe(false);
    for (const zone of network.zones) {
      expect(zone.subnets.every((subnet) => inside(zone, subnet))).toBe(true);
      for (const { cards, ...subnet } of zone.subnets) {
        expect(cards.every((card) => inside(subnet, card))).toBe(true);
        expect(cards.some((a, i) => cards.slice(i + 1).some((b) => overlaps(a, b)))).toBe(false);
      }
    }
  }
});

test("there is a box for each thing", () => {
  const { boxes } = mapOf(2, 1);
  expect([...boxes.keys()].sort()).toEqual(
    ["eni-0", "eni-1", "i-0", "i-1", "sg-1", "subnet-0", "subnet-1", "subnet-2", "vpc-1"].sort(),
  );
});

test("a region without VPCs is an empty map", () => {
  expect(layOut(networksOf(noFacts(), []))).toMatchObject({ width: 0, height: 0, networks: [] });
});

test("of 1,000 nodes only those in view are drawn as cards", () => {
  const layout = mapOf(1000, 10);
  const size = { width: 1600, height: 900 };
  const whole = fit(layout, size);
  expect(inside(windowOf(whole, size), layout)).toBe(true);
  const box = layout.boxes.get("i-500");
  if (box === undefined) throw new Error("the instance has no box");
  const near = centerOn(whole, box, size);
  expect(detailAt(near.scale)).toBe("addresses");
  const subnets = layout.networks.flatMap(({ zones }) => zones.flatMap((zone) => zone.subnets));
  const cards = subnets.flatMap((subnet) => cardsIn(subnet, drawnOf(near, size)));
  expect(cards.some(({ card }) => card.id === "i-500")).toBe(true);
  expect(cards.length).toBeLessThan(200);
  expect(cardAt(subnets.flatMap((subnet) => subnet.cards), box.x + 1, box.y + 1)?.card.id).toBe("i-500");
});

test("what is drawn stays the same while the view moves a little", () => {
  const size = { width: 1600, height: 900 };
  const view = { scale: 0.3, left: 10, top: 20 };
  const drawn = drawnOf(view, size);
  expect(inside(drawn, windowOf(view, size))).toBe(true);
  expect(drawnOf(moved(view, 100, 50), size)).toEqual(drawnOf(moved(view, 105, 55), size));
  expect(drawnOf(zoomAt(view, 1.01, 0, 0), size).scale).toBe(drawn.scale);
  const far = moved(view, 1000, 0);
  expect(inside(drawnOf(far, size), windowOf(far, size))).toBe(true);
});

test("boxes of one color are one path", () => {
  const layout = mapOf(1000, 10);
  const [network] = layout.networks;
  const cards = network?.zones[0]?.subnets[0]?.cards ?? [];
  expect(cards).toHaveLength(334);
  const { boxes, stripes } = boxPaths(cards, ({ card }) => (card.id === "i-3" ? "selected" : "none"));
  expect(boxes.map(([mark, path]) => [mark, path.split("M").length - 1])).toEqual([
    ["none", 333],
    ["selected", 1],
  ]);
  expect(stripes).toHaveLength(1);
});

test("zooming keeps the point below the pointer", () => {
  const before = { scale: 1, left: 10, top: 20 };
  const after = zoomAt(before, 1.5, 110, 220);
  expect((110 - after.left) / after.scale).toBeCloseTo(110 - 10);
  expect((220 - after.top) / after.scale).toBeCloseTo(220 - 20);
  expect(zoomAt(before, 1000, 0, 0).scale).toBe(3);
});
