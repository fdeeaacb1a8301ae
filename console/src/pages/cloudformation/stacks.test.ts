import type { StackEvent } from "@aws-sdk/client-cloudformation";
import { expect, test } from "vitest";
import { hasFailed, resourceAddress, rootCause, stackAddress, stackName } from "./stacks";

const id = "arn:aws:cloudformation:eu-west-1:111122223333:stack/web/6b3f";

test("a stack is named by its name or its ID", () => {
  expect(stackName(id)).toBe("web");
  expect(stackName("web")).toBe("web");
  expect(stackAddress(id)).toBe(`/stacks/${encodeURIComponent(id)}`);
});

test.each([
  ["CREATE_COMPLETE", false],
  ["UPDATE_IN_PROGRESS", false],
  ["CREATE_FAILED", true],
  ["ROLLBACK_COMPLETE", true],
  ["UPDATE_ROLLBACK_IN_PROGRESS", true],
  ["UPDATE_ROLLBACK_FAILED", true],
])("%s has failed: %s", (status, failed) => {
  expect(hasFailed(status)).toBe(failed);
});

function event(LogicalResourceId: string, ResourceStatus: string, ResourceStatusReason?: string): StackEvent {
  const PhysicalResourceId = LogicalResourceId === "web" ? id : LogicalResourceId.toLowerCase();
  return {
    StackId: id,
    EventId: `${LogicalResourceId}-${ResourceStatus}`,
    StackName: "web",
    Timestamp: new Date(0),
    LogicalResourceId,
    PhysicalResourceId,
    ResourceStatus: ResourceStatus as StackEvent["ResourceStatus"],
    ResourceStatusReason,
  };
}

test("the root cause is the first failure that no other made", () => {
  const failed = [
    event("web", "ROLLBACK_IN_PROGRESS", "The following resource(s) failed to create: [Role, Queue]."),
    event("Queue", "CREATE_FAILED", "Resource creation cancelled"),
    event("Second", "CREATE_FAILED", "Subnet does not exist"),
    event("Role", "CREATE_FAILED", "Role web already exists"),
    event("Role", "CREATE_IN_PROGRESS"),
    event("web", "CREATE_IN_PROGRESS", "User Initiated"),
  ];
  expect(rootCause(failed)?.LogicalResourceId).toBe("Role");
});

test("failures of operations before the last do not count", () => {
  const events = [
    event("web", "UPDATE_COMPLETE"),
    event("web", "UPDATE_IN_PROGRESS", "User Initiated"),
    event("Role", "UPDATE_FAILED", "No such policy"),
    event("web", "UPDATE_IN_PROGRESS", "User Initiated"),
  ];
  expect(rootCause(events)).toBeUndefined();
});

test("resources lead to their pages", () => {
  expect(resourceAddress("AWS::EKS::Cluster", "web")).toBe("/clusters/web");
  expect(resourceAddress("AWS::CloudFormation::Stack", id)).toBe(stackAddress(id));
  expect(resourceAddress("AWS::SQS::Queue", "q")).toBeUndefined();
  expect(resourceAddress("AWS::EKS::Cluster", undefined)).toBeUndefined();
});
