import { expect, test } from "vitest";
import { type AwsAuth, type Binding, bindingsOf, type Entry, formatBinding, resolveMappings } from "./access";

const metadata = { name: "aws-auth", uid: "1", resourceVersion: "1", creationTimestamp: "" };
const awsAuth: AwsAuth = {
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata,
  data: {
    mapRoles: `- rolearn: arn:aws:iam::111122223333:role/web
  username: web
  groups: [editors]
- rolearn: arn:aws:iam::111122223333:role/nodes
  username: system:node:{{EC2PrivateDNSName}}
  groups: [system:bootstrappers, system:nodes]
`,
    mapUsers: "- userarn: arn:aws:iam::111122223333:user/alice\n  username: alice\n",
    mapAccounts: '- "444455556666"\n',
  },
};
const entries: Entry[] = [
  {
    principalArn: "arn:aws:iam::111122223333:role/team/web",
    username: "arn:aws:sts::111122223333:assumed-role/web/{{SessionName}}",
    kubernetesGroups: ["viewers"],
    policies: [],
  },
];
const ignored = (mode: string) => resolveMappings(mode, entries, awsAuth).map((m) => m.ignored !== "");

test("access entries come before aws-auth, whatever the path of a role", () => {
  const mappings = resolveMappings("API_AND_CONFIG_MAP", entries, awsAuth);
  expect(mappings.map((m) => m.source)).toEqual(["Access entry", "mapRoles", "mapRoles", "mapUsers", "mapAccounts"]);
  expect(ignored("API_AND_CONFIG_MAP")).toEqual([false, true, false, false, false]);
});

test("the mode of a cluster leaves sources out", () => {
  expect(ignored("API")).toEqual([false, true, true, true, true]);
  expect(ignored("CONFIG_MAP")).toEqual([true, false, false, false, false]);
});

test("an aws-auth that is not valid maps nobody", () => {
  expect(resolveMappings("CONFIG_MAP", [], { ...awsAuth, data: { mapRoles: "- rolearn: [" } })).toEqual([]);
  expect(resolveMappings("CONFIG_MAP", [], { ...awsAuth, data: { mapRoles: "web: editors" } })).toEqual([]);
});

function binding(kind: string, role: string, subject: { kind: string; name: string }, standard = false): Binding {
  return {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind,
    metadata: {
      ...metadata,
      name: role,
      namespace: kind === "RoleBinding" ? "default" : undefined,
      labels: standard ? { "kubernetes.io/bootstrapping": "rbac-defaults" } : undefined,
    },
    roleRef: { kind: "ClusterRole", name: role },
    subjects: [subject],
  };
}

test("a user has the bindings of its name and its groups", () => {
  const bindings = [
    binding("RoleBinding", "edit", { kind: "Group", name: "editors" }),
    binding("ClusterRoleBinding", "view", { kind: "User", name: "web" }),
    binding("ClusterRoleBinding", "admin", { kind: "ServiceAccount", name: "web" }),
    binding("ClusterRoleBinding", "shared", { kind: "Group", name: "system:authenticated" }),
    binding("ClusterRoleBinding", "system:discovery", { kind: "Group", name: "system:authenticated" }, true),
    binding("ClusterRoleBinding", "cluster-admin", { kind: "Group", name: "system:masters" }, true),
  ];
  const of = (groups: string[]) => bindingsOf({ username: "web", groups }, bindings).map(formatBinding);
  expect(of(["editors"])).toEqual([
    "ClusterRole edit (default)",
    "ClusterRole view (cluster)",
    "ClusterRole shared (cluster)",
  ]);
  expect(of(["system:masters"])).toContain("ClusterRole cluster-admin (cluster)");
});
