// Kubernetes objects and resources, as far as all of them have in common.

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
}

export interface ManagedFieldsEntry {
  manager?: string;
  operation?: string;
  apiVersion?: string;
  time?: string;
  fieldsType?: string;
  fieldsV1?: object;
  subresource?: string;
}

export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  generation?: number;
  creationTimestamp: string;
  deletionTimestamp?: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  ownerReferences?: OwnerReference[];
  finalizers?: string[];
  managedFields?: ManagedFieldsEntry[];
}

export interface KubernetesObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
}

export interface List<T> {
  apiVersion: string;
  kind: string;
  metadata: { resourceVersion: string; continue?: string; remainingItemCount?: number };
  items: T[];
}

/** A kind of objects, by its place in the API. */
export interface Resource {
  /** Empty for the core group. */
  group: string;
  version: string;
  /** The plural in paths: "pods". */
  name: string;
  namespaced: boolean;
}

/** FieldIs returns the field selector of objects whose field has a value, which may be any text. */
export function fieldIs(field: string, value: string): string {
  return `${field}=${value.replaceAll(/[\\,=]/g, "\\$&")}`;
}

/** Core returns a resource of the core group: core("pods"). */
export function core(name: string, namespaced = true): Resource {
  return { group: "", version: "v1", name, namespaced };
}

export const pods = core("pods");
export const nodes = core("nodes", false);
export const namespaces = core("namespaces", false);
export const events = core("events");

/** ResourcePath returns the path of a resource, of an object, or of a subresource of it. */
export function resourcePath(resource: Resource, namespace?: string, name?: string, subresource?: string): string {
  const parts = resource.group === "" ? ["api", resource.version] : ["apis", resource.group, resource.version];
  if (resource.namespaced && namespace !== undefined) parts.push("namespaces", namespace);
  parts.push(resource.name);
  if (name !== undefined) parts.push(name);
  if (subresource !== undefined) parts.push(subresource);
  return "/" + parts.map(encodeURIComponent).join("/");
}
