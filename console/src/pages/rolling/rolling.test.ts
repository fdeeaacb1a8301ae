import type { AutoScalingGroup, Instance } from "@aws-sdk/client-auto-scaling";
import type { Nodegroup, Update } from "@aws-sdk/client-eks";
import { expect, test } from "vitest";
import type { Node, Pod } from "./objects";
import { happeningsOf, type KubernetesEvent, membersOf, progressOf, stepsOf, workloadsOf } from "./rolling";

const submitted = new Date("2026-11-30T12:00:00.400Z");

function instance(id: string, version: string, state = "InService"): Instance {
  return {
    InstanceId: id,
    AvailabilityZone: "eu-west-1a",
    LifecycleState: state as Instance["LifecycleState"],
    HealthStatus: "Healthy",
    ProtectedFromScaleIn: false,
    LaunchTemplate: { LaunchTemplateId: "lt-1", Version: version },
  };
}

function node(instance: string, change: Partial<Node> = {}): Node {
  return {
    name: `node-${instance}`,
    instance,
    created: "2026-11-30T11:00:00Z",
    ready: true,
    unschedulable: false,
    excluded: false,
    version: "v1.35.1",
    nodegroup: "workers",
    ...change,
  };
}

function pod(name: string, on: string, change: Partial<Pod> = {}): Pod {
  const of = { uid: name, namespace: "default", name, labels: {}, node: on === "" ? "" : `node-${on}` };
  return { ...of, phase: "Running", ready: true, workload: "Deployment web", stays: false, ...change };
}

const cordoned = { unschedulable: true, excluded: true };
const fresh = { created: "2026-11-30T12:00:00Z" };

function group(version: string, instances: Instance[], change: Partial<AutoScalingGroup> = {}): AutoScalingGroup {
  return {
    AutoScalingGroupName: "eks-workers",
    MinSize: 1,
    MaxSize: 4,
    DesiredCapacity: instances.length,
    DefaultCooldown: 300,
    AvailabilityZones: [],
    HealthCheckType: "EC2",
    CreatedTime: submitted,
    MixedInstancesPolicy: {
      LaunchTemplate: { LaunchTemplateSpecification: { LaunchTemplateId: "lt-1", Version: version } },
    },
    Instances: instances,
    ...change,
  };
}

const update: Update = { id: "u", status: "InProgress", type: "VersionUpdate", createdAt: submitted };
const suspended = (at: string) => ({
  SuspendedProcesses: [{ ProcessName: "AZRebalance", SuspensionReason: `User suspended at ${at}` }],
});

test.each<[string, AutoScalingGroup, Node[], object, Nodegroup?]>([
  ["the group launches what there is", group("1", [instance("a", "1")]), [node("a")], { phase: "Setup" }],
  ["it launches another version", group("2", [instance("a", "1")]), [node("a")], { phase: "Scale up" }],
  [
    "new nodes join",
    group("2", [instance("a", "1"), instance("b", "2", "Pending")]),
    [node("a")],
    { phase: "Scale up" },
  ],
  [
    "a user has cordoned an old node",
    group("2", [instance("a", "1")]),
    [node("a", { unschedulable: true })],
    { phase: "Scale up" },
  ],
  [
    "old nodes are cordoned",
    group("2", [instance("a", "1"), instance("b", "2")]),
    [node("a", cordoned), node("b", fresh)],
    { phase: "Upgrade" },
  ],
  [
    "a minimal update does not scale up",
    group("2", [instance("a", "1")]),
    [node("a")],
    { phase: "Upgrade" },
    { updateConfig: { updateStrategy: "MINIMAL" } },
  ],
  ["all are new", group("2", [instance("b", "2")]), [node("b", fresh)], { phase: "Scale down" }],
  [
    "old nodes take pods again",
    group("2", [instance("a", "1"), instance("b", "2")], suspended("2026-11-30T12:02:00Z")),
    [node("a"), node("b", fresh)],
    { phase: "Scale down", failing: true },
  ],
  [
    "a user had suspended balancing before",
    group("2", [instance("a", "1")], suspended("2026-11-01T12:02:00Z")),
    [node("a")],
    { phase: "Scale up", failing: false },
  ],
])("the phase, when %s", (_, of, nodes, wanted, nodegroup) => {
  expect(progressOf(update, nodegroup, of, membersOf(of, nodes, []))).toMatchObject(wanted);
});

