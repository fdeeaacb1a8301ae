import { expect, test } from "vitest";
import { parse } from "yaml";
import type { KubernetesObject } from "../../kubernetes/objects";
import { linesOf, ownersOf, type Path } from "./fieldOwners";

const object = {
  apiVersion: "apps/v1",
  kind: "DaemonSet",
  metadata: {
    name: "aws-node",
    uid: "1",
    resourceVersion: "5",
    creationTimestamp: "2026-11-30T10:00:00Z",
    labels: { app: "aws-node", team: "net" },
    finalizers: ["a/b"],
    managedFields: [
      {
        manager: "eks",
        fieldsV1: {
          "f:metadata": { "f:labels": { "f:app": {} } },
          "f:spec": {
            "f:template": {
              "f:spec": {
                "f:containers": {
                  'k:{"name":"aws-node"}': { ".": {}, "f:name": {}, "f:image": {}, "f:args": {} },
                },
              },
            },
          },
        },
      },
      { manager: "kubectl-patch", fieldsV1: { "f:metadata": { "f:labels": { "f:team": {}, "f:app": {} } } } },
      { manager: "kubelet", subresource: "status", fieldsV1: { "f:status": { "f:ready": {} } } },
      { manager: "controller", fieldsV1: { "f:metadata": { "f:finalizers": { ".": {}, 'v:"a/b"': {} } } } },
    ],
  },
  spec: { template: { spec: { containers: [{ name: "aws-node", image: "cni:1", args: ["--v", "2"] }] } } },
  status: { ready: true },
  script: "#!/bin/sh\necho 'a: b'\n",
  empty: {},
} as KubernetesObject;

test.each<[Path, string[]]>([
  [["metadata", "labels", "app"], ["eks", "kubectl-patch"]],
  [["metadata", "labels", "team"], ["kubectl-patch"]],
  [["metadata", "labels"], []],
  [["metadata", "name"], []],
  [["metadata", "finalizers", 0], ["controller"]],
  [["spec", "template", "spec", "containers", 0, "image"], ["eks"]],
  [["spec", "template", "spec", "containers", 0, "args", 1], ["eks"]],
  [["spec", "template", "spec", "containers", 0], ["eks"]],
  [["spec", "template", "spec"], []],
  [["status", "ready"], ["kubelet (status)"]],
])("%j", (path, owners) => {
  expect(ownersOf(object, path)).toEqual(owners);
});

test("lines are the object in YAML, without managedFields", () => {
  const text = linesOf(object)
    .map((line) => line.text)
    .join("\n");
  const shown = structuredClone(object);
  delete shown.metadata.managedFields;
  expect(parse(text)).toEqual(shown);
  expect(linesOf(object).find((line) => line.text.includes("image:"))?.path).toEqual([
    "spec",
    "template",
    "spec",
    "containers",
    0,
    "image",
  ]);
});
