import { expect, test } from "vitest";
import { placeOf } from "./subnets";

const gateway = [{ GatewayId: "local" }, { GatewayId: "igw-1" }];
const main = { VpcId: "vpc-1", Associations: [{ Main: true }], Routes: gateway };
const own = { VpcId: "vpc-1", Associations: [{ SubnetId: "subnet-1" }], Routes: [{ NatGatewayId: "nat-1" }] };

test.each([
  ["its own route table without an internet gateway", "subnet-1", [main, own], false],
  ["the main route table", "subnet-2", [main, own], true],
  ["no route table", "subnet-1", [], false],
])("a subnet with %s", (_, SubnetId, tables, isPublic) => {
  expect(placeOf({ SubnetId, VpcId: "vpc-1" }, tables).isPublic).toBe(isPublic);
});

test("a subnet has the name of its tag", () => {
  const subnet = { SubnetId: "subnet-1", Tags: [{ Key: "Name", Value: "private-a" }], AvailabilityZone: "eu-west-1a" };
  expect(placeOf(subnet)).toMatchObject({ id: "subnet-1", name: "private-a", zone: "eu-west-1a" });
});
