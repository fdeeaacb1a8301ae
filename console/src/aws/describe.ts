// Things that a list names, and another operation describes one by one.
import { useQuery, type UseQueryResult } from "@tanstack/react-query";
import { useSession } from "../session/SessionProvider";
import { type ClientClass, useClient } from "./client";
import { isNotFound } from "./errors";
import { awsKey, fast, slow } from "./queries";

/** How many things are described at a time. */
const together = 4;

/** DescribeEach describes what has been listed. What was deleted meanwhile is left out. */
export async function describeEach<N, T>(
  names: N[],
  describe: (name: N) => Promise<T | undefined>,
  signal: AbortSignal,
): Promise<T[]> {
  const found: (T | undefined)[] = [];
  for (let i = 0; i < names.length; i += together) {
    signal.throwIfAborted();
    const some = names.slice(i, i + together).map((name) =>
      describe(name).catch((error: unknown) => {
        if (isNotFound(error)) return undefined;
        throw error;
      }),
    );
    found.push(...(await Promise.all(some)));
  }
  return found.filter((each) => each !== undefined);
}

interface Described<C, P, N, T> {
  /** The paginator, which is the key of the answers, too, with the input. */
  paginate: object;
  input: object;
  pages: (client: C) => AsyncIterable<P>;
  names: (page: P) => N[] | undefined;
  describe: (client: C, name: N, signal: AbortSignal) => Promise<T | undefined>;
  /** Reports whether something is about to change: it is read again soon. */
  changes?: (each: T) => boolean;
}

/** UseDescribed lists and describes things, again and again. */
export function useDescribed<C, P, N, T>(Client: ClientClass<C>, of: Described<C, P, N, T>): UseQueryResult<T[]> {
  const client = useClient(Client);
  const { session } = useSession();
  return useQuery<T[]>({
    queryKey: [...awsKey(Client, of.paginate), session.region, of.input],
    queryFn: async ({ signal }) => {
      const names: N[] = [];
      for await (const page of of.pages(client)) names.push(...(of.names(page) ?? []));
      return describeEach(names, (name) => of.describe(client, name, signal), signal);
    },
    refetchInterval: ({ state }) => (state.data?.some((each) => of.changes?.(each) === true) === true ? fast : slow),
  });
}
