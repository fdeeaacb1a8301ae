import { expect, test } from "vitest";
import { parse } from "yaml";
import { commandsOf, createRequestOf, defaultVersion, type Form, formOf, newForm, problemsOf } from "./request";
import { tagsOf, updateRequestOf } from "./request";

const role = "arn:aws:iam::111122223333:role/cni";
const versions = [
  { addonVersion: "v2", compatibilities: [{ clusterVersion: "1.35", defaultVersion: false }] },
  { addonVersion: "v1", compatibilities: [{ clusterVersion: "1.35", defaultVersion: true }] },
];
const form: Form = newForm({ addonName: "vpc-cni", addonVersions: versions });

test("the form opens with the default version", () => {
  expect(form.version).toBe("v1");
  expect(defaultVersion(versions.slice(0, 1))).toBe("v2");
  expect(defaultVersion([])).toBe("");
});

test("a whole form has no problems", () => {
  expect(problemsOf(form)).toEqual({});
});

test.each<[Partial<Form>, string]>([
  [{ version: "" }, "version"],
  [{ access: "irsa" }, "serviceAccountRoleArn"],
  [{ access: "irsa", serviceAccountRoleArn: "cni" }, "serviceAccountRoleArn"],
  [{ access: "pod-identity", podRoles: { "aws-node": "cni" } }, "podRoles"],
  [{ namespace: "Kube" }, "namespace"],
])("%j is a problem of %s", (change, member) => {
  expect(Object.keys(problemsOf({ ...form, ...change }))).toEqual([member]);
});

test("an add-on is created with what was entered only", () => {
  expect(JSON.parse(JSON.stringify(createRequestOf("web", form)))).toEqual({
    clusterName: "web",
    addonName: "vpc-cni",
    addonVersion: "v1",
    resolveConflicts: "NONE",
  });
  const all = createRequestOf("web", {
    ...form,
    access: "pod-identity",
    podRoles: { "aws-node": role, other: "" },
    serviceAccountRoleArn: role,
    configurationValues: "env: {}",
    tags: [
      { key: "team", value: "a", existing: false },
      { key: "old", value: "", existing: true, markedForRemoval: true },
    ],
  });
  expect(all).toMatchObject({
    podIdentityAssociations: [{ serviceAccount: "aws-node", roleArn: role }],
    configurationValues: "env: {}",
    tags: { team: "a" },
  });
  expect(all.serviceAccountRoleArn).toBeUndefined();
});

test("an update names the role that stays, and nothing else that stays", () => {
  const before = formOf({ addonName: "vpc-cni", addonVersion: "v1", serviceAccountRoleArn: role }, []);
  expect(JSON.parse(JSON.stringify(updateRequestOf("web", { ...before, version: "v2" }, before)))).toEqual({
    clusterName: "web",
    addonName: "vpc-cni",
    addonVersion: "v2",
    serviceAccountRoleArn: role,
    resolveConflicts: "NONE",
  });
});

test("an update empties what is no more", () => {
  const before = formOf({ addonName: "vpc-cni", addonVersion: "v1", configurationValues: "a: 1" }, [
    { serviceAccount: "aws-node", roleArn: role },
  ]);
  expect(before.access).toBe("pod-identity");
  const after = updateRequestOf("web", { ...before, access: "none", configurationValues: " " }, before);
  expect(after).toMatchObject({ podIdentityAssociations: [], configurationValues: "{}" });
});

test("other tools make the same add-on", () => {
  const whole: Form = { ...form, access: "irsa", serviceAccountRoleArn: role, resolveConflicts: "OVERWRITE" };
  const [aws = "", eksctl = "", template = ""] = commandsOf("web", whole, "eu-west-1").map(({ text }) => text);
  expect(aws).toContain("aws eks create-addon");
  expect(aws).toContain(`--service-account-role-arn ${role}`);
  expect(parse(eksctl.split("\n").slice(1, -2).join("\n"))).toMatchObject({
    addons: [{ name: "vpc-cni", resolveConflicts: "overwrite", serviceAccountRoleARN: role }],
  });
  expect(parse(template)).toMatchObject({
    Resources: { Addon: { Properties: { AddonName: "vpc-cni", ResolveConflicts: "OVERWRITE" } } },
  });
  expect(commandsOf("web", whole, "eu-west-1", form)[0]?.text).toContain("aws eks update-addon");
});

test("no tags are no member", () => {
  expect(tagsOf([])).toBeUndefined();
});
