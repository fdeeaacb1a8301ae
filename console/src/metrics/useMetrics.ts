// Hooks that ask CloudWatch.
import { CloudWatchClient, GetMetricDataCommand, type GetMetricDataCommandInput } from "@aws-sdk/client-cloudwatch";
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useClient } from "../aws/client";
import { awsKey } from "../aws/queries";
import { useSession } from "../session/SessionProvider";
import { type Line, maxQueries, metricDataInput, type Point, pointsOf } from "./metrics";

/** Metrics have a new data point each minute. */
export const poll = 30_000;

/** What was read, and the requests that read it. */
export interface Metrics {
  points: Point[][];
  inputs: GetMetricDataCommandInput[];
}

/** UseMetrics reads the points of lines of the last minutes. */
export function useMetrics(lines: Line[], minutes: number, enabled = true): UseQueryResult<Metrics> {
  const client = useClient(CloudWatchClient);
  const { session } = useSession();
  return useQuery<Metrics>({
    queryKey: [...awsKey(CloudWatchClient, GetMetricDataCommand), session.region, minutes, lines],
    queryFn: async ({ signal }) => {
      const now = Date.now();
      const read: Metrics = { points: [], inputs: [] };
      for (let i = 0; i < lines.length; i += maxQueries) {
        const some = lines.slice(i, i + maxQueries);
        const input = metricDataInput(some, minutes, now);
        // At most 500 metrics of 180 minutes: less than a page has.
        const answer = await client.send(new GetMetricDataCommand(input), { abortSignal: signal });
        read.inputs.push(input);
        read.points.push(...pointsOf(some, answer.MetricDataResults ?? []));
      }
      return read;
    },
    refetchInterval: poll,
    enabled,
  });
}
