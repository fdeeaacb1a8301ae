// Stacks and their events, as CloudFormation describes them.
import type { StackEvent } from "@aws-sdk/client-cloudformation";

/** StackAddress returns the path of the page of a stack. A deleted stack is found by its ID only. */
export function stackAddress(nameOrId: string): string {
  return `/stacks/${encodeURIComponent(nameOrId)}`;
}

/** StackName returns the name of a stack of which the name or the ID is known. */
export function stackName(nameOrId: string): string {
  return /^arn:[^:]*:cloudformation:[^:]*:[^:]*:stack\/([^/]+)\//.exec(nameOrId)?.[1] ?? nameOrId;
}

/** IsChanging reports whether a stack or a resource is on its way to another status. */
export function isChanging(status: string | undefined): boolean {
  return status?.endsWith("_IN_PROGRESS") ?? false;
}

/** HasFailed reports whether the last operation on a stack did not do what it was to do. */
export function hasFailed(status: string | undefined): boolean {
  return status !== undefined && /(_FAILED|ROLLBACK_COMPLETE|ROLLBACK_IN_PROGRESS)$/.test(status);
}

/**
 * RootCause returns the event that made the last operation on a stack fail: the first failure of a resource that was
 * not canceled for the failure of another. Events are in CloudFormation's order, the last first.
 */
export function rootCause(events: StackEvent[]): StackEvent | undefined {
  let cause: StackEvent | undefined;
  for (const event of events) {
    const ofStack = event.PhysicalResourceId === event.StackId;
    const status = event.ResourceStatus ?? "";
    if (ofStack && /^(CREATE|UPDATE|DELETE|IMPORT)_IN_PROGRESS$/.test(status)) break;
    const canceled = /cancell?ed/i.test(event.ResourceStatusReason ?? "");
    if (!ofStack && status.endsWith("_FAILED") && !canceled) cause = event;
  }
  return cause;
}

/** The pages that show resources of a type, by their physical ID. */
const pages: Record<string, string> = {
  "AWS::CloudFormation::Stack": "/stacks",
  "AWS::EC2::Instance": "/instances",
  "AWS::EC2::Volume": "/volumes",
  "AWS::ECR::Repository": "/repositories",
  "AWS::EKS::Cluster": "/clusters",
  "AWS::IAM::Role": "/iam-roles",
  "AWS::IAM::User": "/iam-users",
};

/** ResourceAddress returns the path of the page of a resource, where the console has one. */
export function resourceAddress(type: string | undefined, physicalId: string | undefined): string | undefined {
  const page = pages[type ?? ""];
  if (page === undefined || physicalId === undefined || physicalId === "") return undefined;
  return `${page}/${encodeURIComponent(physicalId)}`;
}
