import type { Cluster } from "@aws-sdk/client-eks";
import { expect, test } from "vitest";
import { parse } from "yaml";
import {
  type EndpointAccess,
  endpointAccessOf,
  endpointChangeOf,
  endpointProblem,
  loggingChangeOf,
  nextVersion,
  remoteNetworkChangeOf,
  vpcChangeOf,
} from "./request";
import { clusterTemplate } from "./template";

const cluster: Cluster = {
  name: "web",
  version: "1.35",
  roleArn: "arn:aws:iam::111122223333:role/eks",
  resourcesVpcConfig: {
    subnetIds: ["subnet-1", "subnet-2"],
    securityGroupIds: [],
    endpointPublicAccess: true,
    endpointPrivateAccess: false,
    publicAccessCidrs: ["0.0.0.0/0"],
  },
  logging: {
    clusterLogging: [
      { types: ["audit"], enabled: true },
      { types: ["api", "scheduler"], enabled: false },
    ],
  },
  tags: { team: "a", "aws:cloudformation:stack-name": "x" },
};
const access = endpointAccessOf(cluster);

test.each<[Partial<EndpointAccess>, object | undefined]>([
  [{}, undefined],
  [{ privateAccess: true }, { endpointPrivateAccess: true }],
  [{ cidrs: ["1.2.3.4/32"] }, { publicAccessCidrs: ["1.2.3.4/32"] }],
  [
    { publicAccess: false, privateAccess: true, cidrs: [] },
    { endpointPublicAccess: false, endpointPrivateAccess: true },
  ],
])("an endpoint with %j", (change, vpc) => {
  expect(endpointChangeOf(access, { ...access, ...change })?.resourcesVpcConfig).toEqual(vpc);
});

test("an endpoint that nobody reaches, and what is no block, are refused", () => {
  expect(endpointProblem(access)).toBeUndefined();
  expect(endpointProblem({ ...access, publicAccess: false })).toBeDefined();
  expect(endpointProblem({ ...access, cidrs: ["10.0.0.1"] })).toBe("10.0.0.1 is no CIDR block.");
  expect(endpointProblem({ publicAccess: false, privateAccess: true, cidrs: ["?"] })).toBeUndefined();
});

test("the order of subnets is no change", () => {
  expect(vpcChangeOf(cluster, ["subnet-2", "subnet-1"], [])).toBeUndefined();
  expect(vpcChangeOf(cluster, ["subnet-1", "subnet-2"], ["sg-1"])).toEqual({
    resourcesVpcConfig: { securityGroupIds: ["sg-1"] },
  });
});

test("logs are turned on and off", () => {
  const all = ["api", "audit", "scheduler"] as const;
  expect(loggingChangeOf(cluster, new Set(["audit"] as const), [...all])).toBeUndefined();
  expect(loggingChangeOf(cluster, new Set(["api"] as const), [...all])).toEqual({
    logging: {
      clusterLogging: [
        { types: ["api"], enabled: true },
        { types: ["audit"], enabled: false },
      ],
    },
  });
});

test("remote networks are replaced as a whole", () => {
  expect(remoteNetworkChangeOf(cluster, [], [])).toBeUndefined();
  expect(remoteNetworkChangeOf(cluster, ["10.1.0.0/16"], [])).toEqual({
    remoteNetworkConfig: { remoteNodeNetworks: [{ cidrs: ["10.1.0.0/16"] }], remotePodNetworks: [] },
  });
});

test("a version has a next one", () => {
  expect(nextVersion("1.35")).toBe("1.36");
});

test("the template is that of the cluster after the change", () => {
  const { text } = clusterTemplate({ ...cluster, deletionProtection: true });
  expect(parse(text)).toMatchObject({
    Resources: {
      Cluster: {
        Properties: {
          Name: "web",
          DeletionProtection: true,
          Logging: { ClusterLogging: { EnabledTypes: [{ Type: "audit" }] } },
          ResourcesVpcConfig: { PublicAccessCidrs: ["0.0.0.0/0"] },
          Tags: [{ Key: "team", Value: "a" }],
        },
      },
    },
  });
  expect(text).not.toContain("SecurityGroupIds");
});
