import { expect, test } from "vitest";
import { factsOf, noFacts, podAt } from "./fixture";
import { addressesOf, loadBalancerPath, networksOf } from "./network";

test("pods are behind the addresses of their nodes", () => {
  const { facts, pods } = factsOf(3, 2);
  const [network] = networksOf(facts, pods);
  expect(network?.name).toBe("web");
  expect(network?.zones.map(({ name }) => name)).toEqual(["us-east-1a", "us-east-1b", "us-east-1c"]);
  const card = network?.zones[1]?.subnets[0]?.cards[0];
  expect(card).toMatchObject({ id: "i-1", kind: "instance", state: "running", pods: 2 });
  const addresses = card?.interfaces[0]?.addresses;
  expect(addresses?.map(({ ip, primary, pods }) => [ip, primary, pods.map(({ name }) => name)])).toEqual([
    ["10.1.0.4", true, []],
    ["10.1.0.10", false, ["web-1-0"]],
    ["10.1.0.11", false, ["web-1-1"]],
  ]);
});

test("a pod of another VPC with the same address is not there", () => {
  const { facts } = factsOf(1, 1);
  const [network] = networksOf(facts, [podAt("10.0.0.10", { vpc: "vpc-2" })]);
  expect(network?.zones[0]?.subnets[0]?.cards[0]?.pods).toBe(0);
});

test("prefixes show the addresses that pods have", () => {
  const { facts } = factsOf(1, 0);
  Object.assign(facts.interfaces[0] ?? {}, { Ipv4Prefixes: [{ Ipv4Prefix: "10.0.9.16/28" }] });
  const [network] = networksOf(facts, [podAt("10.0.9.31"), podAt("10.0.9.32")]);
  const eni = network?.zones[0]?.subnets[0]?.cards[0]?.interfaces[0];
  expect(eni?.prefixes).toEqual(["10.0.9.16/28"]);
  expect(eni?.addresses.map(({ ip }) => ip)).toEqual(["10.0.0.4", "10.0.9.31"]);
});

test("addresses of a prefix", () => {
  expect(addressesOf("10.0.255.240/28").at(-1)).toBe("10.0.255.255");
  expect(addressesOf("192.168.0.1/32")).toEqual(["192.168.0.1"]);
  expect(addressesOf("2001:db8::/80")).toEqual([]);
  expect(addressesOf("10.0.0.0/8")).toEqual([]);
});

test("network interfaces without an instance are what they belong to", () => {
  const { facts } = factsOf(0, 0);
  const eni = (NetworkInterfaceId: string, Description: string, PrivateIpAddress = "10.0.0.1") =>
    facts.interfaces.push({
      NetworkInterfaceId,
      Description,
      SubnetId: "subnet-0",
      VpcId: "vpc-1",
      PrivateIpAddresses: [{ PrivateIpAddress, Primary: true }],
    });
  eni("eni-elb", "ELB app/shop/50dc6c495c0c9188");
  eni("eni-eks", "Amazon EKS web");
  eni("eni-nat", "");
  eni("eni-fargate", "", "10.0.0.7");
  eni("eni-mine", "mine");
  facts.natGateways.push({ NatGatewayId: "nat-1", NatGatewayAddresses: [{ NetworkInterfaceId: "eni-nat" }] });
  const [network] = networksOf(facts, [podAt("10.0.0.7", { node: "fargate-ip-10-0-0-7.ec2.internal", name: "job" })]);
  expect(network?.zones[0]?.subnets[0]?.cards.map(({ id, kind, title }) => [id, kind, title])).toEqual([
    ["nat-1", "nat-gateway", "nat-1"],
    ["eni-elb", "load-balancer", "app/shop/50dc6c495c0c9188"],
    ["eni-eks", "cluster", "web"],
    ["eni-fargate", "fargate", "job"],
    ["eni-mine", "interface", "mine"],
  ]);
});

test("a subnet without a route table of its own has the main one", () => {
  const { facts } = factsOf(0, 0);
  facts.routeTables.push(
    { RouteTableId: "rtb-main", VpcId: "vpc-1", Associations: [{ Main: true }] },
    {
      RouteTableId: "rtb-public",
      VpcId: "vpc-1",
      Associations: [{ Main: false, SubnetId: "subnet-1" }],
      Routes: [{ DestinationCidrBlock: "0.0.0.0/0", GatewayId: "igw-1" }],
    },
  );
  const [network] = networksOf(facts, []);
  const subnets = network?.zones.flatMap((zone) => zone.subnets);
  expect(subnets?.map(({ routeTable, isPublic }) => [routeTable?.RouteTableId, isPublic])).toEqual([
    ["rtb-main", false],
    ["rtb-public", true],
    ["rtb-main", false],
  ]);
});

test("a region without VPCs has no networks", () => {
  expect(networksOf(noFacts(), [])).toEqual([]);
});

test("the path of a load balancer", () => {
  const arn = "arn:aws:elasticloadbalancing:us-east-1:111122223333:loadbalancer/net/a/12";
  expect(loadBalancerPath(arn)).toBe("net/a/12");
});
