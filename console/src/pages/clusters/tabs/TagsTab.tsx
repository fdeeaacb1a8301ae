import { ResourceTags } from "../ResourceTags";
import type { TabProps } from "../tab";

/** TagsTab edits the tags of a cluster. */
export default function TagsTab({ cluster }: TabProps) {
  return <ResourceTags what="cluster" arn={cluster.arn} tags={cluster.tags} />;
}
