// The requests that the forms of a cluster's access make, and what is the same for other tools.
import type {
  AccessScope,
  AssociateAccessPolicyRequest,
  CreateAccessEntryRequest,
  CreatePodIdentityAssociationRequest,
  PodIdentityAssociation,
  UpdatePodIdentityAssociationRequest,
} from "@aws-sdk/client-eks";
import { awsCommand, cloudFormationResource, type Command, inTurn } from "../../../commands/command";
import { eksctlCommand, eksctlFile } from "../../../commands/eksctl";
import type { Tags } from "../forms/TagFields";
import { tagsOf } from "../addon/request";

/** The types of access entries, with AWS's names for them. */
export const entryTypes = [
  { value: "STANDARD", label: "Standard", description: "For users and roles: username, groups and access policies." },
  { value: "EC2_LINUX", label: "EC2 Linux", description: "For the role of self-managed Linux nodes." },
  { value: "EC2_WINDOWS", label: "EC2 Windows", description: "For the role of self-managed Windows nodes." },
  { value: "FARGATE_LINUX", label: "Fargate Linux", description: "For a Fargate pod execution role." },
  { value: "EC2", label: "EC2", description: "For the role of nodes of EKS Auto Mode." },
  { value: "HYBRID_LINUX", label: "Hybrid Linux", description: "For the role of EKS Hybrid Nodes." },
  { value: "HYPERPOD_LINUX", label: "HyperPod Linux", description: "For the role of SageMaker HyperPod nodes." },
];

/** HasPolicies reports whether access policies can be associated with entries of a type. */
export const hasPolicies = (type: string) => type === "STANDARD" || type === "EC2";

/** A policy of the form, with its scope. */
export interface Policy {
  policyArn: string;
  scope: "cluster" | "namespace";
  namespaces: string[];
}

export const newPolicy: Policy = { policyArn: "", scope: "cluster", namespaces: [] };

/** What the form of an access entry holds. */
export interface EntryForm {
  principalArn: string;
  type: string;
  username: string;
  groups: string[];
  policies: Policy[];
  tags: Tags;
}

export const newEntry: EntryForm = {
  principalArn: "",
  type: "STANDARD",
  username: "",
  groups: [],
  policies: [],
  tags: [],
};

const principalPattern = /^arn:aws[a-z-]*:iam::\d{12}:(role|user)\/.+$/;
const rolePattern = /^arn:aws[a-z-]*:iam::\d{12}:role\/.+$/;
const reserved = ["system:", "eks:", "aws:", "amazon:", "iam:"];

/** GroupProblem says what is wrong with the groups of an entry. */
export function groupProblem(groups: string[]): string | undefined {
  const group = groups.find((g) => reserved.some((prefix) => g.startsWith(prefix)));
  const prefix = reserved.find((p) => group?.startsWith(p));
  if (group === undefined || prefix === undefined) return undefined;
  return `The kubernetes group name ${group} is invalid, it cannot start with ${prefix}`;
}

/** UsernameProblem says what is wrong with the username of an entry. */
export function usernameProblem(username: string): string | undefined {
  const prefix = reserved.find((p) => username.startsWith(p));
  return prefix === undefined ? undefined : `The username must not begin with ${prefix}`;
}

/** PolicyProblem says what is wrong with a policy and its scope. */
export function policyProblem({ policyArn, scope, namespaces }: Policy): string | undefined {
  if (policyArn === "") return "Choose a policy.";
  if (scope === "namespace" && namespaces.length === 0) return "Enter at least one namespace.";
  const bad = namespaces.find((n) => !/^(\*|[a-z0-9]([a-z0-9-]{0,61}([a-z0-9]|\*))?)$/.test(n));
  if (scope === "cluster" || bad === undefined) return undefined;
  return `${bad} is neither a namespace nor the beginning of one and *.`;
}

