// Networks of any size for tests.
import type { Facts, Pod } from "./network";

/** NoFacts returns a region without anything. */
export function noFacts(): Facts {
  return {
    vpcs: [],
    subnets: [],
    routeTables: [],
    internetGateways: [],
    egressOnlyGateways: [],
    natGateways: [],
    instances: [],
    interfaces: [],
    securityGroups: [],
    endpoints: [],
    loadBalancers: [],
  };
}

/** FactsOf returns a VPC with nodes in three zones, each with pods on secondary addresses. */
export function factsOf(nodes: number, podsPerNode: number): { facts: Facts; pods: Pod[] } {
  const facts = noFacts();
  const pods: Pod[] = [];
  facts.vpcs.push({ VpcId: "vpc-1", CidrBlock: "10.0.0.0/8", Tags: [{ Key: "Name", Value: "web" }] });
  facts.securityGroups.push({ GroupId: "sg-1", GroupName: "nodes", VpcId: "vpc-1" });
  for (let zone = 0; zone < 3; zone++) {
    facts.subnets.push({
      SubnetId: `subnet-${zone}`,
      VpcId: "vpc-1",
      AvailabilityZone: `us-east-1${"abc".charAt(zone)}`,
      CidrBlock: `10.${zone}.0.0/16`,
    });
  }
  for (let node = 0; node < nodes; node++) {
    const zone = node % 3;
    const id = `i-${node}`;
    const ip = (n: number) => `10.${zone}.${Math.floor(node / 3)}.${n}`;
    facts.instances.push({ InstanceId: id, SubnetId: `subnet-${zone}`, VpcId: "vpc-1", State: { Name: "running" } });
    const secondary = Array.from({ length: podsPerNode }, (_, i) => ip(i + 10));
    facts.interfaces.push({
      NetworkInterfaceId: `eni-${node}`,
      SubnetId: `subnet-${zone}`,
      VpcId: "vpc-1",
      Attachment: { InstanceId: id, DeviceIndex: 0 },
      Groups: [{ GroupId: "sg-1", GroupName: "nodes" }],
      PrivateIpAddresses: [ip(4), ...secondary].map((PrivateIpAddress, i) => ({ PrivateIpAddress, Primary: i === 0 })),
    });
    secondary.forEach((address, i) => pods.push(podAt(address, { uid: `${node}/${i}`, name: `web-${node}-${i}` })));
  }
  return { facts, pods };
}

/** PodAt returns a pod with an address. */
export function podAt(ip: string, change: Partial<Pod> = {}): Pod {
  return {
    uid: ip,
    cluster: "web",
    vpc: "vpc-1",
    namespace: "default",
    name: `pod-${ip}`,
    phase: "Running",
    node: "ip-10-0-0-4.ec2.internal",
    ip,
    ...change,
  };
}
