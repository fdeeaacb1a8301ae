// The policies of roles and users, and the statements that decide simulated requests.
import {
  type EvaluationResult,
  GetGroupPolicyCommand,
  GetPolicyCommand,
  GetPolicyVersionCommand,
  GetRolePolicyCommand,
  GetUserPolicyCommand,
  IAMClient,
  paginateListAttachedGroupPolicies,
  paginateListAttachedRolePolicies,
  paginateListAttachedUserPolicies,
  paginateListGroupPolicies,
  paginateListGroupsForUser,
  paginateListRolePolicies,
  paginateListUserPolicies,
  type Statement,
} from "@aws-sdk/client-iam";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useClient } from "../../aws/client";
import { awsKey, slow } from "../../aws/queries";

/** A principal that policies are attached to. */
export interface Principal {
  kind: "role" | "user";
  name: string;
}

/** A policy of a principal, with its document as it was given. */
export interface GrantedPolicy {
  /** The name that policy simulations give it: "role_web_inline", "AmazonEKSClusterPolicy". */
  sourceId: string;
  name: string;
  type: "AWS managed" | "Customer managed" | "Customer inline";
  arn?: string;
  /** The group that a user has it from. */
  group?: string;
  document: string;
}

/** PrincipalOf returns the role or the user that an ARN names. */
export function principalOf(arn: string): Principal | undefined {
  const match = /^arn:[^:]*:(iam|sts)::\d*:(role|user|assumed-role)\/(.+)$/.exec(arn);
  const [, , kind, path = ""] = match ?? [];
  const parts = path.split("/");
  switch (kind) {
    case "assumed-role":
      return { kind: "role", name: parts[0] ?? "" };
    case "role":
    case "user":
      return { kind, name: parts.at(-1) ?? "" };
    default:
      return undefined;
  }
}

/** PrincipalAddress returns the path of the page of a role or a user. */
export function principalAddress({ kind, name }: Principal): string {
  return `/iam-${kind}s/${encodeURIComponent(name)}`;
}

/** DecodeDocument returns the text of a policy, which IAM returns encoded as in a URL. */
export function decodeDocument(document: string | undefined): string {
  try {
    return decodeURIComponent(document ?? "");
  } catch {
    return document ?? "";
  }
}

/** FormatDocument returns the text of a policy with a member on each line. */
export function formatDocument(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

interface TrustStatement {
  Effect?: string;
  Principal?: string | Record<string, string | string[]>;
}

/** TrustedEntities returns who may assume a role, by its trust policy. */
export function trustedEntities(document: string): string[] {
  try {
    const { Statement } = JSON.parse(document) as { Statement?: TrustStatement | TrustStatement[] };
    const entities = [Statement ?? []]
      .flat()
      .filter(({ Effect }) => Effect === "Allow")
      .flatMap(({ Principal = {} }) => (typeof Principal === "string" ? [Principal] : Object.values(Principal).flat()));
    return [...new Set(entities)];
  } catch {
    return [];
  }
}

/** StatementAt cuts a statement out of the text of its policy. Lines and columns count from 1, behind its braces. */
export function statementAt(text: string, { StartPosition, EndPosition }: Statement): string {
  const lines = text.split("\n");
  const offset = ({ Line = 1, Column = 1 }: { Line?: number; Column?: number } = {}) =>
    lines.slice(0, Line - 1).reduce((sum, line) => sum + line.length + 1, 0) + Column - 1;
  return text.slice(Math.max(offset(StartPosition) - 1, 0), offset(EndPosition));
}

/** A statement that decided a simulated request. */
export interface Decision {
  policy: string;
  /** Its text; empty where the policy is none of those that are known. */
  text: string;
}

/** Deciding returns the statements that decided a request: those that deny it where one does, else those that allow. */
export function deciding(result: EvaluationResult, policies: GrantedPolicy[]): Decision[] {
  const effect = result.EvalDecision === "explicitDeny" ? "Deny" : "Allow";
  return (result.MatchedStatements ?? [])
    .map((statement) => {
      const source = policies.find((p) => p.sourceId === statement.SourcePolicyId);
      const text = source === undefined ? "" : formatDocument(statementAt(source.document, statement));
      return { policy: statement.SourcePolicyId ?? "", text };
    })
    .filter(({ text }) => {
      const stated = /"Effect":\s*"(\w+)"/.exec(text)?.[1];
      return stated === undefined || stated === effect;
    });
}

/** Explain says why a request was decided as it was. */
export function explain(result: EvaluationResult, decisions: Decision[]): string {
  const names = [...new Set(decisions.map(({ policy }) => policy))].join(", ");
  switch (result.EvalDecision) {
    case "allowed":
      return `Allowed by ${names}.`;
    case "explicitDeny":
      return `Denied by ${names}.`;
    default:
      return result.PermissionsBoundaryDecisionDetail?.AllowedByPermissionsBoundary === false
        ? "The permissions boundary does not allow it."
        : "No statement allows it.";
  }
}

/** SplitWords splits what was entered at white space and commas. */
export function splitWords(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== "");
}

