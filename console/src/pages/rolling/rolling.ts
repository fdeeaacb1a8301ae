// A rolling update of a managed node group, put together from what EKS, Auto Scaling and Kubernetes say of it.
// https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
import type { Activity, AutoScalingGroup } from "@aws-sdk/client-auto-scaling";
import type { Nodegroup, Update } from "@aws-sdk/client-eks";
import type { KubernetesObject } from "../../kubernetes/objects";
import { count } from "../map/layout";
import { groupBy } from "../map/network";
import type { Node, Pod } from "./objects";

export type MemberState =
  | "Launching"
  | "Joining"
  | "Not ready"
  | "Ready"
  | "Cordoned"
  | "Draining"
  | "Drained"
  | "Terminating";

/** An instance of the node group, and its node once it has joined. */
export interface Member {
  id: string;
  zone: string;
  /** It was launched from another version of the launch template than the group launches from now. */
  old: boolean;
  state: MemberState;
  node?: Node;
  pods: Pod[];
}

/** MembersOf returns the instances of a group: the old ones, and those that go first, before the others. */
export function membersOf(group: AutoScalingGroup | undefined, nodes: Node[], pods: Pod[]): Member[] {
  const byInstance = new Map(nodes.map((node) => [node.instance, node]));
  const byNode = groupBy(pods, ({ node }) => node);
  const current = templateOf(group);
  const members = (group?.Instances ?? []).map<Member>((instance) => {
    const id = instance.InstanceId ?? "";
    const node = byInstance.get(id);
    const on = node === undefined ? [] : (byNode.get(node.name) ?? []);
    return {
      id,
      zone: instance.AvailabilityZone ?? "",
      old: templateName(instance.LaunchTemplate) !== current,
      state: stateOf(instance.LifecycleState ?? "", node, on),
      node,
      pods: on.sort((a, b) => Number(a.stays) - Number(b.stays) || a.name.localeCompare(b.name)),
    };
  });
  const rank = (member: Member) => order.indexOf(member.state);
  return members.sort((a, b) => Number(b.old) - Number(a.old) || rank(a) - rank(b) || a.id.localeCompare(b.id));
}

const order: MemberState[] = [
  "Terminating",
  "Drained",
  "Draining",
  "Cordoned",
  "Launching",
  "Joining",
  "Not ready",
  "Ready",
];

interface Template {
  LaunchTemplateId?: string;
  LaunchTemplateName?: string;
  Version?: string;
}

function templateName(template: Template | undefined): string {
  return `${template?.LaunchTemplateId ?? template?.LaunchTemplateName ?? ""} ${template?.Version ?? ""}`;
}

/** TemplateOf returns what a group launches from. */
function templateOf(group: AutoScalingGroup | undefined): string {
  const policy = group?.MixedInstancesPolicy?.LaunchTemplate?.LaunchTemplateSpecification;
  return templateName(policy ?? group?.LaunchTemplate);
}

/** Moving returns the pods that have to leave a node before it goes. */
export function moving(pods: Pod[]): Pod[] {
  return pods.filter(({ stays }) => !stays);
}

function stateOf(lifecycle: string, node: Node | undefined, pods: Pod[]): MemberState {
  if (/^(Terminat|Detach)/.test(lifecycle)) return "Terminating";
  if (node === undefined) return lifecycle.startsWith("Pending") ? "Launching" : "Joining";
  if (node.unschedulable) {
    const left = moving(pods);
    if (left.length === 0) return "Drained";
    return left.some(({ deadline }) => deadline !== undefined) ? "Draining" : "Cordoned";
  }
  return node.ready ? "Ready" : "Not ready";
}

/** The phases, as EKS documents them. */
export const phases = ["Setup", "Scale up", "Upgrade", "Scale down"] as const;
export type Phase = (typeof phases)[number];

export interface Progress {
  /** Undefined for an update that has ended. */
  phase?: Phase;
  /** The update puts back what it has changed, and will fail. */
  failing: boolean;
}

