import Box from "@cloudscape-design/components/box";
import ContentLayout from "@cloudscape-design/components/content-layout";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { formatAccount, identityName } from "../../session/session";
import { useSession } from "../../session/SessionProvider";
import { ClustersTile } from "./ClustersTile";
import { CostTile } from "./CostTile";
import { InstancesTile } from "./InstancesTile";
import { ProblemsTile } from "./ProblemsTile";

/** HomePage shows what runs in the region, what it costs this machine, and what is wrong. */
export default function HomePage() {
  const { session } = useSession();
  return (
    <ContentLayout
      header={
        <Header
          variant="h1"
          description={`Account ${formatAccount(session.account)}, signed in as ${identityName(session.arn)}.`}
        >
          Home
        </Header>
      }
    >
      <SpaceBetween size="l">
        <ClustersTile />
        <ProblemsTile />
        <CostTile />
        <InstancesTile />
        <Box color="text-body-secondary">All of this is in the region {session.region}.</Box>
      </SpaceBetween>
    </ContentLayout>
  );
}
