// Clusters, as EKS describes them.
import { type Cluster, type ClusterVersionInformation, DescribeClusterCommand, EKSClient } from "@aws-sdk/client-eks";
import { DescribeClusterVersionsCommand, paginateListClusters } from "@aws-sdk/client-eks";
import type { UseQueryResult } from "@tanstack/react-query";
import { useDescribed } from "../../aws/describe";
import { pollWhile, useAws } from "../../aws/queries";

/** IsChanging reports whether a cluster is on its way to another status. */
export function isChanging(cluster: Cluster | undefined): boolean {
  return /^(CREATING|UPDATING|DELETING|PENDING)$/.test(cluster?.status ?? "");
}

/** UseClusters lists the clusters of the region, and describes each. */
export function useClusters(): UseQueryResult<Cluster[]> {
  return useDescribed(EKSClient, {
    paginate: paginateListClusters,
    input: {},
    pages: (client) => paginateListClusters({ client }, {}),
    names: (page) => page.clusters,
    describe: async (client, name, abortSignal) =>
      (await client.send(new DescribeClusterCommand({ name }), { abortSignal })).cluster,
    changes: isChanging,
  });
}

/** UseCluster describes a cluster: at once again while it is changing. */
export function useCluster(name: string): UseQueryResult<{ cluster?: Cluster }> {
  return useAws(EKSClient, DescribeClusterCommand, { name }, { poll: pollWhile(({ cluster }) => isChanging(cluster)) });
}

/** UseVersions returns what EKS says of each version of Kubernetes. */
export function useVersions(): Map<string, ClusterVersionInformation> {
  const { data } = useAws(EKSClient, DescribeClusterVersionsCommand, { includeAll: true }, { poll: false });
  return new Map(data?.clusterVersions?.map((v) => [v.clusterVersion ?? "", v]));
}

/** SupportPeriod returns until when a version has which support: "Standard support until March 23, 2027". */
export function supportPeriod(version: ClusterVersionInformation | undefined): string {
  if (version === undefined) return "-";
  const date = (d: Date | undefined) =>
    d?.toLocaleDateString("en-US", { year: "numeric", month: "long", day: "numeric", timeZone: "UTC" }) ?? "-";
  switch (version.versionStatus) {
    case "STANDARD_SUPPORT":
      return `Standard support until ${date(version.endOfStandardSupportDate)}`;
    case "EXTENDED_SUPPORT":
      return `Extended support until ${date(version.endOfExtendedSupportDate)}`;
    default:
      return "Unsupported";
  }
}

/** UpgradePolicy returns what becomes of a cluster at the end of standard support: "Extended". */
export function upgradePolicy(cluster: Cluster): string {
  return cluster.upgradePolicy?.supportType === "STANDARD" ? "Standard" : "Extended";
}
