import { expect, test } from "vitest";
import type { Node } from "../clusters/nodes";
import { problems, readyNodes } from "./summary";

const nothing = { clusters: [], nodegroups: [], addons: [], instances: [], statuses: [], stacks: [] };

test("issues of clusters come with those of their node groups and add-ons", () => {
  const issue = { code: "AccessDenied" as const, message: "Denied", resourceIds: ["i-1"] };
  const found = problems({
    ...nothing,
    clusters: [
      { name: "web", health: { issues: [{ code: "Ec2SubnetNotFound", message: "No subnet" }] } },
      { name: "idle", health: { issues: [] }, status: "ACTIVE" },
      { name: "bad", status: "FAILED" },
    ],
    nodegroups: [
      { clusterName: "idle", nodegroupName: "spare", health: { issues: [issue] }, status: "DEGRADED" },
      { clusterName: "gone", nodegroupName: "old", health: { issues: [issue] } },
    ],
    addons: [
      { clusterName: "web", addonName: "coredns", status: "ACTIVE", health: { issues: [] } },
      { clusterName: "web", addonName: "kube-proxy", status: "CREATE_FAILED" },
    ],
  });
  expect(found.map((p) => [p.kind, p.name, p.to, p.code, p.message, p.resources])).toEqual([
    ["Cluster", "web", "/clusters/web/overview", "Ec2SubnetNotFound", "No subnet", []],
    ["Add-on", "web/kube-proxy", "/clusters/web/add-ons", "CREATE_FAILED", "", []],
    ["Node group", "idle/spare", "/clusters/idle/compute", "AccessDenied", "Denied", ["i-1"]],
    ["Cluster", "bad", "/clusters/bad/overview", "FAILED", "", []],
  ]);
});

test("instances that failed, and stacks, are among what is wrong", () => {
  const found = problems({
    ...nothing,
    instances: [
      { InstanceId: "i-1", StateReason: { Code: "Server.InternalError", Message: "No root file system" } },
      { InstanceId: "i-2", StateReason: { Code: "Client.UserInitiatedShutdown", Message: "" } },
      { InstanceId: "i-3", StateReason: { Code: "Server.SpotInstanceTermination", Message: "" } },
    ],
    statuses: [
      { InstanceId: "i-4", SystemStatus: { Status: "ok" }, InstanceStatus: { Status: "impaired" } },
      { InstanceId: "i-5", SystemStatus: { Status: "ok" }, InstanceStatus: { Status: "ok" } },
    ],
    stacks: [
      { StackName: "net", StackId: "arn:1", StackStatus: "CREATE_COMPLETE", CreationTime: new Date(0) },
      {
        StackName: "app",
        StackId: "arn:2",
        StackStatus: "ROLLBACK_COMPLETE",
        StackStatusReason: "No queue",
        CreationTime: new Date(0),
      },
    ],
  });
  expect(found.map(({ kind, name, to, code, message }) => [kind, name, to, code, message])).toEqual([
    ["Instance", "i-1", "/instances/i-1/details", "Server.InternalError", "No root file system"],
    ["Instance", "i-4", "/instances/i-4/monitoring", "impaired", "Instance status check failed"],
    ["Stack", "app", "/stacks/arn%3A2/events", "ROLLBACK_COMPLETE", "No queue"],
  ]);
});

function node(name: string, status: string, unschedulable = false): Node {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, uid: name, resourceVersion: "1", creationTimestamp: "" },
    spec: { unschedulable },
    status: { conditions: [{ type: "Ready", status }] },
  };
}

test("nodes that are ready are counted, cordoned or not", () => {
  expect(readyNodes([node("a", "True"), node("b", "True", true), node("c", "Unknown")])).toBe("2 of 3 ready");
  expect(readyNodes([])).toBe("0 of 0 ready");
});