async function collect<P, T>(pages: AsyncIterable<P>, pick: (page: P) => T[] | undefined): Promise<T[]> {
  const all: T[] = [];
  for await (const page of pages) all.push(...(pick(page) ?? []));
  return all;
}

/** PoliciesOf reads the policies of a principal, a user's groups included. */
export async function policiesOf(client: IAMClient, { kind, name }: Principal): Promise<GrantedPolicy[]> {
  if (kind === "role") {
    const of = { RoleName: name };
    const inline = await collect(paginateListRolePolicies({ client }, of), (page) => page.PolicyNames);
    const attached = await collect(paginateListAttachedRolePolicies({ client }, of), (page) => page.AttachedPolicies);
    return [
      ...(await Promise.all(
        inline.map(async (PolicyName) => {
          const { PolicyDocument } = await client.send(new GetRolePolicyCommand({ ...of, PolicyName }));
          return inlinePolicy("role", name, PolicyName, PolicyDocument);
        }),
      )),
      ...(await Promise.all(attached.map(({ PolicyArn = "" }) => managedPolicy(client, PolicyArn)))),
    ];
  }
  const of = { UserName: name };
  const inline = await collect(paginateListUserPolicies({ client }, of), (page) => page.PolicyNames);
  const attached = await collect(paginateListAttachedUserPolicies({ client }, of), (page) => page.AttachedPolicies);
  const groups = await collect(paginateListGroupsForUser({ client }, of), (page) => page.Groups);
  return [
    ...(await Promise.all(
      inline.map(async (PolicyName) => {
        const { PolicyDocument } = await client.send(new GetUserPolicyCommand({ ...of, PolicyName }));
        return inlinePolicy("user", name, PolicyName, PolicyDocument);
      }),
    )),
    ...(await Promise.all(attached.map(({ PolicyArn = "" }) => managedPolicy(client, PolicyArn)))),
    ...(await Promise.all(groups.map(({ GroupName = "" }) => groupPolicies(client, GroupName)))).flat(),
  ];
}

async function groupPolicies(client: IAMClient, group: string): Promise<GrantedPolicy[]> {
  const of = { GroupName: group };
  const inline = await collect(paginateListGroupPolicies({ client }, of), (page) => page.PolicyNames);
  const attached = await collect(paginateListAttachedGroupPolicies({ client }, of), (page) => page.AttachedPolicies);
  const granted = [
    ...(await Promise.all(
      inline.map(async (PolicyName) => {
        const { PolicyDocument } = await client.send(new GetGroupPolicyCommand({ ...of, PolicyName }));
        return inlinePolicy("group", group, PolicyName, PolicyDocument);
      }),
    )),
    ...(await Promise.all(attached.map(({ PolicyArn = "" }) => managedPolicy(client, PolicyArn)))),
  ];
  return granted.map((policy) => ({ ...policy, group }));
}

function inlinePolicy(kind: string, owner: string, name: string, document: string | undefined): GrantedPolicy {
  const sourceId = `${kind}_${owner}_${name}`;
  return { sourceId, name, type: "Customer inline", document: decodeDocument(document) };
}

async function managedPolicy(client: IAMClient, PolicyArn: string): Promise<GrantedPolicy> {
  const { Policy } = await client.send(new GetPolicyCommand({ PolicyArn }));
  const VersionId = Policy?.DefaultVersionId ?? "v1";
  const { PolicyVersion } = await client.send(new GetPolicyVersionCommand({ PolicyArn, VersionId }));
  const name = Policy?.PolicyName ?? PolicyArn.slice(PolicyArn.lastIndexOf("/") + 1);
  const type = /^arn:[^:]*:iam::aws:/.test(PolicyArn) ? "AWS managed" : "Customer managed";
  return { sourceId: name, name, type, arn: PolicyArn, document: decodeDocument(PolicyVersion?.Document) };
}

/** UsePolicies reads the policies of a principal; of none where there is none. */
export function usePolicies(principal: Principal | undefined): UseQueryResult<GrantedPolicy[]> {
  const client = useClient(IAMClient);
  return useQuery<GrantedPolicy[]>({
    queryKey: [...awsKey(IAMClient, policiesOf), principal ?? null],
    queryFn: () => (principal === undefined ? [] : policiesOf(client, principal)),
    refetchInterval: slow,
  });
}