/** EntryProblems says what is wrong with the form of an access entry, before EKS does. */
export function entryProblems(form: EntryForm): Partial<Record<"principalArn" | "username" | "groups", string>> {
  const problems: ReturnType<typeof entryProblems> = {};
  const standard = form.type === "STANDARD";
  if (!principalPattern.test(form.principalArn)) problems.principalArn = "Enter the ARN of an IAM role or user.";
  else if (!standard && !rolePattern.test(form.principalArn)) problems.principalArn = "Nodes have the ARN of a role.";
  const username = usernameProblem(form.username);
  const groups = groupProblem(form.groups);
  if (standard && username !== undefined) problems.username = username;
  if (standard && groups !== undefined) problems.groups = groups;
  return problems;
}

/** ScopeOf returns the access scope of a policy. */
export function scopeOf({ scope, namespaces }: Policy): AccessScope {
  return scope === "cluster" ? { type: "cluster" } : { type: "namespace", namespaces };
}

/** EntryRequestsOf returns the request of CreateAccessEntry, and those that associate its policies. */
export function entryRequestsOf(
  clusterName: string,
  form: EntryForm,
): [CreateAccessEntryRequest, AssociateAccessPolicyRequest[]] {
  const { principalArn, type } = form;
  const standard = type === "STANDARD";
  const entry = {
    clusterName,
    principalArn,
    type,
    username: standard && form.username !== "" ? form.username : undefined,
    kubernetesGroups: standard && form.groups.length > 0 ? form.groups : undefined,
    tags: tagsOf(form.tags),
  };
  const policies = hasPolicies(type) ? form.policies : [];
  return [
    entry,
    policies.map((policy) => ({
      clusterName,
      principalArn,
      policyArn: policy.policyArn,
      accessScope: scopeOf(policy),
    })),
  ];
}

/** EntryCommandsOf returns what makes the same access entry elsewhere. */
export function entryCommandsOf(clusterName: string, form: EntryForm, region: string): Command[] {
  const [entry, policies] = entryRequestsOf(clusterName, form);
  const tags = Object.entries(entry.tags ?? {});
  return [
    inTurn(
      awsCommand("eks", "create-access-entry", entry, region),
      ...policies.map((policy) => awsCommand("eks", "associate-access-policy", policy, region)),
    ),
    eksctlFile("create accessentry", clusterName, region, {
      accessConfig: {
        accessEntries: [
          {
            principalARN: entry.principalArn,
            type: entry.type,
            kubernetesUsername: entry.username,
            kubernetesGroups: entry.kubernetesGroups,
            accessPolicies: policies.map(({ policyArn, accessScope }) => ({ policyARN: policyArn, accessScope })),
          },
        ],
      },
    }),
    cloudFormationResource("AccessEntry", "AWS::EKS::AccessEntry", {
      ClusterName: clusterName,
      PrincipalArn: entry.principalArn,
      Type: entry.type,
      Username: entry.username,
      KubernetesGroups: entry.kubernetesGroups,
      AccessPolicies: policies.map(({ policyArn, accessScope }) => ({
        PolicyArn: policyArn,
        AccessScope: { Type: accessScope?.type, Namespaces: accessScope?.namespaces },
      })),
      Tags: tags.length > 0 ? tags.map(([Key, Value]) => ({ Key, Value })) : undefined,
    }),
  ];
}

/** What the form of a pod identity association holds. */
export interface AssociationForm {
  namespace: string;
  serviceAccount: string;
  roleArn: string;
  targetRoleArn: string;
  disableSessionTags: boolean;
  policy: string;
  tags: Tags;
}

export const newAssociation: AssociationForm = {
  namespace: "",
  serviceAccount: "",
  roleArn: "",
  targetRoleArn: "",
  disableSessionTags: false,
  policy: "",
  tags: [],
};

/** AssociationFormOf returns the form of an association that there is. */
export function associationFormOf(association: PodIdentityAssociation): AssociationForm {
  return {
    namespace: association.namespace ?? "",
    serviceAccount: association.serviceAccount ?? "",
    roleArn: association.roleArn ?? "",
    targetRoleArn: association.targetRoleArn ?? "",
    disableSessionTags: association.disableSessionTags ?? false,
    policy: association.policy ?? "",
    tags: [],
  };
}

