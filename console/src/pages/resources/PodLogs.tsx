import Button from "@cloudscape-design/components/button";
import Container from "@cloudscape-design/components/container";
import FormField from "@cloudscape-design/components/form-field";
import Header from "@cloudscape-design/components/header";
import SpaceBetween from "@cloudscape-design/components/space-between";
import Toggle from "@cloudscape-design/components/toggle";
import { useEffect, useRef, useState } from "react";
import { kubectlCommand } from "../../commands/command";
import { ErrorAlert } from "../../components/ErrorAlert";
import { ShowCommand } from "../../components/ShowCommand";
import { useKubernetes } from "../../kubernetes/client";
import { type Stream, streamLogs } from "../../kubernetes/streams";
import { Choice } from "./Choice";
import { containersOf, type Pod } from "./pod";

/** The characters that are kept on the page; older ones go. */
const most = 500_000;
const tailLines = 1000;

/** PodLogs follows the logs of a container. */
export function PodLogs({ cluster, pod }: { cluster: string; pod: Pod }) {
  const { name, namespace = "default" } = pod.metadata;
  const containers = containersOf(pod);
  const [container, setContainer] = useState(containers[0] ?? "");
  const [previous, setPrevious] = useState(false);
  return (
    <Container
      header={
        <Header
          variant="h2"
          actions={
            <ShowCommand
              commands={[
                kubectlCommand(cluster, "logs", name, "-n", namespace, "-c", container, previous ? "-p" : "-f"),
              ]}
            />
          }
        >
          Logs
        </Header>
      }
    >
      <SpaceBetween size="m">
        <SpaceBetween direction="horizontal" size="l">
          <Choice label="Container" value={container} values={containers} onChange={setContainer} />
          <FormField label="Instance">
            <Toggle checked={previous} onChange={({ detail }) => setPrevious(detail.checked)}>
              The one before the last restart
            </Toggle>
          </FormField>
        </SpaceBetween>
        <Log key={`${container} ${previous}`} {...{ cluster, namespace, name, container, previous }} />
      </SpaceBetween>
    </Container>
  );
}

interface LogProps {
  cluster: string;
  namespace: string;
  name: string;
  container: string;
  previous: boolean;
}

function Log({ cluster, namespace, name, container, previous }: LogProps) {
  const client = useKubernetes(cluster);
  const [text, setText] = useState("");
  const [ended, setEnded] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const [attempt, setAttempt] = useState(0);
  const bottom = useRef<HTMLPreElement>(null);

  useEffect(() => {
    let stream: Stream | undefined;
    let left = false;
    const onText = (more: string) => setText((before) => (before + more).slice(-most));
    const onEnd = (reason: Error | null) => {
      if (left) return;
      setEnded(true);
      setError(reason);
    };
    streamLogs(client, namespace, name, { container, follow: !previous, previous, tailLines }, onText, onEnd).then(
      (opened) => {
        stream = opened;
        if (left) opened.close();
      },
      (reason: unknown) => onEnd(reason instanceof Error ? reason : new Error(String(reason))),
    );
    return () => {
      left = true;
      stream?.close();
    };
  }, [client, namespace, name, container, previous, attempt]);

  useEffect(() => {
    const pre = bottom.current;
    if (pre !== null && pre.scrollHeight - pre.scrollTop - pre.clientHeight < 200) pre.scrollTop = pre.scrollHeight;
  }, [text]);

  return (
    <SpaceBetween size="s">
      {error !== null && <ErrorAlert attempted={`Read the logs of ${container}`} error={error} />}
      <pre ref={bottom} className="command pod-log" tabIndex={0} aria-label={`Logs of ${container}`}>
        {text === "" ? "The container has written nothing." : text}
      </pre>
      {ended && (
        <Button
          iconName="refresh"
          onClick={() => {
            setText("");
            setEnded(false);
            setError(null);
            setAttempt((n) => n + 1);
          }}
        >
          Read again
        </Button>
      )}
    </SpaceBetween>
  );
}
