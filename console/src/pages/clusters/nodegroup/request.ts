// The requests that the forms of node groups make, and what is the same for other tools.
import type {
  Cluster,
  CreateNodegroupRequest,
  Nodegroup,
  NodeRepairConfig,
  NodegroupUpdateConfig,
  Taint,
  TaintEffect,
  UpdateNodegroupConfigRequest,
  UpdateNodegroupVersionRequest,
} from "@aws-sdk/client-eks";
import { awsCommand, cloudFormationResource, type Command, eachInTurn, inTurn } from "../../../commands/command";
import { eksctlCommand, eksctlFile } from "../../../commands/eksctl";
import { propertiesOf } from "../forms/cloudformation";
import type { EksctlVpc } from "../forms/eksctl";
import { pairsOf, recordOf, wholeNumber } from "../forms/problems";
import { amiTypeOf } from "./amiTypes";
import type { Form, Settings, Share, TaintRow, Template } from "./form";

const unlessEmpty = <T>(list: T[]) => (list.length > 0 ? list : undefined);

function taintOf({ key, value, effect }: TaintRow): Taint {
  return { key, value: value === "" ? undefined : value, effect };
}

function updateConfigOf({ unavailable: { unit, text }, updateStrategy }: Settings): NodegroupUpdateConfig {
  const value = wholeNumber(text);
  return unit === "number"
    ? { maxUnavailable: value, updateStrategy }
    : { maxUnavailablePercentage: value, updateStrategy };
}

function repairOf({ repair, unhealthy, parallel, overrides }: Settings): NodeRepairConfig {
  if (!repair) return { enabled: false };
  const of = ({ unit, text }: Share, wanted: Share["unit"]) => (unit === wanted ? wholeNumber(text) : undefined);
  return {
    enabled: true,
    maxUnhealthyNodeThresholdCount: of(unhealthy, "number"),
    maxUnhealthyNodeThresholdPercentage: of(unhealthy, "percentage"),
    maxParallelNodesRepairedCount: of(parallel, "number"),
    maxParallelNodesRepairedPercentage: of(parallel, "percentage"),
    nodeRepairConfigOverrides: unlessEmpty(overrides),
  };
}

/** CreateRequestOf returns the request of CreateNodegroup. */
export function createRequestOf(form: Form, clusterName: string, template: Template): CreateNodegroupRequest {
  const { useTemplate } = form;
  return {
    clusterName,
    nodegroupName: form.name,
    nodeRole: form.roleArn,
    subnets: form.subnetIds,
    scalingConfig: {
      minSize: wholeNumber(form.minSize),
      maxSize: wholeNumber(form.maxSize),
      desiredSize: wholeNumber(form.desiredSize),
    },
    amiType: template.image ? undefined : form.amiType,
    capacityType: form.capacityType,
    instanceTypes: template.instanceType ? undefined : form.instanceTypes,
    diskSize: useTemplate ? undefined : wholeNumber(form.diskSize),
    launchTemplate: useTemplate ? { id: form.templateId, version: form.templateVersion } : undefined,
    remoteAccess:
      form.remoteAccess && !useTemplate
        ? {
            ec2SshKey: form.keyPair,
            sourceSecurityGroups: form.sources === "selected" ? unlessEmpty(form.sourceGroups) : undefined,
          }
        : undefined,
    labels: recordOf(form.labels),
    taints: unlessEmpty(form.taints.map(taintOf)),
    updateConfig: updateConfigOf(form),
    nodeRepairConfig: form.repair ? repairOf(form) : undefined,
    tags: recordOf(form.tags),
  };
}

