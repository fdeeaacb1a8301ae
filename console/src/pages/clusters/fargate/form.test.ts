import { expect, test } from "vitest";
import { parse } from "yaml";
import { subjectOf } from "../forms/problems";
import { commandsOf, emptyForm, type Form, namespaceProblem, problemsOf, requestOf, subjects } from "./form";

const form: Form = {
  ...emptyForm,
  name: "web",
  roleArn: "arn:aws:iam::111122223333:role/pods",
  selectors: [{ namespace: "web-*", labels: [{ key: "team", value: "blue" }] }],
};
const subnets = ["subnet-1"];

test("a whole form has no problems", () => {
  expect(problemsOf(form, subnets)).toEqual({});
});

test.each<[Partial<Form>, string[], keyof Form]>([
  [{ name: "" }, subnets, "name"],
  [{ name: "eks-x" }, subnets, "name"],
  [{ name: "a.b" }, subnets, "name"],
  [{ roleArn: "" }, subnets, "roleArn"],
  [{}, [], "subnetIds"],
  [{ selectors: [] }, subnets, "selectors"],
  [{ selectors: [{ namespace: "", labels: [] }] }, subnets, "selectors"],
  [{ selectors: [{ namespace: "web", labels: [{ key: "a b", value: "" }] }] }, subnets, "selectors"],
  [{ tags: [{ key: "", value: "" }] }, subnets, "tags"],
])("%j with the subnets %j is a problem of %s", (change, ids, member) => {
  expect(Object.keys(problemsOf({ ...form, ...change }, ids))).toEqual([member]);
});

test.each([
  ["default", true],
  ["web-*", true],
  ["?", true],
  ["Web", false],
  ["a/b", false],
])("the namespace %s is good: %j", (namespace, good) => {
  expect(namespaceProblem(namespace) === undefined).toBe(good);
});

test("other tools make the same profile", () => {
  const vpc = { id: "vpc-1", securityGroup: "sg-1", subnets: { private: { "subnet-1": { id: "subnet-1" } } } };
  const [aws, eksctl, template] = commandsOf(form, { name: "demo" }, subnets, "eu-west-1", vpc).map(
    ({ text }) => text,
  );
  expect(aws).toContain("--pod-execution-role-arn arn:aws:iam::111122223333:role/pods");
  expect(aws).toContain(`--selectors '[{"namespace":"web-*","labels":{"team":"blue"}}]'`);
  const [, command, file] = /^(.*?)<<'EOF'\n(.*)EOF$/s.exec(eksctl?.trimEnd() ?? "") ?? [];
  expect(command).toBe("eksctl create fargateprofile -f - ");
  expect(parse(file ?? "")).toMatchObject({
    metadata: { name: "demo", region: "eu-west-1" },
    vpc,
    fargateProfiles: [{ name: "web", selectors: [{ namespace: "web-*", labels: { team: "blue" } }] }],
  });
  expect(parse(template ?? "")).toMatchObject({
    Resources: {
      FargateProfile: {
        Type: "AWS::EKS::FargateProfile",
        Properties: {
          ClusterName: "demo",
          Selectors: [{ Namespace: "web-*", Labels: [{ Key: "team", Value: "blue" }] }],
        },
      },
    },
  });
});

test("labels of selectors and tags are left out where there are none", () => {
  const request = requestOf({ ...form, selectors: [{ namespace: "web", labels: [] }] }, "demo", subnets);
  expect(request.selectors).toEqual([{ namespace: "web", labels: undefined }]);
  expect(request.tags).toBeUndefined();
});

test.each<[string, keyof Form]>([
  ["A Fargate Profile already exists with this name in this cluster.", "name"],
  ["Misconfigured PodExecutionRole Trust Policy; Please add the eks-fargate-pods Service Principal", "roleArn"],
  ["Subnet subnet-1 provided in Fargate Profile is not a private subnet", "subnetIds"],
  ["Request contains Selector with more than 5 Label pairs", "selectors"],
])("%s is about %s", (message, member) => {
  expect(subjectOf(subjects, new Error(message))).toBe(member);
});