/** ProgressOf returns the phase of an update. No API tells it: it shows in what is there. */
export function progressOf(
  update: Update | undefined,
  nodegroup: Nodegroup | undefined,
  group: AutoScalingGroup | undefined,
  members: Member[],
): Progress {
  if (update?.status !== "InProgress") return { failing: false };
  const second = 1000; // Kubernetes has no finer times
  const since = Math.floor((update.createdAt?.getTime() ?? 0) / second) * second;
  const old = members.filter((member) => member.old);
  if (old.length === 0) {
    // All is of one version: of the old one, before anything was launched, or of the new one, at the end.
    const launched = members.some(({ state, node }) =>
      node === undefined ? state !== "Terminating" : Date.parse(node.created) >= since,
    );
    return { phase: launched ? "Scale down" : "Setup", failing: false };
  }
  const leaves = ({ state, node }: Member) =>
    state === "Terminating" || (node?.unschedulable === true && node.excluded);
  if (nodegroup?.updateConfig?.updateStrategy === "MINIMAL" || old.some(leaves)) {
    return { phase: "Upgrade", failing: false };
  }
  // Balancing is suspended when the first old nodes go. That they take pods again tells that the update fails.
  const failing = balancingSuspended(group) >= since;
  return { phase: failing ? "Scale down" : "Scale up", failing };
}

/** BalancingSuspended returns when the group was told to leave zones as they are; 0 where it was not. */
function balancingSuspended(group: AutoScalingGroup | undefined): number {
  const process = group?.SuspendedProcesses?.find(({ ProcessName }) => ProcessName === "AZRebalance");
  const [, at] = /^User suspended at (.+)$/.exec(process?.SuspensionReason ?? "") ?? [];
  return at === undefined ? 0 : Date.parse(at);
}

export interface Step {
  phase: Phase;
  status: "done" | "current" | "pending" | "skipped" | "failed";
  /** What the phase has come to. */
  details: string;
}

/** StepsOf returns the phases of an update with what they have come to. */
export function stepsOf(
  update: Update | undefined,
  nodegroup: Nodegroup | undefined,
  group: AutoScalingGroup | undefined,
  members: Member[],
): Step[] {
  const { phase, failing } = progressOf(update, nodegroup, group, members);
  const ended = update !== undefined && phase === undefined;
  const failed = update?.status === "Failed" || update?.status === "Cancelled";
  const minimal = nodegroup?.updateConfig?.updateStrategy === "MINIMAL";
  const at = phase === undefined ? -1 : phases.indexOf(phase);
  return phases.map((each, i) => {
    const details = detailsOf(each, members, nodegroup, group);
    if (each === "Scale up" && minimal) return { phase: each, status: "skipped", details: "Minimal update strategy" };
    // Of an update that failed, only its errors tell how far it came.
    if (ended && failed) return { phase: each, status: "failed", details: "" };
    if (ended) return { phase: each, status: "done", details: "" };
    if (failing && each === "Upgrade") return { phase: each, status: "failed", details: "Old nodes take pods again" };
    if (i === at) return { phase: each, status: "current", details };
    return { phase: each, status: i < at ? "done" : "pending", details: "" };
  });
}

function detailsOf(
  phase: Phase,
  members: Member[],
  nodegroup: Nodegroup | undefined,
  group: AutoScalingGroup | undefined,
): string {
  const fresh = members.filter(({ old, state }) => !old && state !== "Terminating");
  const ready = fresh.filter(({ state }) => state === "Ready").length;
  const old = members.filter((member) => member.old);
  const desired = group?.DesiredCapacity ?? 0;
  switch (phase) {
    case "Setup":
      return "A new version of the launch template is made, and given to the Auto Scaling group";
    case "Scale up":
      return `${ready} of ${fresh.length} new nodes ready, desired capacity ${desired}`;
    case "Upgrade": {
      const going = old.filter(({ state }) => /^(Terminating|Drained|Draining)$/.test(state)).length;
      return `${count(old.length, "old node")} left, ${going} going; ${ready} of ${fresh.length} new nodes ready`;
    }
    case "Scale down":
      return `Desired capacity ${desired}, down to ${nodegroup?.scalingConfig?.desiredSize ?? "-"}`;
  }
}

