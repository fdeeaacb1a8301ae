import { expect, test } from "vitest";
import { factsOf } from "./fixture";
import { networksOf } from "./network";
import { relatedTo, thingsOf, titleOf } from "./things";

function things() {
  const { facts, pods } = factsOf(2, 1);
  facts.routeTables.push({
    RouteTableId: "rtb-main",
    VpcId: "vpc-1",
    Associations: [{ Main: true }],
    Routes: [{ DestinationCidrBlock: "0.0.0.0/0", GatewayId: "igw-1" }],
  });
  facts.internetGateways.push({ InternetGatewayId: "igw-1", Attachments: [{ VpcId: "vpc-1" }] });
  facts.loadBalancers.push({
    id: "arn:lb",
    name: "shop",
    path: "app/shop/1",
    type: "Application Load Balancer",
    state: "active",
    scheme: "internal",
    dnsName: "",
    vpc: "vpc-1",
    targets: [{ id: "10.1.0.10", group: "web", health: "healthy" }],
  });
  return thingsOf(networksOf(facts, pods));
}

test.each([
  ["subnet-0", ["igw-1", "rtb-main"]],
  ["rtb-main", ["igw-1", "rtb-main", "subnet-0", "subnet-1", "subnet-2"]],
  ["igw-1", ["rtb-main"]],
  ["sg-1", ["eni-0", "eni-1"]],
  ["arn:lb", ["i-1"]],
  ["i-1", ["arn:lb", "igw-1", "rtb-main", "sg-1"]],
  ["eni-0", ["igw-1", "rtb-main", "sg-1"]],
  ["vpc-1", []],
])("what belongs to %s", (id, related) => {
  const all = things();
  expect([...relatedTo(all.get(id), all)].sort()).toEqual(related);
});

test("titles", () => {
  const all = things();
  expect(titleOf(all.get("vpc-1") ?? raise())).toEqual({ title: "web", what: "VPC" });
  expect(titleOf(all.get("arn:lb") ?? raise())).toEqual({ title: "shop", what: "Application Load Balancer" });
});

function raise(): never {
  throw new Error("it is not on the map");
}