/** AssociationProblems says what is wrong with the form of an association, before EKS does. */
export function associationProblems(form: AssociationForm): Partial<Record<keyof AssociationForm, string>> {
  const problems: ReturnType<typeof associationProblems> = {};
  if (!rolePattern.test(form.roleArn)) problems.roleArn = "Choose a role, or enter the ARN of one.";
  if (!/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/.test(form.namespace)) problems.namespace = "Enter a namespace.";
  if (!/^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/.test(form.serviceAccount)) {
    problems.serviceAccount = "Enter a service account.";
  }
  if (form.targetRoleArn !== "" && !rolePattern.test(form.targetRoleArn)) {
    problems.targetRoleArn = "Enter the ARN of a role, or nothing.";
  }
  if (form.policy !== "" && !form.disableSessionTags) {
    problems.policy = "Disable session tags to use a session policy.";
  }
  return problems;
}

/** AssociationRequestOf returns the request of CreatePodIdentityAssociation. */
export function associationRequestOf(clusterName: string, form: AssociationForm): CreatePodIdentityAssociationRequest {
  return {
    clusterName,
    namespace: form.namespace,
    serviceAccount: form.serviceAccount,
    roleArn: form.roleArn,
    targetRoleArn: form.targetRoleArn === "" ? undefined : form.targetRoleArn,
    disableSessionTags: form.disableSessionTags ? true : undefined,
    policy: form.policy === "" ? undefined : form.policy,
    tags: tagsOf(form.tags),
  };
}

/** AssociationUpdateOf returns the request of UpdatePodIdentityAssociation: what changes; undefined for nothing. */
export function associationUpdateOf(
  clusterName: string,
  associationId: string,
  form: AssociationForm,
  before: AssociationForm,
): UpdatePodIdentityAssociationRequest | undefined {
  const members = ["roleArn", "targetRoleArn", "disableSessionTags", "policy"] as const;
  const changed = members.filter((member) => form[member] !== before[member]);
  if (changed.length === 0) return undefined;
  return { clusterName, associationId, ...Object.fromEntries(changed.map((member) => [member, form[member]])) };
}

/** AssociationCommandsOf returns what makes the same association elsewhere; update is the request that changes one. */
export function associationCommandsOf(
  clusterName: string,
  form: AssociationForm,
  region: string,
  update?: UpdatePodIdentityAssociationRequest,
): Command[] {
  const request = associationRequestOf(clusterName, form);
  const tags = Object.entries(request.tags ?? {});
  const options = {
    cluster: clusterName,
    namespace: form.namespace,
    "service-account-name": form.serviceAccount,
    "role-arn": form.roleArn,
  };
  // What eksctl has no option for is not shown as if it had.
  const simple = request.targetRoleArn === undefined && request.policy === undefined && !form.disableSessionTags;
  const verb = update === undefined ? "create" : "update";
  return [
    update === undefined
      ? awsCommand("eks", "create-pod-identity-association", request, region)
      : awsCommand("eks", "update-pod-identity-association", update, region),
    ...(simple
      ? [
          eksctlCommand(
            `${verb} podidentityassociation`,
            { ...options, tags: tags.length > 0 ? tags.map(([key, value]) => `${key}=${value}`) : undefined },
            region,
          ),
        ]
      : []),
    cloudFormationResource("PodIdentityAssociation", "AWS::EKS::PodIdentityAssociation", {
      ClusterName: clusterName,
      Namespace: form.namespace,
      ServiceAccount: form.serviceAccount,
      RoleArn: form.roleArn,
      TargetRoleArn: request.targetRoleArn,
      DisableSessionTags: request.disableSessionTags,
      Policy: request.policy,
      Tags: tags.length > 0 ? tags.map(([Key, Value]) => ({ Key, Value })) : undefined,
    }),
  ];
}
