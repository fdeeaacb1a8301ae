import { expect, test } from "vitest";
import { type Node, nodeStatus } from "./nodes";

const node = (ready: string | undefined, unschedulable?: boolean): Node => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: "n", uid: "1", resourceVersion: "1", creationTimestamp: "" },
  spec: { unschedulable },
  status: { conditions: ready === undefined ? [] : [{ type: "Ready", status: ready }] },
});

test.each([
  [node("True"), "Ready"],
  [node("True", true), "Ready,SchedulingDisabled"],
  [node("False"), "NotReady"],
  [node("Unknown"), "NotReady"],
  [node(undefined), "Unknown"],
])("node %#", (n, status) => {
  expect(nodeStatus(n)).toBe(status);
});
