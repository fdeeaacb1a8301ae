import { expect, test } from "vitest";
import { parse } from "yaml";
import { commandsOf, emptyForm, type Form, problemsOf, requestOf } from "./request";

const form: Form = {
  ...emptyForm,
  name: "web",
  version: "1.35",
  roleArn: "arn:aws:iam::111122223333:role/eks",
  subnetIds: ["subnet-1", "subnet-2"],
  logTypes: ["audit"],
};

test("a whole form has no problems", () => {
  expect(problemsOf(form)).toEqual({});
});

test.each<[Partial<Form>, keyof Form]>([
  [{ name: "" }, "name"],
  [{ name: "-a" }, "name"],
  [{ version: "" }, "version"],
  [{ roleArn: "" }, "roleArn"],
  [{ subnetIds: ["subnet-1"] }, "subnetIds"],
  [{ publicAccess: false, privateAccess: false }, "publicAccess"],
  [{ publicAccessCidrs: ["10.0.0.1"] }, "publicAccessCidrs"],
])("%j is a problem of %s", (change, member) => {
  expect(Object.keys(problemsOf({ ...form, ...change }))).toEqual([member]);
});

test("sources of public access are left out of a private endpoint", () => {
  expect(requestOf({ ...form, publicAccess: false }).resourcesVpcConfig?.publicAccessCidrs).toBeUndefined();
});

test("other tools make the same cluster", () => {
  const zones = new Map([["subnet-1", "us-east-1a"]]);
  const [aws, eksctl, template] = commandsOf(form, "us-east-1", zones).map(({ text }) => text);
  expect(aws).toContain("--name web");
  expect(aws).toContain("--kubernetes-version 1.35");
  expect(aws).toContain('"endpointPublicAccess":true');
  expect(parse(eksctl ?? "")).toMatchObject({
    kind: "ClusterConfig",
    vpc: { subnets: { public: { "us-east-1a": { id: "subnet-1" }, "subnet-2": { id: "subnet-2" } } } },
    cloudWatch: { clusterLogging: { enableTypes: ["audit"] } },
  });
  expect(parse(template ?? "")).toMatchObject({
    Resources: { Cluster: { Properties: { Logging: { ClusterLogging: { EnabledTypes: [{ Type: "audit" }] } } } } },
  });
});
