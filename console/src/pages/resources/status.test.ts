import { expect, test } from "vitest";
import type { KubernetesObject } from "../../kubernetes/objects";
import { isSettled, statusOf } from "./status";

const of = (kind: string, rest: object): KubernetesObject => ({
  apiVersion: "v1",
  kind,
  metadata: { name: "a", uid: "1", resourceVersion: "1", creationTimestamp: "" },
  ...rest,
});

test.each([
  [of("Pod", { status: { phase: "Running", containerStatuses: [{ ready: true, state: {} }] } }), "Running", true],
  [
    of("Pod", {
      status: { phase: "Pending", containerStatuses: [{ state: { waiting: { reason: "ImagePullBackOff" } } }] },
    }),
    "ImagePullBackOff",
    false,
  ],
  [of("Pod", {}), "Pending", false],
  [of("Deployment", { spec: { replicas: 2 }, status: { readyReplicas: 1 } }), "1/2 ready", false],
  [of("DaemonSet", { status: { desiredNumberScheduled: 2, numberReady: 2 } }), "2/2 ready", true],
  [of("PersistentVolumeClaim", { status: { phase: "Bound" } }), "Bound", true],
  [of("Node", { status: { conditions: [{ type: "Ready", status: "True" }] } }), "Ready", true],
  [
    of("Node", { status: { conditions: [{ type: "Ready", status: "False", reason: "KubeletNotReady" }] } }),
    "KubeletNotReady",
    false,
  ],
  [of("ConfigMap", {}), "", false],
])("object %#", (object, status, settled) => {
  expect(statusOf(object)).toBe(status);
  expect(isSettled(status)).toBe(settled);
});
