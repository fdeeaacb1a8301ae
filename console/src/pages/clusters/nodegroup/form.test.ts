import { expect, test } from "vitest";
import { subjectOf } from "../forms/problems";
import { emptyForm, type Form, noTemplate, problemsOf, subjects, type Template, templateOf } from "./form";

const form: Form = {
  ...emptyForm,
  name: "web",
  roleArn: "arn:aws:iam::111122223333:role/node",
  subnetIds: ["subnet-1"],
};

test("a whole form has no problems", () => {
  expect(problemsOf(form, noTemplate)).toEqual({});
});

test.each<[Partial<Form>, keyof Form]>([
  [{ name: "" }, "name"],
  [{ name: "-a" }, "name"],
  [{ name: "a".repeat(64) }, "name"],
  [{ roleArn: "" }, "roleArn"],
  [{ tags: [{ key: "aws:x", value: "" }] }, "tags"],
  [{ labels: [{ key: "team", value: "" }] }, "labels"],
  [{ taints: [{ key: "", value: "", effect: "NO_SCHEDULE" }] }, "taints"],
  [{ useTemplate: true }, "templateId"],
  [{ useTemplate: true, templateId: "lt-1" }, "templateVersion"],
  [{ instanceTypes: [] }, "instanceTypes"],
  [{ instanceTypes: Array.from({ length: 21 }, (_, i) => `m${i}.large`) }, "instanceTypes"],
  [{ diskSize: "0" }, "diskSize"],
  [{ diskSize: "20 GiB" }, "diskSize"],
  [{ desiredSize: "x" }, "desiredSize"],
  [{ desiredSize: "1" }, "desiredSize"],
  [{ desiredSize: "3" }, "desiredSize"],
  [{ minSize: "3" }, "minSize"],
  [{ minSize: "0", desiredSize: "0", maxSize: "0" }, "maxSize"],
  [{ unavailable: { unit: "number", text: "" } }, "unavailable"],
  [{ unavailable: { unit: "number", text: "3" } }, "unavailable"],
  [{ unavailable: { unit: "percentage", text: "101" } }, "unavailable"],
  [{ repair: true, parallel: { unit: "number", text: "0" } }, "parallel"],
  [{ repair: true, unhealthy: { unit: "percentage", text: "x" } }, "unhealthy"],
  [{ subnetIds: [] }, "subnetIds"],
  [{ remoteAccess: true, sources: "all" }, "keyPair"],
  [{ remoteAccess: true, keyPair: "ops" }, "sourceGroups"],
])("%j is a problem of %s", (change, member) => {
  expect(Object.keys(problemsOf({ ...form, ...change }, noTemplate))).toEqual([member]);
});

test.each<[string, Partial<Form>, Template]>([
  ["the instance type", { instanceTypes: [] }, templateOf({ InstanceType: "m5.large" })],
  ["the disk size", { diskSize: "" }, templateOf({})],
  ["remote access", { remoteAccess: true }, templateOf({})],
])("a launch template decides %s", (_, change, template) => {
  const templated: Form = { ...form, ...change, useTemplate: true, templateId: "lt-1", templateVersion: "1" };
  expect(problemsOf(templated, template)).toEqual({});
});

test("two taints of a key have two effects", () => {
  const taint = { key: "gpu", value: "" };
  expect(
    problemsOf(
      {
        ...form,
        taints: [
          { ...taint, effect: "NO_SCHEDULE" },
          { ...taint, effect: "NO_EXECUTE" },
        ],
      },
      noTemplate,
    ),
  ).toEqual({});
});

// The messages are those of internal/aws/eks/nodegroup.
test.each<[string, keyof Form]>([
  ["NodeGroup already exists with name web and cluster name demo", "name"],
  ["The nodegroup name parameter contains invalid characters. It should begin with letter or digit", "name"],
  ["nodegroupName can't be longer than 63 characters, but x has 64", "name"],
  [
    "Following required service principals [ec2.amazonaws.com] were not found in the trust relationships of nodeRole x",
    "roleArn",
  ],
  ["The role with name nobody cannot be found. (Service: Iam, Status Code: 404, Request ID: x)", "roleArn"],
  ["Cross-account pass role is not allowed.", "roleArn"],
  ["Minimum capacity 2 can't be greater than desired size 1", "minSize"],
  ["desired capacity 4 can't be greater than max size 3", "desiredSize"],
  ["max-unavailable must be within the range 1 and max size of the node group", "unavailable"],
  ["Label cannot contain reserved prefixes [kubernetes.io/, k8s.io/, eks.amazonaws.com/]", "labels"],
  ["Taint with key a and effect NO_SCHEDULE is specified more than once", "taints"],
  ["maxUnhealthyNodeThresholdCount and maxUnhealthyNodeThresholdPercentage can't be specified together", "unhealthy"],
  ["[t4g.medium] is not a valid instance type for requested amiType AL2023_x86_64_STANDARD", "instanceTypes"],
  ["The following supplied instance types do not exist: [x9.huge, y9.huge]", "instanceTypes"],
  ["AMI Type AL2_x86_64 is only supported for kubernetes versions 1.32 or earlier", "amiType"],
  ["Requested release version x is not valid for kubernetes version 1.35.", "amiType"],
  ["diskSize 0 is invalid: it must be between 1 and 16384 GiB", "diskSize"],
  ["The specified launch template, with template ID lt-0123456789abcdef0, does not exist.", "templateId"],
  ["Could not find the specified version 7 for the launch template with ID lt-1", "templateVersion"],
  ["User data was not in the MIME multipart format.", "templateId"],
  ["IAM instance profile is not supported with the launch template. Specify nodeRole instead.", "templateId"],
  ["The subnet ID 'subnet-x' does not exist (Service: Ec2, Status Code: 400, Request ID: x)", "subnetIds"],
  ["KeyPair ops.pem not found", "keyPair"],
  ["The security group 'sg-x' does not exist (Service: Ec2)", "sourceGroups"],
])("%s is about %s", (message, member) => {
  expect(subjectOf(subjects, new Error(message))).toBe(member);
});

test("an error about something else is about no field", () => {
  expect(subjectOf(subjects, new Error("Cluster 'web' is not in ACTIVE status"))).toBeUndefined();
});
