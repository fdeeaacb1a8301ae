import { expect, test } from "vitest";
import { missingPolicies, roleName, trusts } from "./roles";

test.each([
  ['{"Statement":{"Effect":"Allow","Principal":{"Service":"eks.amazonaws.com"}}}', true],
  ['{"Statement":[{"Effect":"Allow","Principal":{"Service":["ec2.amazonaws.com","eks.amazonaws.com"]}}]}', true],
  ['{"Statement":[{"Effect":"Deny","Principal":{"Service":"eks.amazonaws.com"}}]}', false],
  ['{"Statement":[{"Effect":"Allow","Principal":"*"}]}', false],
  ["not a policy", false],
])("%s", (policy, trusted) => {
  expect(trusts(encodeURIComponent(policy), "eks.amazonaws.com")).toBe(trusted);
});

test("a role's name is the end of its ARN", () => {
  expect(roleName("arn:aws:iam::111122223333:role/eks/node")).toBe("node");
});

test("of policies that do the same, one suffices", () => {
  expect(missingPolicies([["A", "B"], ["C"]], ["B"])).toEqual(["C"]);
});
