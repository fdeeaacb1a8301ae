// Clusters, as EKS describes them.
import { type Cluster, type ClusterVersionInformation, DescribeClusterCommand, EKSClient } from "@aws-sdk/client-eks";
import { DescribeClusterVersionsCommand, paginateListClusters } from "@aws-sdk/client-eks";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { isNotFound } from "../../aws/errors";
import { useClient } from "../../aws/client";
import { awsKey, fast, pollWhile, slow, useAws } from "../../aws/queries";
import { useSession } from "../../session/SessionProvider";

/** How many clusters are described at a time. */
const together = 4;

/** IsChanging reports whether a cluster is on its way to another status. */
export function isChanging(cluster: Cluster | undefined): boolean {
  return /^(CREATING|UPDATING|DELETING|PENDING)$/.test(cluster?.status ?? "");
}

/** UseClusters lists the clusters of the region, and describes each. */
export function useClusters(): UseQueryResult<Cluster[]> {
  const client = useClient(EKSClient);
  const { session } = useSession();
  return useQuery({
    queryKey: [...awsKey(EKSClient, useClusters), session.region],
    queryFn: async ({ signal: abortSignal }) => {
      const names: string[] = [];
      for await (const page of paginateListClusters({ client }, {})) names.push(...(page.clusters ?? []));
      const found: (Cluster | undefined)[] = [];
      for (let i = 0; i < names.length; i += together) {
        const some = names.slice(i, i + together).map((name) =>
          client.send(new DescribeClusterCommand({ name }), { abortSignal }).then(
            ({ cluster }) => cluster,
            (error: unknown) => {
              if (isNotFound(error)) return undefined; // deleted meanwhile
              throw error;
            },
          ),
        );
        found.push(...(await Promise.all(some)));
      }
      return found.filter((cluster) => cluster !== undefined);
    },
    refetchInterval: ({ state }) => (state.data?.some(isChanging) === true ? fast : slow),
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