test("an update that has ended is in no phase", () => {
  const of = group("2", [instance("b", "2")]);
  const steps = (status: Update["status"]) => stepsOf({ ...update, status }, undefined, of, []).map((s) => s.status);
  expect(steps("Successful")).toEqual(["done", "done", "done", "done"]);
  expect(steps("Failed")).toEqual(["failed", "failed", "failed", "failed"]);
});

test("steps say what a phase has come to", () => {
  const of = group("2", [instance("a", "1"), instance("b", "2"), instance("c", "2", "Pending")]);
  const members = membersOf(of, [node("a", cordoned), node("b", fresh)], []);
  expect(stepsOf(update, undefined, of, members)).toEqual([
    { phase: "Setup", status: "done", details: "" },
    { phase: "Scale up", status: "done", details: "" },
    {
      phase: "Upgrade",
      status: "current",
      details: "1 old node left, 1 going; 1 of 2 new nodes ready",
    },
    { phase: "Scale down", status: "pending", details: "" },
  ]);
});

test("nodes are what their instance, their cordon and their pods say", () => {
  const of = group("2", [
    instance("ready", "2"),
    instance("unready", "2"),
    instance("joining", "2"),
    instance("launching", "2", "Pending"),
    instance("going", "1", "Terminating:Wait"),
    instance("drained", "1"),
    instance("draining", "1"),
    instance("cordoned", "1"),
  ]);
  const nodes = [
    node("ready"),
    node("unready", { ready: false }),
    node("going", cordoned),
    node("drained", cordoned),
    node("draining", cordoned),
    node("cordoned", cordoned),
  ];
  const pods = [
    pod("daemon", "drained", { stays: true }),
    pod("leaves", "draining", { deadline: "2026-11-30T12:03:00Z" }),
    pod("waits", "draining"),
    pod("stays", "cordoned"),
  ];
  expect(membersOf(of, nodes, pods).map(({ id, old, state }) => [id, old, state])).toEqual([
    ["going", true, "Terminating"],
    ["drained", true, "Drained"],
    ["draining", true, "Draining"],
    ["cordoned", true, "Cordoned"],
    ["launching", false, "Launching"],
    ["joining", false, "Joining"],
    ["unready", false, "Not ready"],
    ["ready", false, "Ready"],
  ]);
});

test("workloads are counted where their pods are", () => {
  const of = (name: string) => ({ key: `default/${name}`, namespace: "default", name });
  const pods = [
    pod("old", "a"),
    pod("leaves", "a", { deadline: "2026-11-30T12:03:00Z" }),
    pod("new", "b"),
    pod("pending", "", { ready: false, phase: "Pending" }),
    pod("daemon", "a", { stays: true }),
    pod("done", "a", { phase: "Succeeded", workload: "Job once" }),
    pod("elsewhere", "other", { workload: "Deployment other" }),
    pod("alone", "a", { workload: "" }),
  ];
  const instances = group("2", [instance("a", "1"), instance("b", "2")]);
  const members = membersOf(instances, [node("a", cordoned), node("b", fresh)], pods);
  expect(workloadsOf(members, pods)).toEqual([
    { ...of("Deployment web"), onOld: 1, terminating: 1, starting: 1, ready: 1 },
    { ...of("Pod alone"), onOld: 1, terminating: 0, starting: 0, ready: 0 },
  ]);
});

test("what happened is that of the group, in the time of the update", () => {
  const of = group("2", [instance("a", "1")]);
  const members = membersOf(of, [node("a")], []);
  const activity = (id: string, StartTime: Date) => ({
    ActivityId: id,
    AutoScalingGroupName: "eks-workers",
    Cause: "",
    Description: "Launching a new EC2 instance: i-0b1",
    StartTime,
    StatusCode: "Successful" as const,
  });
  const event = (name: string): KubernetesEvent => ({
    apiVersion: "v1",
    kind: "Event",
    metadata: { name, uid: name, resourceVersion: "", creationTimestamp: "2026-11-30T12:02:00Z" },
    involvedObject: { kind: "Node", name },
    reason: "NodeNotSchedulable",
    message: "it is not",
    type: "Normal",
  });
  const minutes = (n: number) => new Date(submitted.getTime() + n * 60_000);
  const activities = [activity("before", minutes(-5)), activity("during", minutes(1)), activity("after", minutes(60))];
  const found = happeningsOf(activities, [event("node-a"), event("node-x")], members, submitted, minutes(30));
  expect(found.map(({ key, about, what }) => [key, about, what])).toEqual([
    ["node-a", "node-a", "NodeNotSchedulable: it is not"],
    ["during", "i-0b1", "Launching a new EC2 instance"],
  ]);
});
