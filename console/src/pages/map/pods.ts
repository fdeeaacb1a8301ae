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
  const [watched, setWatched] = useState(new Map<string, Watched<PodObject>>());
  const key = JSON.stringify(clusters.map(({ name, vpc }) => [name, vpc]).sort());
  useEffect(() => {
    const names = (JSON.parse(key) as [string, string][]).map(([name]) => name);
    const stops = names.map((name) => {
      const client = new KubernetesClient(name, session.region, newTokenSource(session, name));
      return follow<PodObject>(client, pods, undefined, {}, (each) =>
        setWatched((before) => new Map(before).set(name, each)),
      );
    });
    return () => {
      for (const stop of stops) stop();
      setWatched(new Map());
    };
  }, [key, session]);
  return useMemo(() => {
    const vpcs = new Map(JSON.parse(key) as [string, string][]);
    const found: FollowedPods = { pods: [], errors: new Map() };
    for (const [cluster, { items, error }] of watched) {
      if (error !== null) found.errors.set(cluster, error);
      for (const { metadata, spec, status } of items) {
        const { podIP: ip = "", phase = "" } = status ?? {};
        if (ip === "" || phase === "Succeeded" || phase === "Failed") continue;
        found.pods.push({
          uid: metadata.uid,
          cluster,
          vpc: vpcs.get(cluster) ?? "",
          namespace: metadata.namespace ?? "",
          name: metadata.name,
          phase,
          node: spec?.nodeName ?? "",
          ip,
        });
      }
    }
    return found;
  }, [key, watched]);
}
