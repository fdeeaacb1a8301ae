// What the form of a node group holds, and what is wrong with it before EKS says so.
import type { ResponseLaunchTemplateData } from "@aws-sdk/client-ec2";
import type {
  AMITypes,
  CapacityTypes,
  NodegroupUpdateStrategies,
  NodeRepairConfigOverrides,
  TaintEffect,
} from "@aws-sdk/client-eks";
import {
  anyProblem,
  labelKeyProblem,
  labelProblems,
  labelValueProblem,
  type Pair,
  type PairProblem,
  type Problems,
  type Subjects,
  tagProblems,
  wholeNumber,
} from "../forms/problems";

export interface TaintRow extends Pair {
  effect: TaintEffect;
}

/** A number of nodes, or a percentage of them. */
export interface Share {
  unit: "number" | "percentage";
  text: string;
}

/** What can be changed of a node group, too. */
export interface Settings {
  desiredSize: string;
  minSize: string;
  maxSize: string;
  labels: Pair[];
  taints: TaintRow[];
  unavailable: Share;
  updateStrategy: NodegroupUpdateStrategies;
  repair: boolean;
  /** Beyond so many unhealthy nodes nothing is repaired, and so many are repaired at a time; empty for EKS's choice. */
  unhealthy: Share;
  parallel: Share;
  /** Repairs of other conditions than EKS's, which stay as they are. */
  overrides: NodeRepairConfigOverrides[];
}

/** What the form of a new node group holds. */
export interface Form extends Settings {
  name: string;
  roleArn: string;
  tags: Pair[];
  useTemplate: boolean;
  templateId: string;
  templateVersion: string;
  amiType: AMITypes;
  capacityType: CapacityTypes;
  instanceTypes: string[];
  diskSize: string;
  subnetIds: string[];
  remoteAccess: boolean;
  keyPair: string;
  sources: "selected" | "all";
  sourceGroups: string[];
}

/** The form as AWS's console opens it. */
export const emptyForm: Form = {
  name: "",
  roleArn: "",
  tags: [],
  useTemplate: false,
  templateId: "",
  templateVersion: "",
  amiType: "AL2023_x86_64_STANDARD",
  capacityType: "ON_DEMAND",
  instanceTypes: ["t3.medium"],
  diskSize: "20",
  desiredSize: "2",
  minSize: "2",
  maxSize: "2",
  labels: [],
  taints: [],
  unavailable: { unit: "number", text: "1" },
  updateStrategy: "DEFAULT",
  repair: false,
  unhealthy: { unit: "percentage", text: "" },
  parallel: { unit: "number", text: "" },
  overrides: [],
  subnetIds: [],
  remoteAccess: false,
  keyPair: "",
  sources: "selected",
  sourceGroups: [],
};

/** What a launch template decides, so that the form does not. */
export interface Template {
  image: boolean;
  instanceType: boolean;
}

/** TemplateOf returns what a version of a launch template decides. */
export function templateOf(data: ResponseLaunchTemplateData | undefined): Template {
  return { image: data?.ImageId !== undefined, instanceType: data?.InstanceType !== undefined };
}

/** Without a launch template, the form decides everything. */
export const noTemplate: Template = { image: false, instanceType: false };

const namePattern = /^[0-9A-Za-z][0-9A-Za-z_-]*$/;
const mostLabels = 50;
const mostTags = 50;
const mostInstanceTypes = 20;

/** ProblemsOf says what is wrong with the form of a new node group. */
export function problemsOf(form: Form, template: Template): Problems<Form> {
  const problems: Problems<Form> = settingsProblems(form);
  if (form.name === "") problems.name = "Enter a name.";
  else if (form.name.length > 63 || !namePattern.test(form.name)) {
    problems.name = "Use up to 63 letters, digits, hyphens and underscores; begin with a letter or a digit.";
  }
  if (form.roleArn === "") problems.roleArn = "Select a role.";
  const tags = anyProblem(tagProblems(form.tags), mostTags, "tags");
  if (tags !== undefined) problems.tags = tags;
  if (form.useTemplate) {
    if (form.templateId === "") problems.templateId = "Select a launch template.";
    else if (form.templateVersion === "") problems.templateVersion = "Select a version.";
  } else {
    const size = wholeNumber(form.diskSize);
    if (size === undefined || size < 1 || size > 16384) problems.diskSize = "Enter a size from 1 to 16384 GiB.";
    if (form.remoteAccess && form.keyPair === "") problems.keyPair = "Select a key pair.";
    if (form.remoteAccess && form.sources === "selected" && form.sourceGroups.length === 0) {
      problems.sourceGroups = "Select security groups, or allow remote access from all.";
    }
  }
  if (!template.instanceType) {
    if (form.instanceTypes.length === 0) problems.instanceTypes = "Select an instance type.";
    else if (form.instanceTypes.length > mostInstanceTypes) {
      problems.instanceTypes = `Select up to ${mostInstanceTypes} instance types.`;
    }
  }
  if (form.subnetIds.length === 0) problems.subnetIds = "Select a subnet.";
  return problems;
}

