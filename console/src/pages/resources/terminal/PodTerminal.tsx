import Box from "@cloudscape-design/components/box";
import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import Header from "@cloudscape-design/components/header";
import LiveRegion from "@cloudscape-design/components/live-region";
import SpaceBetween from "@cloudscape-design/components/space-between";
import StatusIndicator from "@cloudscape-design/components/status-indicator";
import { useId, useState } from "react";
import { kubectlCommand } from "../../../commands/command";
import { ErrorAlert } from "../../../components/ErrorAlert";
import { ShowCommand } from "../../../components/ShowCommand";
import { useKubernetes } from "../../../kubernetes/client";
import type { ExecEnd } from "../../../kubernetes/streams";
import { Choice } from "../Choice";
import { containersOf, type Pod } from "../pod";
import { Screen } from "./Screen";
import { explainError, kubectlExec, type Shell } from "./shellError";

const commands = ["sh", "bash"];

/** What has become of a shell. */
type State = "connecting" | "connected" | ExecEnd;

/** PodTerminal runs a shell in a container of a pod. */
export default function PodTerminal({ cluster, pod }: { cluster: string; pod: Pod }) {
  const { name, namespace = "default" } = pod.metadata;
  const client = useKubernetes(cluster);
  const containers = containersOf(pod);
  const [container, setContainer] = useState(containers[0] ?? "");
  const [command, setCommand] = useState(commands[0] ?? "");
  const [session, setSession] = useState<{ number: number; shell: Shell }>();
  const [state, setState] = useState<State>("connecting");
  const hint = useId();
  const chosen: Shell = { cluster, namespace, pod: name, container, command };
  const running = session !== undefined && typeof state === "string";
  const connect = () => {
    setState("connecting");
    setSession((before) => ({ number: (before?.number ?? 0) + 1, shell: chosen }));
  };
  return (
    <Container
      header={
        <Header
          variant="h2"
          description={
            <span id={hint}>
              Tab and Escape go to the shell. To leave the terminal by keyboard, press Escape and then Tab.
            </span>
          }
          actions={<ShowCommand commands={[kubectlCommand(cluster, ...kubectlExec(chosen))]} />}
        >
          Terminal
        </Header>
      }
    >
      <SpaceBetween size="m">
        <SpaceBetween direction="horizontal" size="l" alignItems="end">
          <Choice label="Container" value={container} values={containers} disabled={running} onChange={setContainer} />
          <Choice label="Command" value={command} values={commands} disabled={running} onChange={setCommand} />
          {running ? (
            <Button onClick={() => setSession(undefined)}>Disconnect</Button>
          ) : (
            <Button variant="primary" disabled={container === ""} onClick={connect}>
              {session === undefined ? "Connect" : "Reconnect"}
            </Button>
          )}
          {session !== undefined && (
            <LiveRegion>
              <Box padding={{ bottom: "xxs" }}>
                <Progress shell={session.shell} state={state} />
              </Box>
            </LiveRegion>
          )}
        </SpaceBetween>
        {session !== undefined && typeof state === "object" && "error" in state && (
          <ErrorAlert
            attempted={`Run ${session.shell.command} in container ${session.shell.container}`}
            error={explainError(state.error, session.shell)}
          />
        )}
        {session !== undefined && (
          <Screen
            key={session.number}
            client={client}
            shell={session.shell}
            describedBy={hint}
            onOpen={() => setState("connected")}
            onEnd={setState}
          />
        )}
      </SpaceBetween>
    </Container>
  );
}

function Progress({ shell: { command, container }, state }: { shell: Shell; state: State }) {
  if (state === "connecting") {
    return <StatusIndicator type="loading">Starting {command} in container {container}</StatusIndicator>;
  }
  if (state === "connected") {
    return <StatusIndicator type="success">Connected to container {container}</StatusIndicator>;
  }
  if ("error" in state) return <StatusIndicator type="error">Not connected</StatusIndicator>;
  return (
    <StatusIndicator type="stopped">
      {command} ended with exit status {state.exitStatus}
    </StatusIndicator>
  );
}
