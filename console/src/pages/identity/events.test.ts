import type { Event } from "@aws-sdk/client-cloudtrail";
import { expect, test } from "vitest";
import { allowing, contextOf, denialOf, isPattern, policyNameOf, without } from "./events";

function eventOf(record: object): Event {
  return { EventId: "4711", EventTime: new Date(0), CloudTrailEvent: JSON.stringify(record) };
}

const who = "arn:aws:sts::111122223333:assumed-role/viewer/alice";
const role = "arn:aws:iam::111122223333:role/viewer";
const issuer = { sessionIssuer: { arn: role } };
const cluster = "arn:aws:eks:eu-west-1:111122223333:cluster/web";

test("a denied call says what was denied, to whom, and which policies apply", () => {
  const denial = denialOf(
    eventOf({
      userIdentity: { type: "AssumedRole", arn: who, sessionContext: issuer },
      eventSource: "eks.amazonaws.com",
      eventName: "CreateCluster",
      errorCode: "AccessDenied",
      errorMessage:
        `User: ${who} is not authorized to perform: iam:PassRole on resource: ${role} ` +
        "because no identity-based policy allows the iam:PassRole action",
    }),
  );
  expect(denial).toMatchObject({ id: "4711", who, principal: role, action: "iam:PassRole", resource: role });
});

test("the encoded message of EC2 is left out", () => {
  const denial = denialOf(
    eventOf({
      userIdentity: { type: "IAMUser", arn: "arn:aws:iam::111122223333:user/alice" },
      eventSource: "ec2.amazonaws.com",
      eventName: "RunInstances",
      errorCode: "Client.UnauthorizedOperation",
      errorMessage:
        "You are not authorized to perform this operation. User: arn:aws:iam::111122223333:user/alice is not " +
        "authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:eu-west-1:111122223333:instance/* because " +
        "no identity-based policy allows the ec2:RunInstances action. Encoded authorization failure message: AQIDBA==",
    }),
  );
  expect(denial?.action).toBe("ec2:RunInstances");
  expect(denial?.resource).toBe("arn:aws:ec2:eu-west-1:111122223333:instance/*");
  expect(denial?.message).toMatch(/the ec2:RunInstances action\.$/);
});

test("a denial without a message of IAM's is about the call", () => {
  const denial = denialOf(
    eventOf({ eventSource: "sts.amazonaws.com", eventName: "GetSessionToken", errorCode: "AccessDenied" }),
  );
  expect(denial).toMatchObject({ action: "sts:GetSessionToken", resource: "*", principal: "", who: "" });
});

test("other events are no denials", () => {
  expect(denialOf(eventOf({ errorCode: "ResourceNotFoundException" }))).toBeUndefined();
  expect(denialOf(eventOf({}))).toBeUndefined();
  expect(denialOf({ CloudTrailEvent: "{" })).toBeUndefined();
});

test("the root user has no policies", () => {
  const arn = "arn:aws:iam::111122223333:root";
  expect(denialOf(eventOf({ userIdentity: { arn }, errorCode: "AccessDenied" }))?.principal).toBe("");
});

test("the context of a call is what its record says", () => {
  const keys = contextOf({ sourceIPAddress: "127.0.0.1", userAgent: "aws-cli", awsRegion: "eu-west-1" });
  expect(keys.map((k) => [k.ContextKeyName, k.ContextKeyValues?.[0]])).toEqual([
    ["aws:SourceIp", "127.0.0.1"],
    ["aws:UserAgent", "aws-cli"],
    ["aws:RequestedRegion", "eu-west-1"],
  ]);
  const service = { sourceIPAddress: "cloudformation.amazonaws.com", userIdentity: { invokedBy: "cloudformation" } };
  expect(contextOf({ ...service, userAgent: "cloudformation.amazonaws.com" })).toEqual([]);
});

test("the policy that is missing allows what was denied", () => {
  const denial = denialOf(
    eventOf({
      errorCode: "AccessDenied",
      errorMessage: `User: ${who} is not authorized to perform: eks:DescribeCluster on resource: ${cluster}`,
    }),
  );
  if (denial === undefined) throw new Error("no denial");
  expect(JSON.parse(allowing(denial))).toEqual({
    Version: "2012-10-17",
    Statement: [{ Effect: "Allow", Action: "eks:DescribeCluster", Resource: cluster }],
  });
  expect(policyNameOf(denial, [])).toBe("allow-eks-DescribeCluster");
  expect(policyNameOf(denial, ["allow-eks-DescribeCluster", "other"])).toBe("allow-eks-DescribeCluster-2");
});

test.each([
  ["sts:AssumeRole on resource: arn:aws:iam::111122223333:role/deploy", false],
  ["sts:AssumeRole on resource: arn:aws:iam::111122223333:role/*", true],
  ["sts:AssumeRole on resource: arn:aws:iam::111122223333:role/deploye?", true],
  ["sts:AssumeRole on resource: arn:aws:iam::111122223333:role/${aws:username}", true],
  ["ec2:DescribeInstances", true],
  ["eks:ListClusters on resource: arn:aws:eks:eu-west-1:111122223333:cluster/*", false],
])("a denied %s names a pattern: %j", (what, wanted) => {
  const errorMessage = `User: ${who} is not authorized to perform: ${what} because no policy allows it`;
  const denial = denialOf(eventOf({ errorCode: "AccessDenied", errorMessage }));
  expect(denial !== undefined && isPattern(denial)).toBe(wanted);
});

test("a pattern in the request of a list is one of the caller", () => {
  const errorMessage = `User: ${who} is not authorized to perform: eks:ListNodegroups on resource: ${cluster}*`;
  const listing = (name: string) =>
    denialOf(eventOf({ errorCode: "AccessDenied", errorMessage, requestParameters: { name } }));
  expect([listing("web*"), listing("web")].map((denial) => denial && isPattern(denial))).toEqual([true, false]);
});

test("a statement is taken out of its policy", () => {
  const deny = { Effect: "Deny", Action: "eks:*", Resource: "*" };
  const allow = { Effect: "Allow", Action: "*", Resource: "*" };
  const policy = JSON.stringify({ Version: "2012-10-17", Statement: [allow, deny] });
  expect(JSON.parse(without(policy, JSON.stringify(deny, null, 2)) ?? "")).toEqual({
    Version: "2012-10-17",
    Statement: [allow],
  });
  expect(without(JSON.stringify({ Statement: deny }), JSON.stringify(deny))).toBeUndefined();
  expect(without(policy, "{}")).toBeUndefined();
  expect(without(policy, "")).toBeUndefined();
});
