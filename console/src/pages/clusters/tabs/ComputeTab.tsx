import SpaceBetween from "@cloudscape-design/components/space-between";
import { FargateProfiles } from "../fargate/FargateProfiles";
import { Nodegroups } from "../nodegroup/Nodegroups";
import { NodesTable } from "../NodesTable";
import type { TabProps } from "../tab";

/** ComputeTab shows what pods run on: nodes, node groups and Fargate profiles. */
export default function ComputeTab({ cluster, name }: TabProps) {
  return (
    <SpaceBetween size="l">
      <NodesTable name={name} />
      <Nodegroups name={name} version={cluster.version} />
      <FargateProfiles name={name} />
    </SpaceBetween>
  );
}
