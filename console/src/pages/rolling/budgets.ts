// PodDisruptionBudgets that keep pods on nodes which are drained, and why.
import type { KubernetesObject } from "../../kubernetes/objects";
import { type LabelSelector, matches, type Pod } from "./objects";

export interface Budget extends KubernetesObject {
  spec?: {
    selector?: LabelSelector | null;
    minAvailable?: number | string;
    maxUnavailable?: number | string;
    unhealthyPodEvictionPolicy?: string;
  };
  status?: {
    observedGeneration?: number;
    disruptionsAllowed?: number;
    currentHealthy?: number;
    desiredHealthy?: number;
    expectedPods?: number;
    conditions?: { type: string; status: string; reason?: string; message?: string }[];
  };
}

/** A reason for which the API server evicts pods not, now. */
export interface Blocker {
  key: string;
  namespace: string;
  /** The budget; several, where a pod has more than one. */
  names: string[];
  pods: Pod[];
  why: string;
  /** It does not end by itself, such as when a pod becomes Ready elsewhere. */
  lasting: boolean;
}

/** BlockersOf returns what keeps pods from being evicted, of those that are to be. */
export function blockersOf(budgets: Budget[], leaving: Pod[]): Blocker[] {
  const found = new Map<string, Blocker>();
  for (const pod of leaving) {
    // https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/#how-api-initiated-eviction-works
    if (pod.stays || pod.deadline !== undefined || /^(Pending|Succeeded|Failed)$/.test(pod.phase)) continue;
    const of = budgets.filter(
      ({ metadata, spec }) => metadata.namespace === pod.namespace && matches(spec?.selector, pod.labels),
    );
    const [budget] = of;
    if (budget === undefined || (of.length === 1 && !blocks(budget, pod))) continue;
    const names = of.map(({ metadata }) => metadata.name).sort();
    const key = `${pod.namespace}/${names.join(" ")}`;
    const known = found.get(key);
    if (known !== undefined) known.pods.push(pod);
    else found.set(key, { key, namespace: pod.namespace, names, pods: [pod], ...reasonOf(of, budget) });
  }
  return [...found.values()].sort((a, b) => Number(b.lasting) - Number(a.lasting) || a.key.localeCompare(b.key));
}

function blocks({ metadata, spec, status }: Budget, pod: Pod): boolean {
  const { currentHealthy = 0, desiredHealthy = 0, disruptionsAllowed = 0, observedGeneration = 0 } = status ?? {};
  if (!pod.ready) {
    // https://kubernetes.io/docs/tasks/run-application/configure-pdb/#unhealthy-pod-eviction-policy
    if (spec?.unhealthyPodEvictionPolicy === "AlwaysAllow") return false;
    if (currentHealthy >= desiredHealthy && desiredHealthy > 0) return false;
  }
  return disruptionsAllowed <= 0 || observedGeneration < (metadata.generation ?? 0);
}

function reasonOf(of: Budget[], { metadata, spec, status }: Budget): Pick<Blocker, "why" | "lasting"> {
  if (of.length > 1) return { why: "Pods that several budgets select are never evicted.", lasting: true };
  const { currentHealthy = 0, desiredHealthy = 0, expectedPods = 0, observedGeneration = 0 } = status ?? {};
  const failed = status?.conditions?.find((c) => c.type === "DisruptionAllowed" && c.reason === "SyncFailed");
  if (failed !== undefined) return { why: failed.message ?? "The budget cannot be computed.", lasting: true };
  if (observedGeneration < (metadata.generation ?? 0)) {
    return { why: "The controller manager has not computed the budget yet.", lasting: false };
  }
  const { minAvailable, maxUnavailable } = spec ?? {};
  const rule =
    maxUnavailable !== undefined ? `maxUnavailable: ${maxUnavailable}` : `minAvailable: ${minAvailable ?? 1}`;
  const healthy = `${currentHealthy} of ${expectedPods} pods ${expectedPods === 1 ? "is" : "are"} healthy`;
  const needed = `${desiredHealthy} ${desiredHealthy === 1 ? "has" : "have"} to be (${rule})`;
  if (currentHealthy >= expectedPods) {
    const why = `${healthy}, and ${needed}: none may be evicted until there are more, or the budget allows it.`;
    return { why, lasting: true };
  }
  return { why: `${healthy}, and ${needed}: the others have to become Ready first.`, lasting: false };
}
