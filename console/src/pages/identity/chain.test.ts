import { expect, test } from "vitest";
import type { KubernetesObject } from "../../kubernetes/objects";
import { credentialsOf, type Pod, roleAnnotation, serviceAccountOf } from "./chain";

const metadata = { name: "web", namespace: "default", uid: "1", resourceVersion: "1", creationTimestamp: "" };
const role = "arn:aws:iam::111122223333:role/web";

function pod(env: Record<string, string> = {}): Pod {
  const variables = Object.entries(env).map(([name, value]) => ({ name, value }));
  const spec = { serviceAccountName: "web", containers: [{ name: "proxy" }, { name: "web", env: variables }] };
  return { apiVersion: "v1", kind: "Pod", metadata, spec };
}

function account(annotations: Record<string, string> = {}): KubernetesObject {
  return { apiVersion: "v1", kind: "ServiceAccount", metadata: { ...metadata, annotations } };
}

const association = { associationId: "a-1", roleArn: role };
const identity = { AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://169.254.170.23/v1/credentials" };

test("an association gives its role", () => {
  expect(credentialsOf(pod(identity), account(), association)).toEqual({
    by: "EKS Pod Identity",
    roleArn: role,
    associationId: "a-1",
  });
});

test("an association comes before the annotation", () => {
  const annotated = account({ [roleAnnotation]: "arn:aws:iam::111122223333:role/other" });
  expect(credentialsOf(pod(identity), annotated, association).roleArn).toBe(role);
});

test("a pod that is older than the association does not have it", () => {
  expect(credentialsOf(pod(), account(), association).problem).toContain("Delete the pod");
});

test("the annotation gives its role", () => {
  const annotated = account({ [roleAnnotation]: role });
  const chain = credentialsOf(pod({ AWS_ROLE_ARN: role }), annotated, undefined);
  expect(chain).toEqual({ by: "IAM roles for service accounts", roleArn: role });
});

test("a pod keeps the role that it was created with", () => {
  const annotated = account({ [roleAnnotation]: "arn:aws:iam::111122223333:role/next" });
  const chain = credentialsOf(pod({ AWS_ROLE_ARN: role }), annotated, undefined);
  expect(chain.roleArn).toBe(role);
  expect(chain.problem).toContain("role/next");
});

test("without either, there is what the node has", () => {
  expect(credentialsOf(pod(), account(), undefined)).toEqual({ by: "Instance profile" });
  expect(serviceAccountOf({ apiVersion: "v1", kind: "Pod", metadata })).toBe("default");
});

test("keys of the pod's own come first", () => {
  const chain = credentialsOf(pod({ ...identity, AWS_ACCESS_KEY_ID: "AKIA" }), account(), association);
  expect(chain.by).toBe("Environment variables");
});
