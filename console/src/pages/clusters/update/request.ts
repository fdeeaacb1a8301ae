// The requests that change the configuration of a cluster: each changes one thing, and has nothing that stays.
import type { Cluster, LogType, UpdateClusterConfigRequest, VpcConfigRequest } from "@aws-sdk/client-eks";
import { enabledLogTypes } from "./template";

/** A change of a cluster, without its name. */
export type Change = Omit<UpdateClusterConfigRequest, "name">;

/** Who reaches the API server. */
export interface EndpointAccess {
  publicAccess: boolean;
  privateAccess: boolean;
  cidrs: string[];
}

/** EndpointAccessOf returns who reaches the API server of a cluster now. */
export function endpointAccessOf({ resourcesVpcConfig: vpc }: Cluster): EndpointAccess {
  return {
    publicAccess: vpc?.endpointPublicAccess ?? true,
    privateAccess: vpc?.endpointPrivateAccess ?? false,
    cidrs: vpc?.publicAccessCidrs ?? [],
  };
}

const cidrPattern = /^(\d{1,3}\.){3}\d{1,3}\/\d{1,2}$|^[0-9a-fA-F:]+\/\d{1,3}$/;

/** EndpointProblem says what is wrong with the access to an endpoint, before EKS does. */
export function endpointProblem({ publicAccess, privateAccess, cidrs }: EndpointAccess): string | undefined {
  if (!publicAccess && !privateAccess) return "Private and public endpoint access cannot be false";
  if (!publicAccess) return undefined;
  const bad = cidrs.find((cidr) => !cidrPattern.test(cidr));
  return bad === undefined ? undefined : `${bad} is no CIDR block.`;
}

/** EndpointChangeOf returns the change to an access to the endpoint; undefined where it stays. */
export function endpointChangeOf(before: EndpointAccess, after: EndpointAccess): Change | undefined {
  const vpc: VpcConfigRequest = {};
  if (after.publicAccess !== before.publicAccess) vpc.endpointPublicAccess = after.publicAccess;
  if (after.privateAccess !== before.privateAccess) vpc.endpointPrivateAccess = after.privateAccess;
  if (after.publicAccess && !sameSet(after.cidrs, before.cidrs)) vpc.publicAccessCidrs = after.cidrs;
  return Object.keys(vpc).length === 0 ? undefined : { resourcesVpcConfig: vpc };
}

/** VpcChangeOf returns the change to subnets and security groups; undefined where they stay. */
export function vpcChangeOf(
  { resourcesVpcConfig: before }: Cluster,
  subnetIds: string[],
  securityGroupIds: string[],
): Change | undefined {
  const vpc: VpcConfigRequest = {};
  if (!sameSet(subnetIds, before?.subnetIds ?? [])) vpc.subnetIds = subnetIds;
  if (!sameSet(securityGroupIds, before?.securityGroupIds ?? [])) vpc.securityGroupIds = securityGroupIds;
  return Object.keys(vpc).length === 0 ? undefined : { resourcesVpcConfig: vpc };
}

function sameSet(a: string[], b: string[]): boolean {
  const [left, right] = [new Set(a), new Set(b)];
  return left.size === right.size && [...left].every((each) => right.has(each));
}

/** LoggingChangeOf returns the change to the control plane logs that are wanted; undefined where they stay. */
export function loggingChangeOf(cluster: Cluster, wanted: Set<LogType>, all: LogType[]): Change | undefined {
  const on = new Set(enabledLogTypes(cluster));
  const changed = (enabled: boolean) => ({
    types: all.filter((type) => wanted.has(type) === enabled && on.has(type) !== enabled),
    enabled,
  });
  const clusterLogging = [changed(true), changed(false)].filter(({ types }) => types.length > 0);
  return clusterLogging.length === 0 ? undefined : { logging: { clusterLogging } };
}

/** Networks are the blocks of a remote network: of hybrid nodes, or of their pods. */
export function remoteNetworkChangeOf(cluster: Cluster, nodes: string[], pods: string[]): Change | undefined {
  const before = cluster.remoteNetworkConfig;
  const cidrsOf = (networks: { cidrs?: string[] }[] | undefined) => networks?.flatMap(({ cidrs }) => cidrs ?? []) ?? [];
  if (sameSet(nodes, cidrsOf(before?.remoteNodeNetworks)) && sameSet(pods, cidrsOf(before?.remotePodNetworks))) {
    return undefined;
  }
  return {
    remoteNetworkConfig: {
      remoteNodeNetworks: nodes.length > 0 ? [{ cidrs: nodes }] : [],
      remotePodNetworks: pods.length > 0 ? [{ cidrs: pods }] : [],
    },
  };
}

/** NextVersion returns the minor version behind another: "1.35" of "1.34". */
export function nextVersion(version: string | undefined): string {
  const [major = "1", minor = "0"] = (version ?? "").split(".");
  return `${major}.${Number(minor) + 1}`;
}
