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
    const query = { ...options, follow: undefined, limitBytes: 1 };
    void refusalOf(client, resourcePath(pods, namespace, pod, "log"), query, ["GET"]).then(onEnd);
  };
  return { close: () => socket.close() };
}

/** RefusalOf returns why a WebSocket was refused, which a browser does not tell: a request does. */
async function refusalOf(
  client: KubernetesClient,
  path: string,
  query: Parameters<KubernetesClient["request"]>[1],
  methods: string[],
): Promise<Error> {
  for (const method of methods) {
    try {
      await client.request(path, query, { method });
    } catch (error) {
      const reason = error instanceof Error ? error : new Error(String(error));
      if (!/upgrade request required/i.test(reason.message)) return reason;
    }
  }
  return new Error("the connection was lost");
}

export interface ExecOptions {
  container?: string;
  command: string[];
  tty: boolean;
}

/** How a program ended: with an exit status, or with an error of Kubernetes or the connection. */
export type ExecEnd = { exitStatus: number } | { error: Error };

interface ExecEvents {
  onOpen: () => void;
  onOutput: (output: Uint8Array) => void;
  onEnd: (end: ExecEnd) => void;
}

/** A program that runs in a container. */
export interface Exec extends Stream {
  write: (input: string | Uint8Array) => void;
  /** Resize tells the terminal's size, in characters. */
  resize: (columns: number, rows: number) => void;
}

const channels = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4 };

/**
 * StartExec runs a program in a container. Input and sizes from before the connection is open are sent when it is.
 * https://kubernetes.io/blog/2024/08/20/websockets-transition/
 */
export async function startExec(
  client: KubernetesClient,
  namespace: string,
  pod: string,
  { container, command, tty }: ExecOptions,
  { onOpen, onOutput, onEnd }: ExecEvents,
): Promise<Exec> {
  const path = resourcePath(pods, namespace, pod, "exec");
  const query = { container, command, tty, stdin: true, stdout: true, stderr: !tty };
  const socket = await client.open(path, query, "v5.channel.k8s.io");
  socket.binaryType = "arraybuffer";
  const encoder = new TextEncoder();
  let waiting: Uint8Array<ArrayBuffer>[] = [];
  let opened = false;
  let end: ExecEnd | undefined;
  const send = (channel: number, content: Uint8Array) => {
    const message = new Uint8Array(content.length + 1);
    message[0] = channel;
    message.set(content, 1);
    if (socket.readyState === WebSocket.CONNECTING) waiting.push(message);
    else if (socket.readyState === WebSocket.OPEN) socket.send(message);
  };
  socket.onopen = () => {
    opened = true;
    for (const message of waiting) socket.send(message);
    waiting = [];
    onOpen();
  };
  socket.onmessage = ({ data }: MessageEvent<ArrayBuffer>) => {
    const message = new Uint8Array(data);
    const content = message.subarray(1);
    if (message[0] === channels.stdout || message[0] === channels.stderr) onOutput(content);
    else if (message[0] === channels.error) end = execEnd(new TextDecoder().decode(content));
  };
  socket.onclose = () => {
    if (end !== undefined) return onEnd(end);
    if (opened) return onEnd({ error: new Error("the connection was lost") });
    // Kubernetes asks for the verb get or create, by its version. Nothing runs: both lack the upgrade to a WebSocket.
    void refusalOf(client, path, query, ["GET", "POST"]).then((error) => onEnd({ error }));
  };
  return {
    write: (input) => send(channels.stdin, typeof input === "string" ? encoder.encode(input) : input),
    resize: (columns, rows) =>
      send(channels.resize, encoder.encode(JSON.stringify({ Width: columns, Height: rows }))),
    close: () => socket.close(),
  };
}

interface Status {
  status?: string;
  reason?: string;
  message?: string;
  details?: { causes?: { reason?: string; message?: string }[] };
}

/** ExecEnd returns how a program ended, as the API server says it in a Status. */
export function execEnd(text: string): ExecEnd {
  const { status, reason = "", message = text, details } = JSON.parse(text) as Status;
  if (status === "Success") return { exitStatus: 0 };
  const code = details?.causes?.find((cause) => cause.reason === "ExitCode")?.message;
  if (reason === "NonZeroExitCode" && code !== undefined) return { exitStatus: Number(code) };
  const error = new Error(message);
  if (reason !== "") error.name = reason;
  return { error };
}
