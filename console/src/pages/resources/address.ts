// The addresses of objects in the console.
import type { ObjectMeta, Resource } from "../../kubernetes/objects";

/** ObjectAddress returns the path of the page of an object. */
export function objectAddress(
  cluster: string,
  { group, version, name: resource, namespaced }: Resource,
  { namespace, name }: Pick<ObjectMeta, "namespace" | "name">,
): string {
  const query = new URLSearchParams({ group, version, resource, name });
  if (namespaced && namespace !== undefined) query.set("namespace", namespace);
  return `/cluster-objects/${encodeURIComponent(cluster)}?${query.toString()}`;
}

/** An object that an address names. */
export interface Named {
  resource: Resource;
  namespace: string | undefined;
  name: string;
}

/** ObjectAt returns the object that the query of an address names. */
export function objectAt(query: URLSearchParams): Named {
  const namespace = query.get("namespace") ?? undefined;
  return {
    resource: {
      group: query.get("group") ?? "",
      version: query.get("version") ?? "v1",
      name: query.get("resource") ?? "",
      namespaced: namespace !== undefined,
    },
    namespace,
    name: query.get("name") ?? "",
  };
}
