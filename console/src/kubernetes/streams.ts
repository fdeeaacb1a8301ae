// Streams of a pod: its logs, and a shell in a container.
import type { KubernetesClient } from "./client";
import { pods, resourcePath } from "./objects";

export interface LogOptions {
  container?: string;
  follow?: boolean;
  previous?: boolean;
  tailLines?: number;
  sinceSeconds?: number;
  timestamps?: boolean;
}

/** A stream that is open. */
export interface Stream {
  close: () => void;
}

/** StreamLogs passes on the logs of a container as they are written. End gets null, or why the stream broke off. */
export async function streamLogs(
  client: KubernetesClient,
  namespace: string,
  pod: string,
  options: LogOptions,
  onText: (text: string) => void,
  onEnd: (error: Error | null) => void,
): Promise<Stream> {
  const socket = await client.open(resourcePath(pods, namespace, pod, "log"), { ...options }, "binary.k8s.io");
  socket.binaryType = "arraybuffer";
  const decoder = new TextDecoder();
  let opened = false;
  socket.onopen = () => {
    opened = true;
  };
  socket.onmessage = ({ data }: MessageEvent<ArrayBuffer | string>) => {
    const text = typeof data === "string" ? data : decoder.decode(data, { stream: true });
    if (text !== "") onText(text);
  };
  socket.onclose = ({ wasClean }) => {
    if (opened && wasClean) return onEnd(null);
    // Why a WebSocket was refused, a browser does not tell: a request does.
    client
      .request(resourcePath(pods, namespace, pod, "log"), { ...options, follow: undefined, limitBytes: 1 })
      .then(
        () => onEnd(new Error("the connection was lost")),
        (error: unknown) => onEnd(error instanceof Error ? error : new Error(String(error))),
      );
  };
  return { close: () => socket.close() };
}

export interface ExecOptions {
  container?: string;
  command: string[];
  tty: boolean;
}

/** A program that runs in a container. */
export interface Exec extends Stream {
  write: (input: string | Uint8Array) => void;
  /** Resize tells the terminal's size, in characters. */
  resize: (columns: number, rows: number) => void;
}

const channels = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4 };

/**
 * StartExec runs a program in a container. Output goes to onOutput; End gets null when the program ended with 0, and
 * otherwise why it ended. https://kubernetes.io/blog/2024/08/20/websockets-transition/
 */
export async function startExec(
  client: KubernetesClient,
  namespace: string,
  pod: string,
  { container, command, tty }: ExecOptions,
  onOutput: (output: Uint8Array) => void,
  onEnd: (error: Error | null) => void,
): Promise<Exec> {
  const query = { container, command, tty, stdin: true, stdout: true, stderr: !tty };
  const socket = await client.open(resourcePath(pods, namespace, pod, "exec"), query, "v5.channel.k8s.io");
  socket.binaryType = "arraybuffer";
  const encoder = new TextEncoder();
  let waiting: Uint8Array<ArrayBuffer>[] = [];
  let ended: Error | null | undefined;
  const send = (channel: number, content: Uint8Array) => {
    const message = new Uint8Array(content.length + 1);
    message[0] = channel;
    message.set(content, 1);
    if (socket.readyState === WebSocket.CONNECTING) waiting.push(message);
    else if (socket.readyState === WebSocket.OPEN) socket.send(message);
  };
  socket.onopen = () => {
    for (const message of waiting) socket.send(message);
    waiting = [];
  };
  socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
    const message = new Uint8Array(data);
    const content = message.subarray(1);
    if (message[0] === channels.stdout || message[0] === channels.stderr) onOutput(content);
    else if (message[0] === channels.error) ended = statusOf(new TextDecoder().decode(content));
  };
  socket.onclose = () => onEnd(ended === undefined ? new Error("the connection was lost or refused") : ended);
  return {
    write: (input) => send(channels.stdin, typeof input === "string" ? encoder.encode(input) : input),
    resize: (columns, rows) =>
      send(channels.resize, encoder.encode(JSON.stringify({ Width: columns, Height: rows }))),
    close: () => socket.close(),
  };
}

/** StatusOf returns why a program ended, as the API server says it in a Status; null after a success. */
export function statusOf(text: string): Error | null {
  const status = JSON.parse(text) as { status?: string; message?: string };
  return status.status === "Success" ? null : new Error(status.message ?? text);
}
