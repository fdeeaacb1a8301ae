// The status of objects in lists, as far as one word tells it.
import type { KubernetesObject } from "../../kubernetes/objects";

interface AnyObject extends KubernetesObject {
  spec?: { replicas?: number; unschedulable?: boolean };
  status?: {
    phase?: string;
    replicas?: number;
    readyReplicas?: number;
    numberReady?: number;
    desiredNumberScheduled?: number;
    succeeded?: number;
    conditions?: { type: string; status: string; reason?: string }[];
    containerStatuses?: {
      ready?: boolean;
      restartCount?: number;
      state?: { waiting?: { reason?: string }; terminated?: { reason?: string } };
    }[];
  };
}

/** StatusOf returns the status of an object as kubectl lists it; empty where a kind has none. */
export function statusOf(object: KubernetesObject): string {
  const { spec, status, metadata, kind } = object as AnyObject;
  if (metadata.deletionTimestamp !== undefined) return "Terminating";
  if (kind === "Pod") {
    const states = status?.containerStatuses?.map(({ state }) => state?.waiting?.reason ?? state?.terminated?.reason);
    return states?.find((reason) => reason !== undefined) ?? status?.phase ?? "Pending";
  }
  if (status?.desiredNumberScheduled !== undefined) {
    return `${status.numberReady ?? 0}/${status.desiredNumberScheduled} ready`;
  }
  if (spec?.replicas !== undefined) return `${status?.readyReplicas ?? 0}/${spec.replicas} ready`;
  if (status?.phase !== undefined) return status.phase;
  const condition = status?.conditions?.find(({ type }) => /^(Ready|Available|Established|Complete)$/.test(type));
  if (condition === undefined) return "";
  return condition.status === "True" ? condition.type : (condition.reason ?? `Not ${condition.type.toLowerCase()}`);
}

/** ReadyOf returns whether what a status says is as it should be. */
export function isSettled(status: string): boolean {
  const [, ready, wanted] = /^(\d+)\/(\d+) ready$/.exec(status) ?? [];
  if (ready !== undefined) return ready === wanted;
  return /^(Running|Succeeded|Completed|Active|Bound|Ready|Available|Established|Complete)$/.test(status);
}
