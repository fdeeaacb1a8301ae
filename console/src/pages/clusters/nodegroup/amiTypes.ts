// The AMI types of managed node groups, and where Systems Manager has their releases.
import type { AMITypes } from "@aws-sdk/client-eks";

export interface AmiType {
  type: AMITypes;
  label: string;
  architecture: "x86_64" | "arm64";
  /** The name of eksctl for the operating system. */
  family: "AmazonLinux2023" | "Bottlerocket";
  nvidia: boolean;
}

/** The AMI types that are on offer, in the order of AWS's console. */
export const amiTypes: AmiType[] = [
  {
    type: "AL2023_x86_64_STANDARD",
    label: "Amazon Linux 2023 (x86_64) Standard",
    architecture: "x86_64",
    family: "AmazonLinux2023",
    nvidia: false,
  },
  {
    type: "AL2023_x86_64_NVIDIA",
    label: "Amazon Linux 2023 (x86_64) Nvidia",
    architecture: "x86_64",
    family: "AmazonLinux2023",
    nvidia: true,
  },
  {
    type: "AL2023_ARM_64_STANDARD",
    label: "Amazon Linux 2023 (arm64) Standard",
    architecture: "arm64",
    family: "AmazonLinux2023",
    nvidia: false,
  },
  {
    type: "AL2023_ARM_64_NVIDIA",
    label: "Amazon Linux 2023 (arm64) Nvidia",
    architecture: "arm64",
    family: "AmazonLinux2023",
    nvidia: true,
  },
  {
    type: "BOTTLEROCKET_x86_64",
    label: "Bottlerocket (x86_64)",
    architecture: "x86_64",
    family: "Bottlerocket",
    nvidia: false,
  },
  {
    type: "BOTTLEROCKET_x86_64_NVIDIA",
    label: "Bottlerocket (x86_64) Nvidia",
    architecture: "x86_64",
    family: "Bottlerocket",
    nvidia: true,
  },
  {
    type: "BOTTLEROCKET_ARM_64",
    label: "Bottlerocket (arm64)",
    architecture: "arm64",
    family: "Bottlerocket",
    nvidia: false,
  },
  {
    type: "BOTTLEROCKET_ARM_64_NVIDIA",
    label: "Bottlerocket (arm64) Nvidia",
    architecture: "arm64",
    family: "Bottlerocket",
    nvidia: true,
  },
];

/** AmiTypeOf returns what is known of an AMI type; undefined for CUSTOM and those that are not on offer. */
export function amiTypeOf(type: string | undefined): AmiType | undefined {
  return amiTypes.find((each) => each.type === type);
}

/** FormatAmiType returns an AMI type as AWS's console writes it, or the API where it is not on offer. */
export function formatAmiType(type: string | undefined): string {
  return amiTypeOf(type)?.label ?? type ?? "-";
}

/** DefaultInstanceType returns the instance type that AWS's console begins with. */
export function defaultInstanceType({ architecture, nvidia }: AmiType): string {
  if (nvidia) return architecture === "arm64" ? "g5g.xlarge" : "g4dn.xlarge";
  return architecture === "arm64" ? "t4g.medium" : "t3.medium";
}

/**
 * ReleasePath returns the path of Systems Manager below which the releases of an AMI type are for a version of
 * Kubernetes, and the end of the names of the parameters whose values are release versions.
 * https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html
 */
export function releasePath(ami: AmiType, version: string): { path: string; leaf: string } {
  if (ami.family === "Bottlerocket") {
    const flavor = `aws-k8s-${version}${ami.nvidia ? "-nvidia" : ""}`;
    return { path: `/aws/service/bottlerocket/${flavor}/${ami.architecture}`, leaf: "/image_version" };
  }
  const variant = ami.nvidia ? "nvidia" : "standard";
  return {
    path: `/aws/service/eks/optimized-ami/${version}/amazon-linux-2023/${ami.architecture}/${variant}`,
    leaf: "/release_version",
  };
}

/** ReleasesOf returns the release versions among parameters, newest first. */
export function releasesOf(parameters: { Name?: string; Value?: string }[], leaf: string): string[] {
  const values = parameters.flatMap(({ Name = "", Value = "" }) => (Name.endsWith(leaf) ? [Value] : []));
  return [...new Set(values)].sort((a, b) => b.localeCompare(a, "en", { numeric: true }));
}

/** MinorVersions returns the minor versions from one to another, the newest first: ["1.35", "1.34"]. */
export function minorVersions(from: string, to: string): string[] {
  const [least, most] = [from, to].map((version) => Number(version.split(".")[1]));
  if (least === undefined || most === undefined || Number.isNaN(least) || Number.isNaN(most)) return [to];
  return Array.from({ length: Math.max(most - least, 0) + 1 }, (_, i) => `1.${most - i}`);
}
