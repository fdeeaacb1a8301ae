import { expect, test } from "vitest";
import { fieldIs, nodes, pods, resourcePath } from "./objects";

const deployments = { group: "apps", version: "v1", name: "deployments", namespaced: true };

test.each([
  [resourcePath(pods), "/api/v1/pods"],
  [resourcePath(pods, "default"), "/api/v1/namespaces/default/pods"],
  [resourcePath(pods, "default", "web-0", "log"), "/api/v1/namespaces/default/pods/web-0/log"],
  [resourcePath(nodes, undefined, "i-0"), "/api/v1/nodes/i-0"],
  [resourcePath(deployments, "a/../b", "x?y"), "/apis/apps/v1/namespaces/a%2F..%2Fb/deployments/x%3Fy"],
])("%s", (path, want) => {
  expect(path).toBe(want);
});

test("a name in a field selector is one name", () => {
  expect(fieldIs("metadata.name", "web")).toBe("metadata.name=web");
  expect(fieldIs("metadata.name", "a,metadata.name=b\\")).toBe("metadata.name=a\\,metadata.name\\=b\\\\");
});
