import { expect, test } from "vitest";
import { changedAt, conflictsOf, stepsOf, valueOf } from "./conflict";

const code = "ConfigurationConflict";

test("one conflict", () => {
  const message =
    'Apply failed with 1 conflict: conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas';
  expect(conflictsOf({ code, message, resourceIds: ["deployment.apps/coredns"] })).toEqual([
    { resource: "deployment.apps/coredns", field: ".spec.replicas", manager: "kubectl" },
  ]);
});

test("conflicts with several managers", () => {
  const message =
    'Apply failed with 3 conflicts: conflicts with "helm": - .data.Corefile conflicts with "kubectl-edit" using ' +
    'apps/v1 at 2026-11-30T10:00:00Z: - .spec.template.spec.containers[name="coredns"].image - ' +
    '.metadata.labels.a - b';
  expect(conflictsOf({ code, message, resourceIds: ["x/y"] }).map(({ manager, field }) => [manager, field])).toEqual([
    ["helm", ".data.Corefile"],
    ["kubectl-edit", '.spec.template.spec.containers[name="coredns"].image'],
    ["kubectl-edit", ".metadata.labels.a - b"],
  ]);
});

test("a manager may have a hostile name", () => {
  const message = String.raw`Apply failed with 1 conflict: conflict with "a\" <b>": .spec.x`;
  expect(conflictsOf({ code, message })[0]?.manager).toBe('a" <b>');
});

test("other issues are no conflicts", () => {
  expect(conflictsOf({ code: "AccessDenied", message: 'conflict with "kubectl": .spec' })).toEqual([]);
  expect(conflictsOf({ code, message: "The add-on has a conflict." })).toEqual([]);
});

const deployment = {
  spec: {
    replicas: 3,
    containers: [
      { name: "a", ports: [{ containerPort: 53, protocol: "UDP" }] },
      { name: "b", args: ["x"] },
    ],
  },
  metadata: { finalizers: ["keep"] },
};

test.each([
  [".spec.replicas", 3],
  ['.spec.containers[name="b"].args', ["x"]],
  ['.spec.containers[name="a"].ports[containerPort=53,protocol="UDP"].protocol', "UDP"],
  ['.metadata.finalizers[="keep"]', "keep"],
  [".spec.nothing.here", undefined],
  ["no field", undefined],
])("%s has its value", (field, value) => {
  expect(valueOf(deployment, field)).toEqual(value);
});

test("what cannot be read has no steps", () => {
  expect(stepsOf(".a[b=")).toBeUndefined();
  expect(stepsOf(".a[b=c]")).toBeUndefined();
});

test("a manager changed an object last", () => {
  const entries = [
    { manager: "kubectl", time: "2026-11-30T10:00:00Z" },
    { manager: "eks", time: "2026-11-30T12:00:00Z" },
    { manager: "kubectl", subresource: "scale", time: "2026-11-30T11:00:00Z" },
  ];
  expect(changedAt(entries, "kubectl")).toBe("2026-11-30T11:00:00Z");
  expect(changedAt(undefined, "kubectl")).toBeUndefined();
  expect(changedAt([{ manager: "kubectl" }], "kubectl")).toBeUndefined();
});
