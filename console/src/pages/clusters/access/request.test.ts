import { expect, test } from "vitest";
import { parse } from "yaml";
import {
  associationCommandsOf,
  associationFormOf,
  associationProblems,
  associationRequestOf,
  associationUpdateOf,
  type EntryForm,
  entryCommandsOf,
  entryProblems,
  entryRequestsOf,
  newAssociation,
  newEntry,
  type Policy,
  policyProblem,
} from "./request";

const role = "arn:aws:iam::111122223333:role/viewer";
const view: Policy = {
  policyArn: "arn:aws:eks::aws:cluster-access-policy/AmazonEKSViewPolicy",
  scope: "namespace",
  namespaces: ["default", "web-*"],
};
const entry: EntryForm = { ...newEntry, principalArn: role, groups: ["viewers"], policies: [view] };

test("a whole entry has no problems", () => {
  expect(entryProblems(entry)).toEqual({});
});

test.each<[Partial<EntryForm>, string]>([
  [{ principalArn: "" }, "principalArn"],
  [{ principalArn: "arn:aws:sts::111122223333:assumed-role/a/b" }, "principalArn"],
  [{ principalArn: "arn:aws:iam::111122223333:user/a", type: "EC2_LINUX" }, "principalArn"],
  [{ username: "system:admin" }, "username"],
  [{ groups: ["system:masters"] }, "groups"],
])("%j is a problem of %s", (change, member) => {
  expect(Object.keys(entryProblems({ ...entry, ...change }))).toEqual([member]);
});

test.each<[Partial<Policy>, boolean]>([
  [{}, true],
  [{ namespaces: ["*"] }, true],
  [{ scope: "cluster", namespaces: [] }, true],
  [{ policyArn: "" }, false],
  [{ namespaces: [] }, false],
  [{ namespaces: ["*-web"] }, false],
])("the policy with %j is good: %s", (change, good) => {
  expect(policyProblem({ ...view, ...change }) === undefined).toBe(good);
});

test("nodes have no groups, names and policies", () => {
  const [request, policies] = entryRequestsOf("web", { ...entry, type: "EC2_LINUX", username: "x" });
  expect(JSON.parse(JSON.stringify(request))).toEqual({ clusterName: "web", principalArn: role, type: "EC2_LINUX" });
  expect(policies).toEqual([]);
});

test("other tools make the same entry", () => {
  const [aws = "", eksctl = "", template = ""] = entryCommandsOf("web", entry, "eu-west-1").map(({ text }) => text);
  expect(aws).toContain("aws eks create-access-entry");
  expect(aws).toContain(`--access-scope '{"type":"namespace","namespaces":["default","web-*"]}'`);
  expect(parse(eksctl.split("\n").slice(1, -2).join("\n"))).toMatchObject({
    accessConfig: { accessEntries: [{ principalARN: role, accessPolicies: [{ accessScope: { type: "namespace" } }] }] },
  });
  expect(parse(template)).toMatchObject({
    Resources: { AccessEntry: { Properties: { AccessPolicies: [{ AccessScope: { Type: "namespace" } }] } } },
  });
});

const association = { ...newAssociation, namespace: "default", serviceAccount: "app", roleArn: role };

test("a whole association has no problems", () => {
  expect(associationProblems(association)).toEqual({});
  expect(Object.keys(associationProblems(newAssociation)).sort()).toEqual(["namespace", "roleArn", "serviceAccount"]);
  expect(associationProblems({ ...association, policy: "{}" })).toHaveProperty("policy");
  expect(associationProblems({ ...association, targetRoleArn: "x" })).toHaveProperty("targetRoleArn");
});

test("an association is created with what was entered only", () => {
  expect(JSON.parse(JSON.stringify(associationRequestOf("web", association)))).toEqual({
    clusterName: "web",
    namespace: "default",
    serviceAccount: "app",
    roleArn: role,
  });
});

test("an update has what changes", () => {
  const before = associationFormOf({ namespace: "default", serviceAccount: "app", roleArn: role, targetRoleArn: role });
  expect(associationUpdateOf("web", "a-1", before, before)).toBeUndefined();
  const update = associationUpdateOf("web", "a-1", { ...before, targetRoleArn: "" }, before);
  expect(update).toEqual({ clusterName: "web", associationId: "a-1", targetRoleArn: "" });
});

test("eksctl is shown only for what it has options for", () => {
  const titles = (form: typeof association) => associationCommandsOf("web", form, "eu-west-1").map((c) => c.title);
  expect(titles(association)).toEqual(["AWS CLI", "eksctl", "CloudFormation"]);
  expect(titles({ ...association, targetRoleArn: role })).toEqual(["AWS CLI", "CloudFormation"]);
});
