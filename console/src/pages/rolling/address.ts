/** UpdateAddress returns the path of the page of a node group's update: of the last one, unless it is named. */
export function updateAddress(cluster: string, nodegroup: string, update?: string): string {
  const path = `/clusters/${encodeURIComponent(cluster)}/node-groups/${encodeURIComponent(nodegroup)}/update`;
  return update === undefined ? path : `${path}?update=${encodeURIComponent(update)}`;
}
