import { expect, test } from "vitest";
import { kindsOf, resourceName } from "./discovery";

const list = (group: string, version: string, ...resources: [string, string, string[]][]) => ({
  items: [
    {
      metadata: { name: group },
      versions: [
        {
          version,
          resources: resources.map(([resource, kind, verbs]) => ({
            resource,
            scope: "Namespaced" as const,
            verbs,
            responseKind: { kind },
          })),
        },
      ],
    },
  ],
});

test("kinds that can be followed, sorted by name", () => {
  const all = ["get", "list", "watch"];
  const kinds = kindsOf([
    list("", "v1", ["pods", "Pod", all], ["bindings", "Binding", ["create"]]),
    list("apps", "v1", ["deployments", "Deployment", all]),
    list("apps", "v1beta1", ["deployments", "Deployment", all]),
  ]);
  expect(kinds.map((k) => [resourceName(k), k.version])).toEqual([
    ["deployments.apps", "v1"],
    ["pods", "v1"],
  ]);
});
