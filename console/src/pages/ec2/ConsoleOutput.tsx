import { EC2Client, GetConsoleOutputCommand } from "@aws-sdk/client-ec2";
import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import { useAws } from "../../aws/queries";
import { awsCommand } from "../../commands/command";
import { ErrorAlert } from "../../components/ErrorAlert";
import { Loading } from "../../components/Loading";
import { ShowCommand } from "../../components/ShowCommand";
import { Time } from "../../components/Time";
import { useSession } from "../../session/SessionProvider";
import { decodeConsole } from "./instances";

/** ConsoleOutput shows the end of what an instance has written to its console. */
export function ConsoleOutput({ id }: { id: string }) {
  const { session } = useSession();
  const input = { InstanceId: id, Latest: true };
  const { data, error, refetch, isFetching } = useAws(EC2Client, GetConsoleOutputCommand, input);
  const command = awsCommand("ec2", "get-console-output", { ...input, output: "text" }, session.region);
  if (error !== null) {
    return <ErrorAlert attempted="Get the console output" error={error} retry={() => void refetch()} />;
  }
  if (data === undefined) return <Loading what="the console output" />;
  const text = decodeConsole(data.Output ?? "");
  return (
    <Container
      header={
        <Header
          variant="h2"
          description={
            <>
              Read <Time at={data.Timestamp} />
            </>
          }
          actions={
            <SpaceBetween direction="horizontal" size="xs">
              <ShowCommand commands={[command]} />
              <Button
                iconName="refresh"
                ariaLabel="Refresh system log"
                loading={isFetching}
                loadingText="Refreshing system log"
                onClick={() => void refetch()}
              />
            </SpaceBetween>
          }
        >
          System log
        </Header>
      }
    >
      {text === "" ? (
        <Box textAlign="center">The instance has not written anything to its console.</Box>
      ) : (
        <pre className="command" tabIndex={0} aria-label="System log">
          {text}
        </pre>
      )}
    </Container>
  );
}
