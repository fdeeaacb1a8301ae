// Instances, as EC2 describes them.
import { EC2Client, type Instance, type InstanceStatus } from "@aws-sdk/client-ec2";
import { paginateDescribeInstances, type Tag } from "@aws-sdk/client-ec2";
import type { UseQueryResult } from "@tanstack/react-query";
import { pollWhile, useAwsPages } from "../../aws/queries";

/** TagOf returns the value of a tag, empty where there is none. */
export function tagOf(tags: Tag[] | undefined, key: string): string {
  return tags?.find((tag) => tag.Key === key)?.Value ?? "";
}

/** IsChanging reports whether an instance is on its way to another state. */
export function isChanging({ State }: Instance): boolean {
  return /^(pending|stopping|shutting-down)$/.test(State?.Name ?? "");
}

/** UseInstances lists the instances of the region, or those with the given IDs. */
export function useInstances(InstanceIds?: string[]): UseQueryResult<Instance[]> {
  return useAwsPages(
    EC2Client,
    paginateDescribeInstances,
    { InstanceIds },
    (page) => page.Reservations?.flatMap((r) => r.Instances ?? []),
    { poll: pollWhile((instances) => instances.some(isChanging)) },
  );
}

/** ClusterOf returns the cluster that an instance is a node of, by the tags of EKS; empty where it is of none. */
export function clusterOf({ Tags }: Instance): string {
  const named = tagOf(Tags, "eks:cluster-name");
  if (named !== "") return named;
  const owned = Tags?.find((tag) => tag.Key?.startsWith("kubernetes.io/cluster/"));
  return owned?.Key?.slice("kubernetes.io/cluster/".length) ?? "";
}

/** StatusChecks returns how many of an instance's checks passed, as AWS's console does: "2/2 checks passed". */
export function statusChecks(status: InstanceStatus | undefined): string {
  const checks = [status?.SystemStatus, status?.InstanceStatus, status?.AttachedEbsStatus]
    .map((check) => check?.Status)
    .filter((check) => check !== undefined && check !== "not-applicable");
  if (checks.length === 0) return "-";
  if (checks.includes("initializing")) return "Initializing";
  return `${checks.filter((check) => check === "ok").length}/${checks.length} checks passed`;
}

/** What can be done to an instance. */
export type InstanceAction = "start" | "stop" | "reboot" | "terminate";

/** MayBe reports whether something can be done to an instance in its state. */
export function mayBe(action: InstanceAction, { State }: Instance): boolean {
  switch (action) {
    case "start":
      return State?.Name === "stopped";
    case "stop":
    case "reboot":
      return State?.Name === "running";
    case "terminate":
      return State?.Name !== "terminated" && State?.Name !== "shutting-down";
  }
}

/** CountStates returns how many instances are in each state, those that run first. */
export function countStates(instances: Instance[]): [string, number][] {
  const order = ["running", "pending", "stopping", "stopped", "shutting-down", "terminated"];
  const counts = new Map<string, number>();
  for (const { State } of instances) {
    const name = State?.Name ?? "";
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
}

/** DecodeConsole returns the text of what an instance has written to its console, which EC2 returns in base64. */
export function decodeConsole(output: string): string {
  return new TextDecoder().decode(Uint8Array.from(atob(output), (character) => character.charCodeAt(0)));
}
