// Fargate profiles, as EKS describes them.
import {
  DescribeFargateProfileCommand,
  type DescribeFargateProfileCommandOutput,
  EKSClient,
  type FargateProfile,
  paginateListFargateProfiles,
} from "@aws-sdk/client-eks";
import type { UseQueryResult } from "@tanstack/react-query";
import { useDescribed } from "../../../aws/describe";
import { pollWhile, useAws } from "../../../aws/queries";
import { isUnsettled } from "../nodegroup/nodegroups";

/** UseProfiles lists the Fargate profiles of a cluster, and describes each. */
export function useProfiles(clusterName: string): UseQueryResult<FargateProfile[]> {
  return useDescribed(EKSClient, {
    paginate: paginateListFargateProfiles,
    input: { clusterName },
    pages: (client) => paginateListFargateProfiles({ client }, { clusterName }),
    names: (page) => page.fargateProfileNames,
    describe: async (client, fargateProfileName, abortSignal) =>
      (await client.send(new DescribeFargateProfileCommand({ clusterName, fargateProfileName }), { abortSignal }))
        .fargateProfile,
    changes: isUnsettled,
  });
}

/** UseProfile describes a Fargate profile: at once again while it is changing. */
export function useProfile(
  clusterName: string,
  fargateProfileName: string,
): UseQueryResult<DescribeFargateProfileCommandOutput> {
  return useAws(
    EKSClient,
    DescribeFargateProfileCommand,
    { clusterName, fargateProfileName },
    { poll: pollWhile(({ fargateProfile }) => isUnsettled(fargateProfile)) },
  );
}
