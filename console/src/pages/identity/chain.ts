// The chain of a pod's credentials: from its service account to the role that its containers act as.
import type { PodIdentityAssociation } from "@aws-sdk/client-eks";
import type { KubernetesObject } from "../../kubernetes/objects";

export interface Pod extends KubernetesObject {
  spec?: {
    serviceAccountName?: string;
    nodeName?: string;
    hostNetwork?: boolean;
    containers?: { name: string; env?: { name: string; value?: string }[] }[];
  };
}

/** The annotation of IAM roles for service accounts. */
export const roleAnnotation = "eks.amazonaws.com/role-arn";

/** How a pod comes by credentials. */
export interface Chain {
  by: "EKS Pod Identity" | "IAM roles for service accounts" | "Environment variables" | "Instance profile";
  /** The role; of an instance profile it is the node's. */
  roleArn?: string;
  /** The role that the first one assumes, of another account. */
  targetRoleArn?: string;
  associationId?: string;
  /** What keeps the pod from having the credentials that its service account stands for. */
  problem?: string;
}

function valueOf(pod: Pod, name: string): string | undefined {
  for (const { env } of pod.spec?.containers ?? []) {
    const found = env?.find((variable) => variable.name === name);
    if (found !== undefined) return found.value ?? "";
  }
  return undefined;
}

/** ServiceAccountOf returns the name of the service account of a pod. */
export function serviceAccountOf(pod: Pod): string {
  return pod.spec?.serviceAccountName ?? "default";
}

/**
 * CredentialsOf returns how a pod comes by credentials. An association comes before the annotation, as in EKS's
 * webhook, and both count only for pods created after them: the webhook writes environment variables into new pods.
 */
export function credentialsOf(
  pod: Pod,
  serviceAccount: KubernetesObject | undefined,
  association: PodIdentityAssociation | undefined,
): Chain {
  const annotated = serviceAccount?.metadata.annotations?.[roleAnnotation];
  const identity = valueOf(pod, "AWS_CONTAINER_CREDENTIALS_FULL_URI") !== undefined;
  const web = valueOf(pod, "AWS_ROLE_ARN");
  const recreate = "The pod was created without it. Delete the pod to have it replaced.";
  if (valueOf(pod, "AWS_ACCESS_KEY_ID") !== undefined) return { by: "Environment variables" };
  if (association !== undefined) {
    const { roleArn, targetRoleArn, associationId } = association;
    const chain: Chain = { by: "EKS Pod Identity", roleArn, targetRoleArn, associationId };
    if (identity) return chain;
    return { ...chain, problem: `${associationId ?? "The association"} is not in effect. ${recreate}` };
  }
  if (annotated !== undefined) {
    const chain: Chain = { by: "IAM roles for service accounts", roleArn: web ?? annotated };
    if (web === undefined) return { ...chain, problem: `The annotation is not in effect. ${recreate}` };
    if (web === annotated) return chain;
    return { ...chain, problem: `The annotation names ${annotated} now. Delete the pod to have it replaced.` };
  }
  if (identity) {
    return { by: "EKS Pod Identity", problem: "The association of its service account was deleted." };
  }
  if (web !== undefined) return { by: "IAM roles for service accounts", roleArn: web };
  return { by: "Instance profile" };
}
