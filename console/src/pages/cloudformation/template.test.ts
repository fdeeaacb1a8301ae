import { expect, test } from "vitest";
import { dependenciesOf, parseTemplate, resourcesOf } from "./template";

const yaml = `
AWSTemplateFormatVersion: 2010-09-09
Parameters:
  Name: { Type: String }
Resources:
  Role:
    Type: AWS::IAM::Role
    Properties:
      RoleName: !Sub "\${Name}-\${AWS::Region}-\${!Cluster}"
  Subnet:
    Type: AWS::EC2::Subnet
    Condition: HasSubnet
    Properties:
      VpcId: !Ref Vpc
      AvailabilityZone: !Select [0, !GetAZs ""]
  Vpc:
    Type: AWS::EC2::VPC
  Cluster:
    Type: AWS::EKS::Cluster
    DependsOn: [Vpc]
    Properties:
      RoleArn: !GetAtt Role.Arn
      ResourcesVpcConfig:
        SubnetIds:
          - !If [HasSubnet, !Ref Subnet, !Ref "AWS::NoValue"]
  Output:
    Type: AWS::SSM::Parameter
    DependsOn: Cluster
    Properties:
      Value: !Sub
        - "\${Cluster.Endpoint} of \${Cluster} in \${Vpc}"
        - Vpc: !GetAtt [Subnet, VpcId]
`;

const json = JSON.stringify({
  Resources: {
    Role: { Type: "AWS::IAM::Role" },
    Cluster: { Type: "AWS::EKS::Cluster", Properties: { RoleArn: { "Fn::GetAtt": ["Role", "Arn"] } } },
  },
});

test("the short form of functions becomes the long form", () => {
  const { Resources } = parseTemplate(yaml) as { Resources: Record<string, { Properties: unknown }> };
  expect(Resources.Subnet?.Properties).toEqual({
    VpcId: { Ref: "Vpc" },
    AvailabilityZone: { "Fn::Select": [0, { "Fn::GetAZs": "" }] },
  });
  expect(Resources.Cluster?.Properties).toMatchObject({ RoleArn: { "Fn::GetAtt": "Role.Arn" } });
});

test("dependencies are found in each function, with the place", () => {
  expect(dependenciesOf(resourcesOf(yaml))).toEqual([
    { from: "Subnet", to: "Vpc", reasons: [{ by: "Ref", path: "Properties.VpcId" }] },
    { from: "Cluster", to: "Vpc", reasons: [{ by: "DependsOn", path: "DependsOn" }] },
    { from: "Cluster", to: "Role", reasons: [{ by: "Fn::GetAtt", path: "Properties.RoleArn", attribute: "Arn" }] },
    {
      from: "Cluster",
      to: "Subnet",
      reasons: [{ by: "Ref", path: "Properties.ResourcesVpcConfig.SubnetIds[0].Fn::If[1]" }],
    },
    {
      from: "Output",
      to: "Cluster",
      reasons: [
        { by: "DependsOn", path: "DependsOn" },
        { by: "Fn::Sub", path: "Properties.Value", attribute: "Endpoint" },
        { by: "Fn::Sub", path: "Properties.Value", attribute: undefined },
      ],
    },
    {
      from: "Output",
      to: "Subnet",
      reasons: [{ by: "Fn::GetAtt", path: "Properties.Value.Fn::Sub[1].Vpc", attribute: "VpcId" }],
    },
  ]);
});

test("a template in JSON has the same", () => {
  expect(dependenciesOf(resourcesOf(json))).toEqual([
    { from: "Cluster", to: "Role", reasons: [{ by: "Fn::GetAtt", path: "Properties.RoleArn", attribute: "Arn" }] },
  ]);
});

test("a template without resources has none, and one that is no template says why", () => {
  expect(resourcesOf("").size).toBe(0);
  expect(resourcesOf("Resources: []").size).toBe(0);
  expect(() => resourcesOf("Resources: [")).toThrow();
});