/** CreateCommandsOf returns what makes the same node group elsewhere. */
export function createCommandsOf(
  form: Form,
  cluster: Cluster,
  template: Template,
  region: string,
  vpc: EksctlVpc | undefined,
): Command[] {
  const request = createRequestOf(form, cluster.name ?? "", template);
  const file = eksctlFile("create nodegroup", cluster.name ?? "", region, {
    vpc,
    managedNodeGroups: [{ ...eksctlGroupOf(request), ...eksctlSettingsOf(request.updateConfig, request.taints) }],
  });
  const strategy = awsCommand(
    "eks",
    "update-nodegroup-config",
    {
      clusterName: request.clusterName,
      nodegroupName: request.nodegroupName,
      updateConfig: { updateStrategy: "MINIMAL" },
    },
    region,
  );
  return [
    awsCommand("eks", "create-nodegroup", request, region),
    form.updateStrategy === "MINIMAL" ? inTurn(file, strategy) : file,
    cloudFormationResource("Nodegroup", "AWS::EKS::Nodegroup", propertiesOf(request)),
  ];
}

const effects: Record<TaintEffect, string> = {
  NO_SCHEDULE: "NoSchedule",
  NO_EXECUTE: "NoExecute",
  PREFER_NO_SCHEDULE: "PreferNoSchedule",
};

/** EksctlGroupOf returns a node group as eksctl's configuration has it. https://schema.eksctl.io */
function eksctlGroupOf(request: CreateNodegroupRequest): object {
  const { scalingConfig, launchTemplate, remoteAccess, nodeRepairConfig } = request;
  const { enabled, ...details } = nodeRepairConfig ?? {};
  return {
    name: request.nodegroupName,
    iam: { instanceRoleARN: request.nodeRole },
    launchTemplate: launchTemplate && { id: launchTemplate.id, version: launchTemplate.version },
    amiFamily: amiTypeOf(request.amiType)?.family,
    instanceTypes: request.instanceTypes,
    spot: request.capacityType === "SPOT" ? true : undefined,
    volumeSize: request.diskSize,
    minSize: scalingConfig?.minSize,
    maxSize: scalingConfig?.maxSize,
    desiredCapacity: scalingConfig?.desiredSize,
    subnets: request.subnets,
    ssh: remoteAccess && {
      allow: true,
      publicKeyName: remoteAccess.ec2SshKey,
      sourceSecurityGroupIds: remoteAccess.sourceSecurityGroups,
    },
    labels: request.labels,
    nodeRepairConfig: nodeRepairConfig && { enabled, ...details },
    tags: request.tags,
  };
}

function eksctlSettingsOf(config: NodegroupUpdateConfig | undefined, taints: Taint[] | undefined): object {
  return {
    taints: taints?.map(({ key, value, effect }) => ({ key, value, effect: effect && effects[effect] })),
    updateConfig: {
      maxUnavailable: config?.maxUnavailable,
      maxUnavailablePercentage: config?.maxUnavailablePercentage,
    },
  };
}

/** SettingsOf returns what the form that edits a node group begins with. */
export function settingsOf(group: Nodegroup): Settings {
  const { scalingConfig, updateConfig, nodeRepairConfig: repair } = group;
  const share = (count: number | undefined, percentage: number | undefined, unit: Share["unit"]): Share => {
    if (count !== undefined) return { unit: "number", text: String(count) };
    if (percentage !== undefined) return { unit: "percentage", text: String(percentage) };
    return { unit, text: "" };
  };
  return {
    desiredSize: String(scalingConfig?.desiredSize ?? ""),
    minSize: String(scalingConfig?.minSize ?? ""),
    maxSize: String(scalingConfig?.maxSize ?? ""),
    labels: pairsOf(group.labels),
    taints: (group.taints ?? []).map(({ key = "", value = "", effect = "NO_SCHEDULE" }) => ({ key, value, effect })),
    unavailable: share(updateConfig?.maxUnavailable, updateConfig?.maxUnavailablePercentage, "number"),
    updateStrategy: updateConfig?.updateStrategy ?? "DEFAULT",
    repair: repair?.enabled === true,
    unhealthy: share(
      repair?.maxUnhealthyNodeThresholdCount,
      repair?.maxUnhealthyNodeThresholdPercentage,
      "percentage",
    ),
    parallel: share(repair?.maxParallelNodesRepairedCount, repair?.maxParallelNodesRepairedPercentage, "number"),
    overrides: repair?.nodeRepairConfigOverrides ?? [],
  };
}

