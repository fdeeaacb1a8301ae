// Hooks for what AWS answers: single requests, all pages of a list, changes.
import type { Command, MetadataBearer } from "@smithy/types";
import {
  type QueryKey,
  useMutation,
  type UseMutationResult,
  useQuery,
  useQueryClient,
  type UseQueryResult,
} from "@tanstack/react-query";
import { useNotifications } from "../app/notifications";
import { useSession } from "../session/SessionProvider";
import { type ClientClass, useClient } from "./client";

/** Poll says how soon an answer is asked for again, in milliseconds; false for never. */
export type Poll<T> = number | false | ((answer: T | undefined) => number | false);

/** How often a list is read that may change at any time, and what is changing now. */
export const slow = 10_000;
export const fast = 1_000;

/** PollWhile polls fast while something of the answer is about to change, and slowly otherwise. */
export function pollWhile<T>(changes: (answer: T) => boolean): (answer: T | undefined) => number {
  return (answer) => (answer !== undefined && changes(answer) ? fast : slow);
}

export interface QueryOptions<T> {
  poll?: Poll<T>;
  enabled?: boolean;
}

/* eslint-disable @typescript-eslint/no-explicit-any -- each client of the SDK has types of its own */
interface Sends {
  send(command: any, options?: { abortSignal?: AbortSignal }): Promise<any>;
}
type CommandClass<I extends object, O extends MetadataBearer> = new (input: I) => Command<any, I, any, O, any>;
/* eslint-enable @typescript-eslint/no-explicit-any */

/** AwsKey returns the key of answers: those of a client, or of one of its commands or paginators. */
export function awsKey(Client: object, operation?: object): QueryKey {
  return ["aws", idOf(Client), ...(operation === undefined ? [] : [idOf(operation)])];
}

// Functions have no names of their own in a build.
const ids = new WeakMap<object, number>();
let last = 0;
function idOf(fn: object): number {
  const id = ids.get(fn) ?? ++last;
  ids.set(fn, id);
  return id;
}

/** UseAws asks AWS: useAws(EKSClient, DescribeClusterCommand, { name }). */
export function useAws<C extends Sends, I extends object, O extends MetadataBearer>(
  Client: ClientClass<C>,
  Command: CommandClass<I, O>,
  input: I,
  { poll = slow, enabled = true }: QueryOptions<O> = {},
): UseQueryResult<O> {
  const client = useClient(Client);
  const { session } = useSession();
  return useQuery<O>({
    queryKey: [...awsKey(Client, Command), session.region, input],
    queryFn: ({ signal }) => client.send(new Command(input), { abortSignal: signal }) as Promise<O>,
    refetchInterval: (query) => (typeof poll === "function" ? poll(query.state.data) : poll),
    enabled,
  });
}

/** A paginator of the SDK: paginateListClusters. */
type Paginator<C, I, O> = (config: { client: C; pageSize?: number }, input: I) => AsyncGenerator<O, unknown>;

/** UseAwsPages asks AWS for all pages of a list, and returns what pick takes of each. */
export function useAwsPages<C extends Sends, I, O, T>(
  Client: ClientClass<C>,
  paginate: Paginator<C, I, O>,
  input: I,
  pick: (page: O) => T[] | undefined,
  { poll = slow, enabled = true }: QueryOptions<T[]> = {},
): UseQueryResult<T[]> {
  const client = useClient(Client);
  const { session } = useSession();
  return useQuery<T[]>({
    queryKey: [...awsKey(Client, paginate), session.region, input],
    queryFn: async ({ signal }) => {
      const all: T[] = [];
      for await (const page of paginate({ client }, input)) {
        signal.throwIfAborted();
        all.push(...(pick(page) ?? []));
      }
      return all;
    },
    refetchInterval: (query) => (typeof poll === "function" ? poll(query.state.data) : poll),
    enabled,
  });
}

export interface ChangeOptions<I> {
  /** What is attempted, for the message of a failure: "Delete cluster web". */
  attempt: (input: I) => string;
  /** The message of success; without one there is none. */
  success?: (input: I) => string;
  /** Set where failures are shown beside what was entered, instead of above the page. */
  quiet?: boolean;
}

/** UseAwsChange changes something in AWS, says whether it worked, and reads anew what the client has read before. */
export function useAwsChange<C extends Sends, I extends object, O extends MetadataBearer>(
  Client: ClientClass<C>,
  Command: CommandClass<I, O>,
  { attempt, success, quiet = false }: ChangeOptions<I>,
): UseMutationResult<O, Error, I> {
  const client = useClient(Client);
  const queries = useQueryClient();
  const notifications = useNotifications();
  return useMutation<O, Error, I>({
    mutationFn: (input) => client.send(new Command(input)) as Promise<O>,
    onSuccess: (_, input) => {
      if (success !== undefined) notifications.success(success(input));
    },
    onError: (error, input) => {
      if (!quiet) notifications.error(attempt(input), error);
    },
    onSettled: () => queries.invalidateQueries({ queryKey: awsKey(Client) }),
  });
}
