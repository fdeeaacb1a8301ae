import type { Instance, InstanceStateName } from "@aws-sdk/client-ec2";
import { expect, test } from "vitest";
import { clusterOf, countStates, decodeConsole, mayBe, statusChecks } from "./instances";

const inState = (Name: InstanceStateName): Instance => ({ State: { Name } });

test("instances are counted by state", () => {
  expect(countStates([inState("terminated"), inState("running"), inState("running")])).toEqual([
    ["running", 2],
    ["terminated", 1],
  ]);
});

test("an instance is of the cluster that its tags name", () => {
  expect(clusterOf({ Tags: [{ Key: "eks:cluster-name", Value: "web" }] })).toBe("web");
  expect(clusterOf({ Tags: [{ Key: "kubernetes.io/cluster/web", Value: "owned" }] })).toBe("web");
  expect(clusterOf({ Tags: [{ Key: "Name", Value: "bastion" }] })).toBe("");
});

test("what can be done follows from the state", () => {
  expect(mayBe("start", inState("stopped"))).toBe(true);
  expect(mayBe("start", inState("running"))).toBe(false);
  expect(mayBe("stop", inState("pending"))).toBe(false);
  expect(mayBe("terminate", inState("stopped"))).toBe(true);
  expect(mayBe("terminate", inState("terminated"))).toBe(false);
});

test("checks that passed are counted", () => {
  const status = { SystemStatus: { Status: "ok" as const }, InstanceStatus: { Status: "impaired" as const } };
  expect(statusChecks(status)).toBe("1/2 checks passed");
  expect(statusChecks({ ...status, InstanceStatus: { Status: "initializing" } })).toBe("Initializing");
  expect(statusChecks(undefined)).toBe("-");
});

test("the console's output is text in base64", () => {
  expect(decodeConsole(btoa("\xe2\x9c\x93 booted\n"))).toBe("✓ booted\n");
});