/** SettingsProblems says what is wrong with what can be changed of a node group. */
export function settingsProblems(form: Settings): Problems<Settings> {
  const problems: Problems<Settings> = { ...scalingProblems(form) };
  const labels = anyProblem(labelProblems(form.labels), mostLabels, "labels");
  if (labels !== undefined) problems.labels = labels;
  const taints = anyProblem(taintProblems(form.taints), mostLabels, "taints");
  if (taints !== undefined) problems.taints = taints;
  const most = Math.min(Math.max(wholeNumber(form.maxSize) ?? 100, 1), 100);
  const unavailable = shareProblem(form.unavailable, most);
  if (form.unavailable.text === "" || unavailable !== undefined) {
    problems.unavailable = unavailable ?? "Enter a value.";
  }
  if (form.repair) {
    const unhealthy = shareProblem(form.unhealthy);
    if (unhealthy !== undefined) problems.unhealthy = unhealthy;
    const parallel = shareProblem(form.parallel);
    if (parallel !== undefined) problems.parallel = parallel;
  }
  return problems;
}

function scalingProblems({ desiredSize, minSize, maxSize }: Settings): Problems<Settings> {
  const [desired, least, most] = [wholeNumber(desiredSize), wholeNumber(minSize), wholeNumber(maxSize)];
  const number = "Enter a whole number of 0 or more.";
  if (desired === undefined || least === undefined || most === undefined) {
    return {
      ...(desired === undefined && { desiredSize: number }),
      ...(least === undefined && { minSize: number }),
      ...(most === undefined && { maxSize: number }),
    };
  }
  if (most === 0) return { maxSize: "The maximum size must be 1 or more." };
  if (least > most) return { minSize: "The minimum size must not be greater than the maximum size." };
  if (desired < least) return { desiredSize: "The desired size must not be less than the minimum size." };
  if (desired > most) return { desiredSize: "The desired size must not be greater than the maximum size." };
  return {};
}

/** ShareProblem says what is wrong with a number of nodes or a percentage. An empty one is EKS's choice. */
function shareProblem({ unit, text }: Share, most?: number): string | undefined {
  if (text === "") return undefined;
  const value = wholeNumber(text);
  if (unit === "percentage") {
    return value === undefined || value < 1 || value > 100 ? "Enter a percentage from 1 to 100." : undefined;
  }
  if (value === undefined || value < 1) return "Enter a number of nodes of 1 or more.";
  return most !== undefined && value > most ? `Enter a number of nodes from 1 to ${most}.` : undefined;
}

/** TaintProblems says what is wrong with each taint. A node has one of a key and an effect. */
export function taintProblems(taints: TaintRow[]): PairProblem[] {
  return taints.map(({ key, value, effect }, i) => ({
    key:
      labelKeyProblem(key) ??
      (taints.findIndex((t) => t.key === key && t.effect === effect) < i
        ? "There is a taint of this key and effect already."
        : undefined),
    value: labelValueProblem(value),
  }));
}

/** What EKS's messages are about. */
export const subjects: Subjects<Form> = [
  [/supported (with|in) .*launch template|of the launch template/i, "templateId"],
  [/nodegroupName|nodegroup name|already exists with name/i, "name"],
  [/nodeRole|role with name|pass role|iam:PassRole|service-linked role/i, "roleArn"],
  [/max-?unavailable|updateConfig/i, "unavailable"],
  [/maxUnhealthy/i, "unhealthy"],
  [/maxParallel|nodeRepairConfig/i, "parallel"],
  [/minimum capacity|minSize/i, "minSize"],
  [/desired capacity|desiredSize/i, "desiredSize"],
  [/maxSize/i, "maxSize"],
  [/taint/i, "taints"],
  [/label/i, "labels"],
  [/keypair|ec2SshKey|remote access/i, "keyPair"],
  [/disk ?size/i, "diskSize"],
  [/capacityType/i, "capacityType"],
  [/is not a valid instance type|instance types? .*(exist|specified|architecture)|instanceTypes/i, "instanceTypes"],
  [/AMI Type|amiType|kubernetes version|release version|custom AMI/i, "amiType"],
  [/version .* launch template|launch template version|within the launch template/i, "templateVersion"],
  [/launch template|user data/i, "templateId"],
  [/subnet/i, "subnetIds"],
  [/security group/i, "sourceGroups"],
  [/\btags?\b/i, "tags"],
];

/** FormatCapacity returns a capacity type as AWS's console writes it. */
export function formatCapacity(type: CapacityTypes | undefined): string {
  switch (type) {
    case "ON_DEMAND":
      return "On-Demand";
    case "SPOT":
      return "Spot";
    default:
      return type ?? "-";
  }
}

/** FormatShare returns a number of nodes or a percentage: "1 node", "10%". */
export function formatShare({ unit, text }: Share): string {
  if (text === "") return "-";
  if (unit === "percentage") return `${text}%`;
  return text === "1" ? "1 node" : `${text} nodes`;
}
