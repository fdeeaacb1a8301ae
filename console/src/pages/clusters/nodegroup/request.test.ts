import type { Nodegroup } from "@aws-sdk/client-eks";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { emptyForm, type Form, noTemplate, type Settings, templateOf } from "./form";
import {
  configCommandsOf,
  configRequestOf,
  createCommandsOf,
  createRequestOf,
  settingsOf,
  versionCommandsOf,
  versionRequestOf,
} from "./request";

const cluster = { name: "demo", resourcesVpcConfig: { vpcId: "vpc-1", clusterSecurityGroupId: "sg-1" } };
const form: Form = {
  ...emptyForm,
  name: "web",
  roleArn: "arn:aws:iam::111122223333:role/node",
  subnetIds: ["subnet-1", "subnet-2"],
  labels: [{ key: "team", value: "blue" }],
  taints: [{ key: "gpu", value: "", effect: "NO_SCHEDULE" }],
};

const group: Nodegroup = {
  clusterName: "demo",
  nodegroupName: "web",
  nodeRole: form.roleArn,
  subnets: form.subnetIds,
  amiType: "AL2023_x86_64_STANDARD",
  capacityType: "ON_DEMAND",
  instanceTypes: ["t3.medium"],
  diskSize: 20,
  version: "1.34",
  releaseVersion: "1.34.7-20261105",
  scalingConfig: { minSize: 1, maxSize: 3, desiredSize: 2 },
  labels: { team: "blue", tier: "web" },
  taints: [{ key: "gpu", value: "true", effect: "NO_SCHEDULE" }],
  updateConfig: { maxUnavailablePercentage: 50, updateStrategy: "DEFAULT" },
  nodeRepairConfig: { enabled: false },
  tags: {},
};

test("the form as it opens makes a request with the defaults of AWS's console", () => {
  expect(createRequestOf(form, "demo", noTemplate)).toEqual({
    clusterName: "demo",
    nodegroupName: "web",
    nodeRole: "arn:aws:iam::111122223333:role/node",
    subnets: ["subnet-1", "subnet-2"],
    scalingConfig: { minSize: 2, maxSize: 2, desiredSize: 2 },
    amiType: "AL2023_x86_64_STANDARD",
    capacityType: "ON_DEMAND",
    instanceTypes: ["t3.medium"],
    diskSize: 20,
    labels: { team: "blue" },
    taints: [{ key: "gpu", value: undefined, effect: "NO_SCHEDULE" }],
    updateConfig: { maxUnavailable: 1, updateStrategy: "DEFAULT" },
  });
});

test("what a launch template decides is left out", () => {
  const template = templateOf({ ImageId: "ami-1", InstanceType: "m5.large" });
  const request = createRequestOf(
    { ...form, useTemplate: true, templateId: "lt-1", templateVersion: "2", remoteAccess: true, keyPair: "ops" },
    "demo",
    template,
  );
  expect(request.launchTemplate).toEqual({ id: "lt-1", version: "2" });
  expect([request.amiType, request.instanceTypes, request.diskSize, request.remoteAccess]).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
});

test.each<["selected" | "all", string[] | undefined]>([
  ["selected", ["sg-1"]],
  ["all", undefined],
])("remote access from %s", (sources, sourceSecurityGroups) => {
  const request = createRequestOf(
    { ...form, remoteAccess: true, keyPair: "ops", sources, sourceGroups: ["sg-1"] },
    "demo",
    noTemplate,
  );
  expect(request.remoteAccess).toEqual({ ec2SshKey: "ops", sourceSecurityGroups });
});

test("other tools make the same node group", () => {
  const vpc = { id: "vpc-1", securityGroup: "sg-1", subnets: { public: { "subnet-1": { id: "subnet-1" } } } };
  const [aws, eksctl, template] = createCommandsOf(
    { ...form, capacityType: "SPOT", updateStrategy: "MINIMAL" },
    cluster,
    noTemplate,
    "eu-west-1",
    vpc,
  ).map(({ text }) => text);
  expect(aws).toContain("aws eks create-nodegroup");
  expect(aws).toContain("--capacity-type SPOT");
  expect(aws).toContain(`--scaling-config '{"minSize":2,"maxSize":2,"desiredSize":2}'`);
  const [, command, file, afterwards] = /^(.*?)<<'EOF'\n(.*)EOF\n(.*)$/s.exec(eksctl ?? "") ?? [];
  expect(command).toBe("eksctl create nodegroup -f - ");
  expect(afterwards).toContain("aws eks update-nodegroup-config");
  expect(parse(file ?? "")).toEqual({
    apiVersion: "eksctl.io/v1alpha5",
    kind: "ClusterConfig",
    metadata: { name: "demo", region: "eu-west-1" },
    vpc,
    managedNodeGroups: [
      {
        name: "web",
        iam: { instanceRoleARN: "arn:aws:iam::111122223333:role/node" },
        amiFamily: "AmazonLinux2023",
        instanceTypes: ["t3.medium"],
        spot: true,
        volumeSize: 20,
        minSize: 2,
        maxSize: 2,
        desiredCapacity: 2,
        subnets: ["subnet-1", "subnet-2"],
        labels: { team: "blue" },
        taints: [{ key: "gpu", effect: "NoSchedule" }],
        updateConfig: { maxUnavailable: 1 },
      },
    ],
  });
  expect(parse(template ?? "")).toMatchObject({
    Resources: {
      Nodegroup: {
        Type: "AWS::EKS::Nodegroup",
        Properties: {
          ClusterName: "demo",
          Labels: { team: "blue" },
          Taints: [{ Key: "gpu", Effect: "NO_SCHEDULE" }],
          ScalingConfig: { MinSize: 2 },
          UpdateConfig: { MaxUnavailable: 1, UpdateStrategy: "MINIMAL" },
        },
      },
    },
  });
});

