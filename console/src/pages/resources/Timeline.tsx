import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { awsCommand } from "../../commands/command";
import { ErrorAlert } from "../../components/ErrorAlert";
import { ShowCommand } from "../../components/ShowCommand";
import { useSession } from "../../session/SessionProvider";
import { QueryResults } from "../logs/QueryResults";
import { useQueryRun } from "../logs/useQueryRun";
import type { Named } from "./address";
import { changesCommand } from "./commands";
import { timelineQuery } from "./timelineQuery";

const day = 86_400;

/** Timeline asks the audit log of the cluster who changed an object. */
export function Timeline({ cluster, of }: { cluster: string; of: Named }) {
  const { session } = useSession();
  const { run, startNow } = useQueryRun();
  const query = timelineQuery(of);
  const group = `/aws/eks/${cluster}/cluster`;
  const ask = () => startNow({ logGroupNames: [group], queryString: query }, day);
  return (
    <SpaceBetween size="l">
      <Container
        header={
          <Header
            variant="h2"
            description="Changes of the last day, of the audit log of the cluster."
            actions={
              <SpaceBetween direction="horizontal" size="xs">
                <ShowCommand
                  commands={[
                    changesCommand(cluster, of),
                    awsCommand("logs", "start-query", { logGroupName: group, queryString: query }, session.region),
                  ]}
                />
                <Button variant="primary" loading={run.running} onClick={ask}>
                  Show who changed it
                </Button>
              </SpaceBetween>
            }
          >
            Timeline
          </Header>
        }
      >
        {run.error !== undefined ? (
          <ErrorAlert attempted="Query the audit log" error={run.error} />
        ) : (
          <Box color="text-body-secondary">
            The cluster must send its audit log to CloudWatch Logs: see its Observability tab.
          </Box>
        )}
      </Container>
      <QueryResults run={run} />
    </SpaceBetween>
  );
}
