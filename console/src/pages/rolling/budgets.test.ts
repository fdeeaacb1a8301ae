import { expect, test } from "vitest";
import { blockersOf, type Budget } from "./budgets";
import { matches, podOf, type Pod, type PodObject } from "./objects";

function pod(name: string, change: Partial<Pod> = {}): Pod {
  const of = { uid: name, namespace: "default", name, labels: { app: "web" }, node: "a", phase: "Running" };
  return { ...of, ready: true, workload: "Deployment web", stays: false, ...change };
}

function budget(
  name: string,
  spec: Budget["spec"],
  [current, desired, expected, allowed]: [number, number, number, number],
  change = {},
): Budget {
  return {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { name, namespace: "default", uid: name, resourceVersion: "1", generation: 1, creationTimestamp: "" },
    spec: { selector: { matchLabels: { app: "web" } }, ...spec },
    status: {
      observedGeneration: 1,
      currentHealthy: current,
      desiredHealthy: desired,
      expectedPods: expected,
      disruptionsAllowed: allowed,
      ...change,
    },
  };
}

const lasting = budget("web", { minAvailable: 2 }, [2, 2, 2, 0]);

test.each<[string, Budget[], Pod[], string[], boolean?, RegExp?]>([
  ["budgets that allow it", [budget("web", { minAvailable: 1 }, [2, 1, 2, 1])], [pod("a")], []],
  ["pods that leave already", [lasting], [pod("a", { deadline: "now" })], []],
  ["pods of DaemonSets", [lasting], [pod("a", { stays: true })], []],
  ["pods that do not run", [lasting], [pod("a", { phase: "Pending" })], []],
  ["pods of another namespace", [lasting], [pod("a", { namespace: "other" })], []],
  [
    "a budget that all pods are needed for",
    [lasting],
    [pod("a"), pod("b")],
    ["web: a b"],
    true,
    /^2 of 2 pods are healthy, and 2 have to be \(minAvailable: 2\): none may be evicted/,
  ],
  [
    "a budget that waits for a pod elsewhere",
    [budget("web", { maxUnavailable: "50%" }, [1, 1, 2, 0])],
    [pod("a")],
    ["web: a"],
    false,
    /^1 of 2 pods are healthy, and 1 has to be \(maxUnavailable: 50%\): the others have to become Ready first/,
  ],
  ["two budgets", [lasting, budget("all", {}, [2, 1, 2, 1])], [pod("a")], ["all web: a"], true, /several budgets/],
  ["pods that are not ready, of a budget that is met", [lasting], [pod("a", { ready: false })], []],
  [
    "pods that are not ready, of one that is not",
    [budget("web", { minAvailable: 2 }, [1, 2, 2, 0])],
    [pod("a", { ready: false })],
    ["web: a"],
    false,
  ],
  [
    "pods that are not ready, and may always go",
    [budget("web", { minAvailable: 2, unhealthyPodEvictionPolicy: "AlwaysAllow" }, [1, 2, 2, 0])],
    [pod("a", { ready: false })],
    [],
  ],
  [
    "a budget that was not computed yet",
    [budget("web", { minAvailable: 1 }, [2, 1, 2, 1], { observedGeneration: 0 })],
    [pod("a")],
    ["web: a"],
    false,
    /has not computed/,
  ],
  [
    "a budget that cannot be computed",
    [
      budget("web", { maxUnavailable: 1 }, [0, 0, 0, 0], {
        conditions: [{ type: "DisruptionAllowed", status: "False", reason: "SyncFailed", message: "no scale" }],
      }),
    ],
    [pod("a")],
    ["web: a"],
    true,
    /^no scale$/,
  ],
])("what blocks: %s", (_, budgets, pods, wanted, isLasting, why) => {
  const found = blockersOf(budgets, pods);
  expect(found.map(({ names, pods: of }) => `${names.join(" ")}: ${of.map(({ name }) => name).join(" ")}`)).toEqual(
    wanted,
  );
  if (isLasting !== undefined) expect(found[0]?.lasting).toBe(isLasting);
  if (why !== undefined) expect(found[0]?.why).toMatch(why);
});

test.each([
  [undefined, false],
  [{}, true],
  [{ matchLabels: { app: "web" } }, true],
  [{ matchLabels: { app: "other" } }, false],
  [{ matchExpressions: [{ key: "app", operator: "In", values: ["a", "web"] }] }, true],
  [{ matchExpressions: [{ key: "app", operator: "NotIn", values: ["web"] }] }, false],
  [{ matchExpressions: [{ key: "tier", operator: "NotIn", values: ["web"] }] }, true],
  [{ matchExpressions: [{ key: "app", operator: "Exists" }] }, true],
  [{ matchExpressions: [{ key: "app", operator: "DoesNotExist" }] }, false],
])("the selector %j", (selector, wanted) => {
  expect(matches(selector, { app: "web" })).toBe(wanted);
});

test("pods are of what controls their controller", () => {
  const of = (kind: string, name: string, labels: Record<string, string> = {}) =>
    podOf({
      metadata: { labels, ownerReferences: [{ apiVersion: "apps/v1", kind, name, uid: "1", controller: true }] },
    } as unknown as PodObject);
  expect(of("ReplicaSet", "web-5d8", { "pod-template-hash": "5d8" })).toMatchObject({ workload: "Deployment web" });
  expect(of("ReplicaSet", "web")).toMatchObject({ workload: "ReplicaSet web", stays: false });
  expect(of("DaemonSet", "aws-node")).toMatchObject({ stays: true });
});