test("settings that stay make no request", () => {
  const settings = settingsOf(group);
  expect(configRequestOf(settings, { ...settings }, "demo", "web")).toBeUndefined();
});

test.each<[string, Partial<Settings>, object]>([
  ["a size", { desiredSize: "3" }, { scalingConfig: { minSize: 1, maxSize: 3, desiredSize: 3 } }],
  [
    "labels",
    { labels: [{ key: "team", value: "red" }] },
    { labels: { addOrUpdateLabels: { team: "red" }, removeLabels: ["tier"] } },
  ],
  [
    "a taint's value",
    { taints: [{ key: "gpu", value: "", effect: "NO_SCHEDULE" }] },
    { taints: { addOrUpdateTaints: [{ key: "gpu", value: undefined, effect: "NO_SCHEDULE" }] } },
  ],
  [
    "a taint's effect",
    { taints: [{ key: "gpu", value: "true", effect: "NO_EXECUTE" }] },
    {
      taints: {
        addOrUpdateTaints: [{ key: "gpu", value: "true", effect: "NO_EXECUTE" }],
        removeTaints: [{ key: "gpu", value: "true", effect: "NO_SCHEDULE" }],
      },
    },
  ],
  [
    "the update config",
    { unavailable: { unit: "number", text: "2" } },
    { updateConfig: { maxUnavailable: 2, updateStrategy: "DEFAULT" } },
  ],
  [
    "node auto repair",
    { repair: true, parallel: { unit: "number", text: "1" } },
    { nodeRepairConfig: { enabled: true, maxParallelNodesRepairedCount: 1 } },
  ],
])("a change of %s sends that alone", (_, change, sent) => {
  const settings = settingsOf(group);
  expect(configRequestOf(settings, { ...settings, ...change }, "demo", "web")).toEqual({
    clusterName: "demo",
    nodegroupName: "web",
    ...sent,
  });
});

test("other tools make the same change", () => {
  const before = settingsOf(group);
  const after: Settings = { ...before, desiredSize: "3", labels: [{ key: "team", value: "red" }] };
  const nothing = { clusterName: "", nodegroupName: "" };
  const request = configRequestOf(before, after, "demo", "web");
  const commands = configCommandsOf(request ?? nothing, group, after, "eu-west-1");
  const [aws, eksctl, template] = commands.map(({ text }) => text);
  expect(aws).toContain("aws eks update-nodegroup-config");
  expect(eksctl).toContain("eksctl scale nodegroup");
  expect(eksctl).toContain("--nodes=3");
  expect(eksctl).toContain("--labels=team=red");
  expect(eksctl).toContain("eksctl unset labels");
  expect(parse(template ?? "")).toMatchObject({
    Resources: {
      Nodegroup: { Properties: { ScalingConfig: { DesiredSize: 3 }, Labels: { team: "red" }, Version: "1.34" } },
    },
  });
});

test("a version update names what changes", () => {
  const update = { version: "1.35", releaseVersion: "", templateVersion: "", force: true };
  expect(versionRequestOf(update, group)).toEqual({
    clusterName: "demo",
    nodegroupName: "web",
    version: "1.35",
    releaseVersion: undefined,
    launchTemplate: undefined,
    force: true,
  });
  const [aws, eksctl, template] = versionCommandsOf(update, group, "eu-west-1").map(({ text }) => text);
  expect(aws).toContain("--kubernetes-version 1.35");
  expect(aws).toContain("--force");
  expect(eksctl).toContain("--force-upgrade");
  expect(parse(template ?? "")).toMatchObject({
    Resources: { Nodegroup: { Properties: { Version: "1.35", ForceUpdateEnabled: true } } },
  });
});
