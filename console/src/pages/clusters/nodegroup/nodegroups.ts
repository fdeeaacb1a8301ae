// Node groups, as EKS describes them.
import { EC2Client, DescribeLaunchTemplateVersionsCommand } from "@aws-sdk/client-ec2";
import {
  type DescribeNodegroupCommandOutput,
  DescribeNodegroupCommand,
  EKSClient,
  type Nodegroup,
  paginateListNodegroups,
} from "@aws-sdk/client-eks";
import { paginateGetParametersByPath, SSMClient } from "@aws-sdk/client-ssm";
import type { UseQueryResult } from "@tanstack/react-query";
import { useDescribed } from "../../../aws/describe";
import { pollWhile, useAws, useAwsPages } from "../../../aws/queries";
import { amiTypeOf, releasePath, releasesOf } from "./amiTypes";

/** IsUnsettled reports whether a node group or a Fargate profile is on its way to another status. */
export function isUnsettled(of: { status?: string } | undefined): boolean {
  return /^(CREATING|UPDATING|DELETING)$/.test(of?.status ?? "");
}

/** UseNodegroups lists the node groups of a cluster, and describes each. */
export function useNodegroups(clusterName: string): UseQueryResult<Nodegroup[]> {
  return useDescribed(EKSClient, {
    paginate: paginateListNodegroups,
    input: { clusterName },
    pages: (client) => paginateListNodegroups({ client }, { clusterName }),
    names: (page) => page.nodegroups,
    describe: async (client, nodegroupName, abortSignal) =>
      (await client.send(new DescribeNodegroupCommand({ clusterName, nodegroupName }), { abortSignal })).nodegroup,
    changes: isUnsettled,
  });
}

/** UseNodegroup describes a node group: at once again while it is changing. */
export function useNodegroup(
  clusterName: string,
  nodegroupName: string,
): UseQueryResult<DescribeNodegroupCommandOutput> {
  return useAws(
    EKSClient,
    DescribeNodegroupCommand,
    { clusterName, nodegroupName },
    { poll: pollWhile(({ nodegroup }) => isUnsettled(nodegroup)) },
  );
}

/** UseTemplateVersions lists the versions of a launch template, the newest first. */
export function useTemplateVersions(id: string | undefined) {
  const { data, error, isPending } = useAws(
    EC2Client,
    DescribeLaunchTemplateVersionsCommand,
    { LaunchTemplateId: id },
    { enabled: id !== undefined && id !== "" },
  );
  const versions = data?.LaunchTemplateVersions?.toSorted((a, b) => (b.VersionNumber ?? 0) - (a.VersionNumber ?? 0));
  return { versions, error, isPending };
}

/** UseReleases lists the releases of an AMI type for a version of Kubernetes, the newest first. */
export function useReleases(type: string | undefined, version: string | undefined): string[] | undefined {
  const ami = amiTypeOf(type);
  const known = ami !== undefined && version !== undefined && version !== "";
  const { path, leaf } = known ? releasePath(ami, version) : { path: "/", leaf: "" };
  const { data } = useAwsPages(
    SSMClient,
    paginateGetParametersByPath,
    { Path: path, Recursive: true },
    (page) => page.Parameters,
    { enabled: known, poll: false },
  );
  return data && releasesOf(data, leaf);
}