const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);

/**
 * ConfigRequestOf returns the request of UpdateNodegroupConfig that makes settings of others; undefined if nothing is
 * changed.
 */
export function configRequestOf(
  before: Settings,
  after: Settings,
  clusterName: string,
  nodegroupName: string,
): UpdateNodegroupConfigRequest | undefined {
  const scalingOf = (s: Settings) => ({
    minSize: wholeNumber(s.minSize),
    maxSize: wholeNumber(s.maxSize),
    desiredSize: wholeNumber(s.desiredSize),
  });
  const changed = <T>(of: (settings: Settings) => T) => (same(of(before), of(after)) ? undefined : of(after));
  const config: Omit<UpdateNodegroupConfigRequest, "clusterName" | "nodegroupName"> = {
    scalingConfig: changed(scalingOf),
    labels: changedLabels(before, after),
    taints: changedTaints(before, after),
    updateConfig: changed(updateConfigOf),
    nodeRepairConfig: changed(repairOf),
  };
  if (Object.values<string | object | undefined>(config).every((each) => each === undefined)) return undefined;
  return { clusterName, nodegroupName, ...config };
}

function changedLabels(before: Settings, after: Settings): UpdateNodegroupConfigRequest["labels"] {
  const had = new Map(before.labels.map(({ key, value }) => [key, value]));
  const has = new Set(after.labels.map(({ key }) => key));
  const addOrUpdateLabels = recordOf(after.labels.filter(({ key, value }) => had.get(key) !== value));
  const removeLabels = unlessEmpty([...had.keys()].filter((key) => !has.has(key)));
  return addOrUpdateLabels === undefined && removeLabels === undefined
    ? undefined
    : { addOrUpdateLabels, removeLabels };
}

function changedTaints(before: Settings, after: Settings): UpdateNodegroupConfigRequest["taints"] {
  const isOf = (a: TaintRow) => (b: TaintRow) => a.key === b.key && a.effect === b.effect;
  const added = after.taints.filter((t) => before.taints.find(isOf(t))?.value !== t.value);
  const removed = before.taints.filter((t) => !after.taints.some(isOf(t)));
  if (added.length === 0 && removed.length === 0) return undefined;
  return {
    addOrUpdateTaints: unlessEmpty(added.map(taintOf)),
    removeTaints: unlessEmpty(removed.map(taintOf)),
  };
}

/** ConfigCommandsOf returns what makes the same change elsewhere. */
export function configCommandsOf(
  request: UpdateNodegroupConfigRequest,
  group: Nodegroup,
  after: Settings,
  region: string,
): Command[] {
  return [
    awsCommand("eks", "update-nodegroup-config", request, region),
    ...eachInTurn(eksctlChanges(request, region)),
    cloudFormationResource("Nodegroup", "AWS::EKS::Nodegroup", {
      ...nodegroupProperties(group),
      ScalingConfig: propertiesOf(request.scalingConfig ?? group.scalingConfig ?? {}),
      Labels: recordOf(after.labels),
      Taints: unlessEmpty(after.taints.map((t) => propertiesOf(taintOf(t)))),
      UpdateConfig: propertiesOf(updateConfigOf(after)),
      NodeRepairConfig: propertiesOf(repairOf(after)),
    }),
  ];
}

