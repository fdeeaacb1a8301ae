import { expect, test } from "vitest";
import { awsCommand, cloudFormationResource, kubectlCommand, optionName } from "./command";

test.each([
  ["name", "name"],
  ["clusterName", "cluster-name"],
  ["resourcesVpcConfig", "resources-vpc-config"],
  ["VpcId", "vpc-id"],
  ["DBInstanceIdentifier", "db-instance-identifier"],
  ["PolicyARNs", "policy-arns"],
  ["kubernetesNetworkConfig", "kubernetes-network-config"],
])("%s is the option --%s", (member, option) => {
  expect(optionName(member)).toBe(option);
});

test("a short command is a line", () => {
  expect(awsCommand("eks", "describe-cluster", { name: "web", x: undefined }, "eu-west-1").text).toBe(
    "aws eks describe-cluster --name web --region eu-west-1",
  );
});

test("a long one has a line for each option", () => {
  const { text } = awsCommand("eks", "create-nodegroup", {
    clusterName: "web",
    subnets: ["subnet-1", "subnet-2"],
    scalingConfig: { minSize: 1, maxSize: 3 },
    tags: { "it's": "mine" },
    force: false,
  });
  expect(text).toBe(
    [
      "aws eks create-nodegroup \\",
      "  --cluster-name web \\",
      "  --subnets subnet-1 subnet-2 \\",
      `  --scaling-config '{"minSize":1,"maxSize":3}' \\`,
      `  --tags $'{"it\\047s":"mine"}' \\`,
      "  --no-force",
    ].join("\n"),
  );
});

test("kubectl gets its words quoted", () => {
  expect(kubectlCommand("web", "get", "pods", "-l", "app in (a)").text).toBe(
    "kubectl --context web get pods -l 'app in (a)'",
  );
});

test("a resource of CloudFormation is YAML", () => {
  expect(cloudFormationResource("Cluster", "AWS::EKS::Cluster", { Name: "web", Version: undefined }).text).toBe(
    "Resources:\n  Cluster:\n    Type: AWS::EKS::Cluster\n    Properties:\n      Name: web\n",
  );
});

test("what the AWS CLI would misread is in JSON", () => {
  const { text } = awsCommand("iam", "get-role", { RoleName: "--debug", query: "Role" }, "eu-west-1");
  const options = ["--query Role", `--cli-input-json '{"RoleName":"--debug"}'`, "--region eu-west-1"];
  expect(text).toBe(["aws iam get-role", ...options].join(" \\\n  "));
  expect(awsCommand("x", "y", { Names: ["a", "file:///etc/passwd"] }).text).toBe(
    `aws x y --cli-input-json '{"Names":["a","file:///etc/passwd"]}'`,
  );
  expect(awsCommand("x", "y", { Name: "a\0b" }).text).toBe(`aws x y --cli-input-json $'{"Name":"a\\\\u0000b"}'`);
});

test("the version of Kubernetes is not that of the AWS CLI", () => {
  expect(awsCommand("eks", "update-cluster-version", { name: "web", version: "1.35" }).text).toBe(
    "aws eks update-cluster-version --name web --kubernetes-version 1.35",
  );
});
