import { expect, test } from "vitest";
import { formatStatus, statusType } from "./status";

test.each([
  ["ACTIVE", "success", "Active"],
  ["CREATING", "in-progress", "Creating"],
  ["CREATE_FAILED", "error", "Create failed"],
  ["FAILED", "error", "Failed"],
  ["DEGRADED", "warning", "Degraded"],
  ["InProgress", "in-progress", "In progress"],
  ["Successful", "success", "Successful"],
  ["UPDATE_ROLLBACK_COMPLETE", "warning", "Update rollback complete"],
  ["CREATE_COMPLETE", "success", "Create complete"],
  ["DELETE_IN_PROGRESS", "in-progress", "Delete in progress"],
  ["shutting-down", "in-progress", "Shutting down"],
  ["in-use", "success", "In use"],
  ["Whatever", "info", "Whatever"],
])("%s", (status, type, text) => {
  expect(statusType(status)).toBe(type);
  expect(formatStatus(status)).toBe(text);
});
