// Pods, as far as their logs and terminals need them.
import type { KubernetesObject } from "../../kubernetes/objects";

interface Named {
  name: string;
}

export interface Pod extends KubernetesObject {
  spec?: { containers?: Named[]; initContainers?: Named[]; ephemeralContainers?: Named[] };
}

/** ContainersOf returns the names of the containers of a pod, those first that run for as long as it does. */
export function containersOf({ spec }: Pod): string[] {
  return [spec?.containers, spec?.initContainers, spec?.ephemeralContainers].flatMap((c) => c ?? []).map((c) => c.name);
}