/** A workload with pods on nodes of the group, and where they are. */
export interface Workload {
  key: string;
  namespace: string;
  name: string;
  onOld: number;
  terminating: number;
  /** Not Ready, on any node or none. */
  starting: number;
  ready: number;
}

/** WorkloadsOf returns the workloads whose pods move, with their pods wherever they are. */
export function workloadsOf(members: Member[], pods: Pod[]): Workload[] {
  const old = new Set(members.flatMap((member) => (member.old ? (member.node?.name ?? []) : [])));
  const own = new Set(members.flatMap(({ node }) => node?.name ?? []));
  const found = new Map<string, Workload>();
  const concerned = new Set<string>();
  const none = { onOld: 0, terminating: 0, starting: 0, ready: 0 };
  for (const pod of moving(pods)) {
    if (/^(Succeeded|Failed)$/.test(pod.phase)) continue;
    const name = pod.workload === "" ? `Pod ${pod.name}` : pod.workload;
    const key = `${pod.namespace}/${name}`;
    const workload = found.get(key) ?? { key, namespace: pod.namespace, name, ...none };
    found.set(key, workload);
    if (own.has(pod.node)) concerned.add(key);
    if (pod.deadline !== undefined) workload.terminating++;
    else if (old.has(pod.node)) workload.onOld++;
    else if (pod.ready) workload.ready++;
    else workload.starting++;
  }
  return [...found.values()]
    .filter(({ key }) => concerned.has(key))
    .sort((a, b) => weight(b) - weight(a) || a.key.localeCompare(b.key));
}

const weight = ({ onOld, terminating, starting }: Workload) =>
  2 * Number(terminating + starting > 0) + Number(onOld > 0);

export interface KubernetesEvent extends KubernetesObject {
  type?: string;
  reason?: string;
  message?: string;
  lastTimestamp?: string | null;
  eventTime?: string | null;
  series?: { lastObservedTime?: string };
  involvedObject?: { kind?: string; name?: string };
}

/** Something that happened, as Auto Scaling or Kubernetes tells it. */
export interface Happening {
  key: string;
  at: Date;
  /** The instance or node. */
  about: string;
  what: string;
  status: string;
  source: "Auto Scaling" | "Kubernetes";
}

/** HappeningsOf returns what happened to the nodes of a group in a time, the newest first. */
export function happeningsOf(
  activities: Activity[],
  events: KubernetesEvent[],
  members: Member[],
  from?: Date,
  to?: Date,
): Happening[] {
  const names = new Set(members.flatMap(({ node }) => node?.name ?? []));
  const found: Happening[] = [];
  for (const activity of activities) {
    const { ActivityId: key = "", Description = "", StartTime: at, StatusCode = "", StatusMessage } = activity;
    const [, what = Description, about = ""] = /^(.+): (i-\w+)$/.exec(Description) ?? [];
    if (at === undefined) continue;
    const text = StatusMessage === undefined ? what : `${what}: ${StatusMessage}`;
    found.push({ key, at, about, what: text, status: StatusCode, source: "Auto Scaling" });
  }
  for (const event of events) {
    const { metadata, involvedObject, reason = "", message = "", type = "" } = event;
    const about = involvedObject?.name ?? "";
    if (!names.has(about)) continue;
    const time = event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime ?? metadata.creationTimestamp;
    const what = `${reason}: ${message}`;
    found.push({ key: metadata.uid, at: new Date(time), about, what, status: type, source: "Kubernetes" });
  }
  return found
    .filter(({ at }) => (from === undefined || at >= from) && (to === undefined || at < to))
    .sort((a, b) => b.at.getTime() - a.at.getTime());
}
