import { expect, test } from "vitest";
import { type AmiType, amiTypeOf, amiTypes, defaultInstanceType, minorVersions } from "./amiTypes";
import { releasePath, releasesOf } from "./amiTypes";

const ami = (type: string) => amiTypeOf(type) as AmiType;

test.each([
  ["AL2023_x86_64_STANDARD", "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard"],
  ["AL2023_ARM_64_NVIDIA", "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/arm64/nvidia"],
  ["BOTTLEROCKET_ARM_64", "/aws/service/bottlerocket/aws-k8s-1.35/arm64"],
  ["BOTTLEROCKET_x86_64_NVIDIA", "/aws/service/bottlerocket/aws-k8s-1.35-nvidia/x86_64"],
])("releases of %s are below %s", (type, path) => {
  expect(releasePath(ami(type), "1.35").path).toBe(path);
});

test("releases are sorted, the newest first", () => {
  const parameters = [
    { Name: "/x/v20261022/release_version", Value: "1.35.4-20261022" },
    { Name: "/x/v20261022/image_id", Value: "ami-1" },
    { Name: "/x/recommended/release_version", Value: "1.35.10-20261105" },
    { Name: "/x/v20261105/release_version", Value: "1.35.10-20261105" },
  ];
  expect(releasesOf(parameters, "/release_version")).toEqual(["1.35.10-20261105", "1.35.4-20261022"]);
});

test("each AMI type begins with an instance type of its own architecture", () => {
  const arm = /^[a-z]+\d+g/;
  for (const each of amiTypes) {
    expect([each.type, arm.test(defaultInstanceType(each))]).toEqual([each.type, each.architecture === "arm64"]);
  }
});

test.each([
  ["1.33", "1.35", ["1.35", "1.34", "1.33"]],
  ["1.35", "1.35", ["1.35"]],
  ["", "1.35", ["1.35"]],
])("from %j to %s there are %j", (from, to, versions) => {
  expect(minorVersions(from, to)).toEqual(versions);
});