/** EksctlChanges returns the commands of eksctl for a change, as far as it has some. */
function eksctlChanges(request: UpdateNodegroupConfigRequest, region: string): Command[] {
  const { clusterName: cluster = "", nodegroupName: name = "", scalingConfig, labels, updateConfig } = request;
  const commands: Command[] = [];
  if (scalingConfig !== undefined) {
    const { desiredSize, minSize, maxSize } = scalingConfig;
    const options = { nodes: desiredSize, "nodes-min": minSize, "nodes-max": maxSize };
    const texts = Object.fromEntries(Object.entries(options).map(([option, size]) => [option, size?.toString()]));
    commands.push(eksctlCommand("scale nodegroup", { cluster, name, ...texts }, region));
  }
  if (labels?.addOrUpdateLabels !== undefined) {
    const pairs = Object.entries(labels.addOrUpdateLabels).map(([key, value]) => `${key}=${value}`);
    commands.push(eksctlCommand("set labels", { cluster, nodegroup: name, labels: pairs }, region));
  }
  if (labels?.removeLabels !== undefined) {
    commands.push(eksctlCommand("unset labels", { cluster, nodegroup: name, labels: labels.removeLabels }, region));
  }
  if (updateConfig !== undefined) {
    const group = { name, ...eksctlSettingsOf(updateConfig, undefined) };
    commands.push(eksctlFile("update nodegroup", cluster, region, { managedNodeGroups: [group] }));
  }
  return commands;
}

/** NodegroupProperties returns the properties of the resource of CloudFormation that is a node group. */
export function nodegroupProperties(group: Nodegroup): Record<string, unknown> {
  const template = group.launchTemplate;
  return propertiesOf({
    clusterName: group.clusterName,
    nodegroupName: group.nodegroupName,
    nodeRole: group.nodeRole,
    subnets: group.subnets,
    scalingConfig: group.scalingConfig,
    amiType: group.amiType === "CUSTOM" ? undefined : group.amiType,
    capacityType: group.capacityType,
    instanceTypes: group.instanceTypes,
    diskSize: template === undefined ? group.diskSize : undefined,
    version: group.amiType === "CUSTOM" ? undefined : group.version,
    releaseVersion: group.amiType === "CUSTOM" ? undefined : group.releaseVersion,
    launchTemplate: template && { id: template.id, version: template.version },
    remoteAccess: group.remoteAccess,
    labels: Object.keys(group.labels ?? {}).length > 0 ? group.labels : undefined,
    taints: group.taints,
    updateConfig: group.updateConfig,
    nodeRepairConfig: group.nodeRepairConfig?.enabled === true ? group.nodeRepairConfig : undefined,
    warmPoolConfig: group.warmPoolConfig,
    tags: Object.keys(group.tags ?? {}).length > 0 ? group.tags : undefined,
  });
}

/** What the form of a version update holds. */
export interface VersionForm {
  /** The minor version of Kubernetes; empty for a group with an image of its own. */
  version: string;
  /** The release of the image; empty for the newest. */
  releaseVersion: string;
  /** The version of the launch template; empty where that does not change. */
  templateVersion: string;
  force: boolean;
}

/** VersionRequestOf returns the request of UpdateNodegroupVersion. */
export function versionRequestOf(form: VersionForm, group: Nodegroup): UpdateNodegroupVersionRequest {
  const set = (text: string) => (text === "" ? undefined : text);
  return {
    clusterName: group.clusterName,
    nodegroupName: group.nodegroupName,
    version: set(form.version),
    releaseVersion: set(form.releaseVersion),
    launchTemplate:
      form.templateVersion === "" ? undefined : { id: group.launchTemplate?.id, version: form.templateVersion },
    force: form.force ? true : undefined,
  };
}

/** VersionCommandsOf returns what makes the same version update elsewhere. */
export function versionCommandsOf(form: VersionForm, group: Nodegroup, region: string): Command[] {
  const request = versionRequestOf(form, group);
  const template = request.launchTemplate ?? group.launchTemplate;
  return [
    awsCommand("eks", "update-nodegroup-version", request, region),
    eksctlCommand(
      "upgrade nodegroup",
      {
        cluster: group.clusterName,
        name: group.nodegroupName,
        "kubernetes-version": request.version,
        "release-version": request.releaseVersion,
        "launch-template-version": request.launchTemplate?.version,
        "force-upgrade": request.force,
      },
      region,
    ),
    cloudFormationResource("Nodegroup", "AWS::EKS::Nodegroup", {
      ...nodegroupProperties(group),
      Version: request.version,
      ReleaseVersion: request.releaseVersion,
      LaunchTemplate: template && { Id: template.id, Version: template.version },
      ForceUpdateEnabled: request.force,
    }),
  ];
}
