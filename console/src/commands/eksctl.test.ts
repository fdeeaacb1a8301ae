import { expect, test } from "vitest";
import { eksctlCommand, eksctlFile } from "./eksctl";

test("options that are not set are left out", () => {
  expect(eksctlCommand("upgrade cluster", { name: "web", version: undefined, approve: true }, "eu-west-1").text).toBe(
    "eksctl upgrade cluster --name=web --approve --region=eu-west-1",
  );
});

test("a switch that is off, and a list, have values", () => {
  const { text } = eksctlCommand("utils x", { "public-access": false, cidrs: ["10.0.0.0/8", "a b"] }, "eu-west-1");
  expect(text).toBe("eksctl utils x --public-access=false --cidrs='10.0.0.0/8,a b' --region=eu-west-1");
});

test("a configuration file is given to the command", () => {
  const addons = [{ name: "coredns", version: undefined }];
  const { text } = eksctlFile("create addon", "web", "eu-west-1", { addons });
  expect(text).toBe(
    `eksctl create addon -f - <<'EOF'
apiVersion: eksctl.io/v1alpha5
kind: ClusterConfig
metadata:
  name: web
  region: eu-west-1
addons:
  - name: coredns
EOF
`,
  );
});
