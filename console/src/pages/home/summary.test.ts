import { expect, test } from "vitest";
import type { Node } from "../clusters/nodes";
import { healthIssues, readyNodes } from "./summary";

test("issues of clusters come with those of their node groups", () => {
  const clusters = [
    { name: "web", health: { issues: [{ code: "Ec2SubnetNotFound" as const, message: "No subnet" }] } },
    { name: "idle", health: { issues: [] } },
  ];
  const issues = [{ code: "AccessDenied" as const, message: "Denied", resourceIds: ["i-1"] }];
  const nodegroups = [
    { clusterName: "idle", nodegroupName: "spare", health: { issues } },
    { clusterName: "gone", nodegroupName: "old", health: { issues } },
  ];
  expect(healthIssues(clusters, nodegroups)).toEqual([
    { cluster: "web", nodegroup: "", code: "Ec2SubnetNotFound", message: "No subnet", resources: [] },
    { cluster: "idle", nodegroup: "spare", code: "AccessDenied", message: "Denied", resources: ["i-1"] },
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
