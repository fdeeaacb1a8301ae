// The CloudFormation resource of a cluster that there is: a change of the cluster is a change of the template.
import type { Cluster } from "@aws-sdk/client-eks";
import { cloudFormationResource, type Command } from "../../../commands/command";

/** ClusterTemplate returns the template of a cluster: of { ...cluster, deletionProtection: true } after a change. */
export function clusterTemplate(cluster: Cluster): Command {
  const vpc = cluster.resourcesVpcConfig;
  const network = cluster.kubernetesNetworkConfig;
  const remote = cluster.remoteNetworkConfig;
  const types = enabledLogTypes(cluster);
  const tags = Object.entries(cluster.tags ?? {}).filter(([key]) => !key.startsWith("aws:"));
  const some = <T>(list: T[] | undefined) => (list === undefined || list.length === 0 ? undefined : list);
  return cloudFormationResource("Cluster", "AWS::EKS::Cluster", {
    Name: cluster.name,
    Version: cluster.version,
    RoleArn: cluster.roleArn,
    ResourcesVpcConfig: {
      SubnetIds: vpc?.subnetIds,
      SecurityGroupIds: some(vpc?.securityGroupIds),
      EndpointPublicAccess: vpc?.endpointPublicAccess,
      EndpointPrivateAccess: vpc?.endpointPrivateAccess,
      PublicAccessCidrs: vpc?.endpointPublicAccess === true ? some(vpc.publicAccessCidrs) : undefined,
    },
    KubernetesNetworkConfig: network && {
      IpFamily: network.ipFamily,
      ServiceIpv4Cidr: network.ipFamily === "ipv6" ? undefined : network.serviceIpv4Cidr,
    },
    RemoteNetworkConfig: remote && {
      RemoteNodeNetworks: remote.remoteNodeNetworks?.map(({ cidrs }) => ({ Cidrs: cidrs })),
      RemotePodNetworks: remote.remotePodNetworks?.map(({ cidrs }) => ({ Cidrs: cidrs })),
    },
    AccessConfig: { AuthenticationMode: cluster.accessConfig?.authenticationMode },
    Logging:
      types.length > 0 ? { ClusterLogging: { EnabledTypes: types.map((Type) => ({ Type })) } } : undefined,
    EncryptionConfig: some(cluster.encryptionConfig)?.map(({ provider }) => ({
      Resources: ["secrets"],
      Provider: { KeyArn: provider?.keyArn },
    })),
    UpgradePolicy: cluster.upgradePolicy && { SupportType: cluster.upgradePolicy.supportType },
    DeletionProtection: cluster.deletionProtection,
    ZonalShiftConfig: cluster.zonalShiftConfig && { Enabled: cluster.zonalShiftConfig.enabled },
    Tags: some(tags)?.map(([Key, Value]) => ({ Key, Value })),
  });
}

/** EnabledLogTypes returns the control plane logs that a cluster has. */
export function enabledLogTypes({ logging }: Cluster) {
  return logging?.clusterLogging?.filter(({ enabled }) => enabled === true).flatMap(({ types }) => types ?? []) ?? [];
}
