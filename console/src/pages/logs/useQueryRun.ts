import {
  CloudWatchLogsClient,
  GetQueryResultsCommand,
  type GetQueryResultsResponse,
  MalformedQueryException,
  StartQueryCommand,
  StopQueryCommand,
} from "@aws-sdk/client-cloudwatch-logs";
import { useEffect, useRef, useState } from "react";
import { useClient } from "../../aws/client";

/** What is asked. Times are in seconds since 1970. */
export interface Question {
  logGroupNames: string[];
  queryString: string;
  startTime: number;
  endTime: number;
}

/** Where a query has a mistake, in characters from its beginning. */
export interface Mistake {
  from: number;
  to: number;
  message: string;
}

export interface Run {
  running: boolean;
  answer?: GetQueryResultsResponse;
  mistake?: Mistake;
  error?: Error;
}

/** How often a query that runs is asked for what it has found, in milliseconds. */
const pollInterval = 250;

/** UseQueryRun runs one query at a time, and shows what it has found so far. A query that is left is stopped. */
export function useQueryRun(): {
  run: Run;
  start: (question: Question) => void;
  /** StartNow asks about the time up to now, so many seconds long. */
  startNow: (question: Pick<Question, "logGroupNames" | "queryString">, seconds: number) => void;
  stop: () => void;
} {
  const client = useClient(CloudWatchLogsClient);
  const [run, setRun] = useState<Run>({ running: false });
  const current = useRef<AbortController>(undefined);

  const stop = () => {
    current.current?.abort();
    setRun((before) => ({ ...before, running: false }));
  };
  useEffect(() => () => current.current?.abort(), []);

  const start = (question: Question) => {
    current.current?.abort();
    const abort = new AbortController();
    current.current = abort;
    setRun({ running: true });
    follow(client, question, abort.signal, (next) => {
      if (!abort.signal.aborted) setRun(next);
    }).catch((error: unknown) => {
      if (abort.signal.aborted) return;
      setRun({ running: false, error: error as Error, mistake: mistakeOf(error) });
    });
  };
  const startNow = (question: Pick<Question, "logGroupNames" | "queryString">, seconds: number) => {
    const endTime = Math.ceil(Date.now() / 1000);
    start({ ...question, startTime: endTime - seconds, endTime });
  };
  return { run, start, startNow, stop };
}

async function follow(
  client: CloudWatchLogsClient,
  question: Question,
  signal: AbortSignal,
  show: (run: Run) => void,
): Promise<void> {
  const { queryId } = await client.send(new StartQueryCommand(question));
  const end = () => void client.send(new StopQueryCommand({ queryId })).catch(() => undefined); // it may have ended
  if (signal.aborted) return end();
  signal.addEventListener("abort", end);
  try {
    for (;;) {
      const answer = await client.send(new GetQueryResultsCommand({ queryId }), { abortSignal: signal });
      const running = answer.status === "Running" || answer.status === "Scheduled";
      show({ running, answer });
      if (!running) return;
      await new Promise((resolve) => setTimeout(resolve, pollInterval));
      signal.throwIfAborted();
    }
  } finally {
    signal.removeEventListener("abort", end);
  }
}

function mistakeOf(error: unknown): Mistake | undefined {
  if (!(error instanceof MalformedQueryException)) return undefined;
  const { location, message } = error.queryCompileError ?? {};
  return {
    from: location?.startCharOffset ?? 0,
    to: location?.endCharOffset ?? 0,
    message: message ?? error.message,
  };
}
