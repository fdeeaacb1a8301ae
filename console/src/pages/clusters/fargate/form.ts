// What the form of a Fargate profile holds, the request that it makes, and what is the same for other tools.
import type { Cluster, CreateFargateProfileRequest } from "@aws-sdk/client-eks";
import { awsCommand, cloudFormationResource, type Command } from "../../../commands/command";
import { eksctlFile } from "../../../commands/eksctl";
import { propertiesOf } from "../forms/cloudformation";
import type { EksctlVpc } from "../forms/eksctl";
import {
  anyProblem,
  labelKeyProblem,
  labelValueProblem,
  type Pair,
  type PairProblem,
  type Problems,
  recordOf,
  type Subjects,
  tagProblems,
} from "../forms/problems";

/** Pods of a namespace, with labels. */
export interface Selector {
  namespace: string;
  labels: Pair[];
}

/** What the form of a Fargate profile holds. */
export interface Form {
  name: string;
  roleArn: string;
  /** Undefined until somebody chooses: the private ones of the cluster. */
  subnetIds?: string[];
  tags: Pair[];
  selectors: Selector[];
}

/** The form as AWS's console opens it. */
export const emptyForm: Form = {
  name: "",
  roleArn: "",
  tags: [],
  selectors: [{ namespace: "", labels: [] }],
};

export const mostSelectors = 5;
export const mostSelectorLabels = 5;

const namePattern = /^[\p{L}\p{N}]([\p{L}\p{N}_-]*[\p{L}\p{N}])?$/u;

/** ProblemsOf says what is wrong with the form of a Fargate profile. */
export function problemsOf(form: Form, subnetIds: string[]): Problems<Form> {
  const problems: Problems<Form> = {};
  if (form.name === "") problems.name = "Enter a name.";
  else if (form.name.length > 63 || !namePattern.test(form.name)) {
    problems.name = "Use up to 63 letters, digits, hyphens and underscores; begin and end with a letter or a digit.";
  } else if (form.name.startsWith("eks-")) problems.name = "Names that begin with eks- are reserved.";
  if (form.roleArn === "") problems.roleArn = "Select a role.";
  if (subnetIds.length === 0) problems.subnetIds = "Select a private subnet.";
  const tags = anyProblem(tagProblems(form.tags), 50, "tags");
  if (tags !== undefined) problems.tags = tags;
  if (form.selectors.length === 0) problems.selectors = "Add a pod selector.";
  else if (form.selectors.some((selector) => isWrong(selector))) problems.selectors = "Correct the pod selectors.";
  return problems;
}

const isWrong = (selector: Selector) =>
  namespaceProblem(selector.namespace) !== undefined ||
  anyProblem(selectorLabelProblems(selector.labels), mostSelectorLabels, "labels") !== undefined;

/** Example returns a text that a pattern with wildcards matches. */
const example = (pattern: string) => pattern.replaceAll(/[*?]/g, "a");

/** NamespaceProblem says what is wrong with the namespace of a selector, which may have wildcards. */
export function namespaceProblem(namespace: string): string | undefined {
  if (namespace === "") return "Enter a namespace.";
  return namespace.length > 63 || !/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(example(namespace))
    ? "Use up to 63 lowercase letters, digits and hyphens, and the wildcards * and ?."
    : undefined;
}

/** SelectorLabelProblems says what is wrong with the labels of a selector, which may have wildcards. */
export function selectorLabelProblems(labels: Pair[]): PairProblem[] {
  return labels.map(({ key, value }, i) => ({
    key:
      labelKeyProblem(example(key)) ??
      (labels.findIndex((other) => other.key === key) < i ? "Keys are unique." : undefined),
    value: labelValueProblem(example(value)),
  }));
}

/** RequestOf returns the request of CreateFargateProfile. */
export function requestOf(form: Form, clusterName: string, subnetIds: string[]): CreateFargateProfileRequest {
  return {
    clusterName,
    fargateProfileName: form.name,
    podExecutionRoleArn: form.roleArn,
    subnets: subnetIds,
    selectors: form.selectors.map(({ namespace, labels }) => ({ namespace, labels: recordOf(labels) })),
    tags: recordOf(form.tags),
  };
}

/** CommandsOf returns what makes the same Fargate profile elsewhere. */
export function commandsOf(
  form: Form,
  cluster: Cluster,
  subnetIds: string[],
  region: string,
  vpc: EksctlVpc | undefined,
): Command[] {
  const name = cluster.name ?? "";
  const request = requestOf(form, name, subnetIds);
  const profile = {
    name: request.fargateProfileName,
    podExecutionRoleARN: request.podExecutionRoleArn,
    subnets: request.subnets,
    selectors: request.selectors,
    tags: request.tags,
  };
  const pairs = (list: Pair[]) =>
    list.length > 0 ? list.map(({ key, value }) => ({ Key: key, Value: value })) : undefined;
  return [
    awsCommand("eks", "create-fargate-profile", request, region),
    eksctlFile("create fargateprofile", name, region, { vpc, fargateProfiles: [profile] }),
    cloudFormationResource("FargateProfile", "AWS::EKS::FargateProfile", {
      ...propertiesOf(request),
      Selectors: form.selectors.map(({ namespace, labels }) => ({ Namespace: namespace, Labels: pairs(labels) })),
      Tags: pairs(form.tags),
    }),
  ];
}

/** What EKS's messages are about. */
export const subjects: Subjects<Form> = [
  [/profile name|with this name/i, "name"],
  [/podExecutionRole|role with name|pass role|iam:PassRole/i, "roleArn"],
  [/selector|namespace/i, "selectors"],
  [/subnet/i, "subnetIds"],
  [/\btags?\b/i, "tags"],
];

/** FormatSelector returns a selector as a text: "web: team=blue, tier=*". */
export function formatSelector(namespace: string | undefined, labels: Pair[]): string {
  const pairs = labels.map(({ key, value }) => `${key}=${value}`).join(", ");
  return pairs === "" ? (namespace ?? "") : `${namespace ?? ""}: ${pairs}`;
}
