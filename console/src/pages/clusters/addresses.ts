// Paths of pages about what a cluster computes with. Routes import them: they import nothing.

/** ComputeAddress returns the path of the tab of a cluster that lists node groups and Fargate profiles. */
export function computeAddress(cluster: string): string {
  return `/clusters/${encodeURIComponent(cluster)}/compute`;
}

/** NodegroupAddress returns the path of the page of a node group, or of one of its tabs. */
export function nodegroupAddress(cluster: string, name: string, tab?: string): string {
  const path = `/clusters/${encodeURIComponent(cluster)}/nodegroups/${encodeURIComponent(name)}`;
  return tab === undefined ? path : `${path}/${tab}`;
}

/** ProfileAddress returns the path of the page of a Fargate profile. */
export function profileAddress(cluster: string, name: string): string {
  return `/clusters/${encodeURIComponent(cluster)}/fargate-profiles/${encodeURIComponent(name)}`;
}
