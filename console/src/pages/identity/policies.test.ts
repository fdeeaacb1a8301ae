import type { EvaluationResult } from "@aws-sdk/client-iam";
import { expect, test } from "vitest";
import { deciding, decodeDocument, explain, type GrantedPolicy, principalOf } from "./policies";
import { splitWords, statementAt, trustedEntities } from "./policies";

test.each([
  ["arn:aws:iam::111122223333:role/team/web", { kind: "role", name: "web" }],
  ["arn:aws:iam::111122223333:user/alice", { kind: "user", name: "alice" }],
  ["arn:aws:sts::111122223333:assumed-role/web/session", { kind: "role", name: "web" }],
  ["arn:aws:iam::111122223333:root", undefined],
])("%s", (arn, principal) => {
  expect(principalOf(arn)).toEqual(principal);
});

test("a document is decoded, whatever is in it", () => {
  expect(decodeDocument("%7B%22a%22%3A1%7D")).toBe('{"a":1}');
  expect(decodeDocument("100%")).toBe("100%");
});

test("words are split at commas and lines", () => {
  expect(splitWords(" s3:GetObject,\n s3:PutObject ")).toEqual(["s3:GetObject", "s3:PutObject"]);
});

const document = `{"Version": "2012-10-17", "Statement": [
  {"Effect": "Allow", "Action": "s3:*", "Resource": "*"},
  {"Effect": "Deny", "Action": "s3:DeleteObject",
   "Resource": "secret"}
]}`;
const allow = {
  SourcePolicyId: "role_web_inline",
  StartPosition: { Line: 2, Column: 4 },
  EndPosition: { Line: 2, Column: 57 },
};
const deny = {
  SourcePolicyId: "role_web_inline",
  StartPosition: { Line: 3, Column: 4 },
  EndPosition: { Line: 4, Column: 25 },
};
const policies: GrantedPolicy[] = [
  { sourceId: "role_web_inline", name: "inline", type: "Customer inline", document },
];

test("a statement is cut out of its policy", () => {
  expect(JSON.parse(statementAt(document, allow))).toEqual({ Effect: "Allow", Action: "s3:*", Resource: "*" });
  expect(JSON.parse(statementAt(document, deny))).toMatchObject({ Effect: "Deny", Resource: "secret" });
});

test("the statement that denies decides", () => {
  const result: EvaluationResult = {
    EvalActionName: "s3:DeleteObject",
    EvalDecision: "explicitDeny",
    MatchedStatements: [allow, deny],
  };
  const decisions = deciding(result, policies);
  expect(decisions).toHaveLength(1);
  expect(decisions[0]?.text).toContain("s3:DeleteObject");
  expect(explain(result, decisions)).toBe("Denied by role_web_inline.");
});

test("what no statement allows is denied", () => {
  const result: EvaluationResult = { EvalActionName: "ec2:RunInstances", EvalDecision: "implicitDeny" };
  expect(explain(result, deciding(result, policies))).toBe("No statement allows it.");
});

test("a statement of a policy that is not known counts by its name", () => {
  const result: EvaluationResult = {
    EvalActionName: "s3:GetObject",
    EvalDecision: "allowed",
    MatchedStatements: [{ SourcePolicyId: "Elsewhere" }],
  };
  expect(deciding(result, policies)).toEqual([{ policy: "Elsewhere", text: "" }]);
});

test("the entities that a role trusts", () => {
  const Statement = [
    { Effect: "Allow", Principal: { Service: ["eks.amazonaws.com", "pods.eks.amazonaws.com"] } },
    { Effect: "Deny", Principal: "*" },
  ];
  expect(trustedEntities(JSON.stringify({ Statement }))).toEqual(["eks.amazonaws.com", "pods.eks.amazonaws.com"]);
  expect(trustedEntities(JSON.stringify({ Statement: { Effect: "Allow", Principal: "*" } }))).toEqual(["*"]);
  expect(trustedEntities("")).toEqual([]);
});
