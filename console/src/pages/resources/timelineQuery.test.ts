import { expect, test } from "vitest";
import { timelineQuery } from "./timelineQuery";

test("the names of an object cannot leave their texts", () => {
  const resource = { group: "apps", version: "v1", name: "daemonsets", namespaced: true };
  const query = timelineQuery({ resource, namespace: "kube-system", name: 'a" | limit 1' });
  expect(query).toContain(String.raw`objectRef.name = "a\" | limit 1"`);
  expect(query).toContain('objectRef.apiGroup = "apps" and objectRef.namespace = "kube-system"');
});
