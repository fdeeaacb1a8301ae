// The kinds that an API server serves.
// https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { type KubernetesClient, useKubernetes } from "../../kubernetes/client";
import type { Resource } from "../../kubernetes/objects";

/** A kind that can be listed and followed. */
export interface Kind extends Resource {
  kind: string;
  verbs: string[];
}

interface DiscoveryList {
  items?: {
    metadata?: { name?: string };
    versions?: {
      version: string;
      resources?: {
        resource: string;
        scope: "Namespaced" | "Cluster";
        verbs: string[];
        responseKind?: { kind?: string };
      }[];
    }[];
  }[];
}

/** KindsOf returns the kinds of discovery documents, of each group in its preferred version, sorted by name. */
export function kindsOf(lists: DiscoveryList[]): Kind[] {
  const kinds = new Map<string, Kind>();
  for (const { metadata, versions = [] } of lists.flatMap(({ items = [] }) => items)) {
    const group = metadata?.name ?? "";
    for (const { version, resources = [] } of versions) {
      for (const { resource: name, scope, verbs, responseKind } of resources) {
        if (!verbs.includes("list") || !verbs.includes("watch") || kinds.has(`${group}/${name}`)) continue;
        const kind = responseKind?.kind ?? name;
        kinds.set(`${group}/${name}`, { group, version, name, namespaced: scope === "Namespaced", kind, verbs });
      }
    }
  }
  return [...kinds.values()].sort((a, b) => a.kind.localeCompare(b.kind) || a.group.localeCompare(b.group));
}

const accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

async function discover(client: KubernetesClient, signal: AbortSignal): Promise<Kind[]> {
  const paths = ["/api", "/apis"];
  const init = { headers: { Accept: accept }, signal };
  return kindsOf(await Promise.all(paths.map((path) => client.json<DiscoveryList>(path, {}, init))));
}

/** UseKinds returns the kinds that the API server of a cluster serves. */
export function useKinds(cluster: string): UseQueryResult<Kind[]> {
  const client = useKubernetes(cluster);
  return useQuery({
    queryKey: ["kubernetes", client.base, "kinds"],
    queryFn: ({ signal }) => discover(client, signal),
    refetchInterval: 60_000,
  });
}

/** ResourceName returns how kubectl calls a kind: "deployments.apps". */
export function resourceName({ name, group }: Resource): string {
  return group === "" ? name : `${name}.${group}`;
}
