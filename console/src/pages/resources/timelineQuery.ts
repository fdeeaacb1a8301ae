import type { Named } from "./address";

/** TimelineQuery returns the query of Logs Insights for the changes of an object, the newest first. */
export function timelineQuery({ resource, namespace, name }: Named): string {
  const text = (value: string) => JSON.stringify(value);
  const conditions = [`objectRef.resource = ${text(resource.name)}`, `objectRef.name = ${text(name)}`];
  if (resource.group !== "") conditions.push(`objectRef.apiGroup = ${text(resource.group)}`);
  if (namespace !== undefined) conditions.push(`objectRef.namespace = ${text(namespace)}`);
  return [
    "filter @logStream like /^kube-apiserver-audit/",
    "filter verb in ['create', 'update', 'patch', 'delete', 'deletecollection']",
    `filter ${conditions.join(" and ")}`,
    "fields @timestamp, user.username, verb, objectRef.subresource, responseStatus.code, userAgent",
    "sort @timestamp desc",
    "limit 200",
  ].join("\n| ");
}
