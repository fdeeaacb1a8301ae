// What configuration files of eksctl have of a cluster that exists. https://schema.eksctl.io
import type { Cluster } from "@aws-sdk/client-eks";
import type { Place } from "./subnets";

/** The network of a cluster, which eksctl has to be told of for a cluster that it has not made. */
export interface EksctlVpc {
  id: string;
  securityGroup: string;
  subnets: { public?: Record<string, { id: string }>; private?: Record<string, { id: string }> };
}

/** EksctlVpcOf returns the network of a cluster, with the subnets that are used. */
export function eksctlVpcOf(cluster: Cluster, places: Place[]): EksctlVpc {
  const { vpcId = "", clusterSecurityGroupId = "" } = cluster.resourcesVpcConfig ?? {};
  const of = (wanted: boolean) => {
    const found = places.filter(({ isPublic }) => (isPublic === true) === wanted);
    return found.length === 0 ? undefined : Object.fromEntries(found.map(({ id }) => [id, { id }]));
  };
  return { id: vpcId, securityGroup: clusterSecurityGroupId, subnets: { public: of(true), private: of(false) } };
}
