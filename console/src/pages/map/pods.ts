// The pods of many clusters, followed.
import { useEffect, useMemo, useState } from "react";
import { KubernetesClient } from "../../kubernetes/client";
import { type KubernetesObject, pods } from "../../kubernetes/objects";
import { newTokenSource } from "../../kubernetes/token";
import { follow, type Watched } from "../../kubernetes/watch";
import { useSession } from "../../session/SessionProvider";
import type { Pod } from "./network";

interface PodObject extends KubernetesObject {
  spec?: { nodeName?: string };
  status?: { phase?: string; podIP?: string };
}

/** A cluster, and the VPC that its pods are in. */
export interface ClusterInVpc {
  name: string;
  vpc: string;
}

export interface FollowedPods {
  pods: Pod[];
  /** Why pods of a cluster cannot be read, by the name of the cluster. */
  errors: Map<string, Error>;
}

/** UsePods follows the pods of clusters. Pods that ended have no address any more, and are left out. */
export function usePods(clusters: ClusterInVpc[]): FollowedPods {
  const { session } = useSession();
  const [watched, setWatched] = useState(new Map<string, Watched<Pod>>());
  const key = JSON.stringify(clusters.map(({ name, vpc }) => [name, vpc]).sort());
  useEffect(() => {
    const stops = (JSON.parse(key) as [string, string][]).map(([name, vpc]) => {
      const client = new KubernetesClient(name, session.region, newTokenSource(session, name));
      const tell = (each: Watched<Pod>) => setWatched((before) => new Map(before).set(name, each));
      return follow<PodObject, Pod>(client, pods, undefined, {}, tell, (pod) => podOf(name, vpc, pod));
    });
    return () => {
      for (const stop of stops) stop();
      setWatched(new Map());
    };
  }, [key, session]);
  return useMemo(() => {
    const found: FollowedPods = { pods: [], errors: new Map() };
    for (const [cluster, { items, error }] of watched) {
      if (error !== null) found.errors.set(cluster, error);
      for (const pod of items) if (pod.ip !== "" && !/^(Succeeded|Failed)$/.test(pod.phase)) found.pods.push(pod);
    }
    return found;
  }, [watched]);
}

/** PodOf returns what the map keeps of a pod. */
function podOf(cluster: string, vpc: string, { metadata, spec, status }: PodObject): Pod {
  return {
    uid: metadata.uid,
    cluster,
    vpc,
    namespace: metadata.namespace ?? "",
    name: metadata.name,
    phase: status?.phase ?? "",
    node: spec?.nodeName ?? "",
    ip: status?.podIP ?? "",
  };
}
