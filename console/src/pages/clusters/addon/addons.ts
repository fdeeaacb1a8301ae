// Add-ons, as EKS describes them.
import {
  type Addon,
  type AddonInfo,
  DescribeAddonCommand,
  DescribeAddonConfigurationCommand,
  type DescribeAddonConfigurationCommandOutput,
  DescribePodIdentityAssociationCommand,
  DescribeUpdateCommand,
  EKSClient,
  paginateDescribeAddonVersions,
  paginateListPodIdentityAssociations,
  paginateListUpdates,
  type PodIdentityAssociation,
  type Update,
} from "@aws-sdk/client-eks";
import type { UseQueryResult } from "@tanstack/react-query";
import { useDescribed } from "../../../aws/describe";
import { pollWhile, useAws, useAwsPages } from "../../../aws/queries";

/** IsChanging reports whether an add-on is on its way to another status. */
export function isChanging(addon: Addon | undefined): boolean {
  return /^(CREATING|UPDATING|DELETING)$/.test(addon?.status ?? "");
}

/** UseAddon describes an add-on: at once again while it is changing. */
export function useAddon(clusterName: string, addonName: string): UseQueryResult<{ addon?: Addon }> {
  const poll = pollWhile<{ addon?: Addon }>(({ addon }) => isChanging(addon));
  return useAws(EKSClient, DescribeAddonCommand, { clusterName, addonName }, { poll });
}

/** UseAddonVersions returns the add-ons that there are for a version of Kubernetes; only one, by its name. */
export function useAddonVersions(
  kubernetesVersion: string | undefined,
  addonName?: string,
): UseQueryResult<AddonInfo[]> {
  return useAwsPages(
    EKSClient,
    paginateDescribeAddonVersions,
    { kubernetesVersion, addonName },
    (page) => page.addons,
    { poll: false, enabled: kubernetesVersion !== undefined },
  );
}

/** UseAddonConfiguration returns what can be configured of a version of an add-on. */
export function useAddonConfiguration(
  addonName: string,
  addonVersion: string,
): UseQueryResult<DescribeAddonConfigurationCommandOutput> {
  return useAws(
    EKSClient,
    DescribeAddonConfigurationCommand,
    { addonName, addonVersion },
    { poll: false, enabled: addonVersion !== "" },
  );
}

/** UseAddonAssociations describes the pod identity associations that an add-on owns. */
export function useAddonAssociations(
  clusterName: string,
  addonArn: string | undefined,
): UseQueryResult<PodIdentityAssociation[]> {
  return useDescribed(EKSClient, {
    paginate: useAddonAssociations,
    input: { clusterName, addonArn },
    pages: (client) => paginateListPodIdentityAssociations({ client }, { clusterName }),
    names: (page) => page.associations?.filter(({ ownerArn }) => ownerArn !== undefined && ownerArn === addonArn),
    describe: async (client, { associationId }, abortSignal) =>
      (await client.send(new DescribePodIdentityAssociationCommand({ clusterName, associationId }), { abortSignal }))
        .association,
  });
}

/** UseAddonUpdates describes the updates of an add-on, the newest first. */
export function useAddonUpdates(name: string, addonName: string): UseQueryResult<Update[]> {
  const updates = useDescribed(EKSClient, {
    paginate: useAddonUpdates,
    input: { name, addonName },
    pages: (client) => paginateListUpdates({ client }, { name, addonName }),
    names: (page) => page.updateIds,
    describe: async (client, updateId, abortSignal) =>
      (await client.send(new DescribeUpdateCommand({ name, addonName, updateId }), { abortSignal })).update,
    changes: (u: Update) => u.status === "InProgress",
  });
  const time = (u: Update) => u.createdAt?.getTime() ?? 0;
  return { ...updates, data: updates.data?.toSorted((a, b) => time(b) - time(a)) } as UseQueryResult<Update[]>;
}
