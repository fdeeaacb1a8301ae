// The event history of CloudTrail: records of calls, and what they say of those that were denied.
import {
  CloudTrailClient,
  type Event,
  type LookupAttribute,
  LookupEventsCommand,
  type LookupEventsCommandInput,
} from "@aws-sdk/client-cloudtrail";
import type { ContextEntry } from "@aws-sdk/client-iam";
import { useInfiniteQuery, type UseInfiniteQueryResult, type InfiniteData } from "@tanstack/react-query";
import { useClient } from "../../aws/client";
import { awsKey } from "../../aws/queries";
import { useSession } from "../../session/SessionProvider";

/** A record of CloudTrail, as far as the console looks at it. */
export interface CallRecord {
  userIdentity?: {
    type?: string;
    arn?: string;
    userName?: string;
    invokedBy?: string;
    sessionContext?: { sessionIssuer?: { arn?: string } };
  };
  eventTime?: string;
  eventSource?: string;
  eventName?: string;
  awsRegion?: string;
  sourceIPAddress?: string;
  userAgent?: string;
  errorCode?: string;
  errorMessage?: string;
  requestParameters?: unknown;
  requestID?: string;
  eventID?: string;
}

/** ParseRecord returns the record of an event; an empty one where there is none that can be read. */
export function parseRecord({ CloudTrailEvent }: Event): CallRecord {
  try {
    return JSON.parse(CloudTrailEvent ?? "{}") as CallRecord;
  } catch {
    return {};
  }
}

/** A call that policies did not allow. */
export interface Denial {
  id: string;
  at: Date | undefined;
  record: CallRecord;
  /** Who called: the ARN of the session, the user or the root user. */
  who: string;
  /** The ARN of the user or role whose policies apply; empty for others. */
  principal: string;
  /** What was denied, which may be another action than the call: iam:PassRole. */
  action: string;
  resource: string;
  message: string;
}

const denied = /AccessDenied|UnauthorizedOperation/;
// From the beginning on: callers may write such a sentence into a name that other messages have.
const refusal = /^User: (\S+) is not authorized to perform: ([\w-]+:\w+)(?: on resource: (\S+))?/;
const preamble = /^You are not authorized to perform this operation\. /; // EC2's

/** DenialOf returns what an event says of a call that was denied; undefined for other events. */
export function denialOf(event: Event): Denial | undefined {
  const record = parseRecord(event);
  if (!denied.test(record.errorCode ?? "")) return undefined;
  const { userIdentity: user } = record;
  const [, , action, resource] = refusal.exec((record.errorMessage ?? "").replace(preamble, "")) ?? [];
  const arn = user?.sessionContext?.sessionIssuer?.arn ?? user?.arn ?? "";
  const [service = ""] = (record.eventSource ?? "").split(".");
  return {
    id: event.EventId ?? "",
    at: event.EventTime,
    record,
    who: user?.arn ?? user?.userName ?? "",
    principal: /^arn:[^:]*:iam::\d*:(user|role)\//.test(arn) ? arn : "",
    action: action ?? `${service}:${record.eventName ?? ""}`,
    resource: resource ?? "*",
    message: (record.errorMessage ?? "").replace(/ Encoded authorization failure message: .*/, ""),
  };
}

/** ContextOf returns what policies may ask about a call, for a simulation of it. */
export function contextOf({ sourceIPAddress = "", userAgent = "", awsRegion = "", userIdentity }: CallRecord) {
  const entries: ContextEntry[] = [];
  const add = (ContextKeyName: string, value: string, ContextKeyType: ContextEntry["ContextKeyType"] = "string") => {
    if (value !== "") entries.push({ ContextKeyName, ContextKeyValues: [value], ContextKeyType });
  };
  if (/^[\d.]+$|:/.test(sourceIPAddress)) add("aws:SourceIp", sourceIPAddress, "ip");
  if (userIdentity?.invokedBy === undefined) add("aws:UserAgent", userAgent);
  add("aws:RequestedRegion", awsRegion);
  return entries;
}

/**
 * IsPattern reports whether a resource is more than one in a policy. Callers choose names, and may have made them so
 * that the policy against their denial allows more than their call.
 */
export function isPattern({ action, resource, record }: Denial): boolean {
  const written = JSON.stringify(record.requestParameters ?? "");
  const lists = /:List[A-Z]/.test(action) && /^[^*?$]*\*$/.test(resource); // which need a pattern of AWS's
  return /[*?$]/.test(resource) && (!lists || written.includes("*"));
}

/** Allowing returns the policy that allows what was denied; no more than that, unless the resource is a pattern. */
export function allowing({ action, resource }: Denial): string {
  return JSON.stringify({
    Version: "2012-10-17",
    Statement: [{ Effect: "Allow", Action: action, Resource: resource }],
  });
}

/** PolicyNameOf returns a name for a policy that allows an action, other than those of the policies that there are. */
export function policyNameOf({ action }: Denial, taken: string[]): string {
  const name = `allow-${action.replace(":", "-")}`;
  let free = name;
  for (let n = 2; taken.includes(free); n++) free = `${name}-${n}`;
  return free;
}

/** Without returns the text of a policy without a statement; undefined where that is not there, or is the only one. */
export function without(document: string, statement: string): string | undefined {
  try {
    const policy = JSON.parse(document) as { Statement?: unknown };
    const unwanted = JSON.stringify(JSON.parse(statement));
    const all = [policy.Statement ?? []].flat() as unknown[];
    const left = all.filter((s) => JSON.stringify(s) !== unwanted);
    if (left.length === 0 || left.length === all.length) return undefined;
    return JSON.stringify({ ...policy, Statement: left });
  } catch {
    return undefined;
  }
}

/** The attributes that events are looked up by, as AWS's console names them. */
export const attributes = [
  { value: "ReadOnly", label: "Read-only" },
  { value: "EventId", label: "Event ID" },
  { value: "EventName", label: "Event name" },
  { value: "EventSource", label: "Event source" },
  { value: "ResourceName", label: "Resource name" },
  { value: "ResourceType", label: "Resource type" },
  { value: "Username", label: "User name" },
  { value: "AccessKeyId", label: "AWS access key" },
] as const;

/** The ranges of time that are looked back. */
export const spans = [
  { value: "0.5", label: "Last 30 minutes" },
  { value: "1", label: "Last hour" },
  { value: "12", label: "Last 12 hours" },
  { value: "24", label: "Last day" },
  { value: "168", label: "Last week" },
  { value: "2160", label: "Last 90 days" },
] as const;

/** What is looked up. */
export interface Lookup {
  attribute?: LookupAttribute;
  /** How far back, in hours. */
  hours: number;
}

/** LookupInput returns the request for events since a time. */
export function lookupInput({ attribute }: Lookup, since: number | undefined): LookupEventsCommandInput {
  return {
    LookupAttributes: attribute === undefined ? undefined : [attribute],
    StartTime: since === undefined ? undefined : new Date(since),
  };
}

/** Where a page begins: the pages of one list have one start time, which their tokens are bound to. */
interface PageStart {
  since: number;
  token?: string;
}

interface EventPage<T> {
  events: T[];
  since: number;
  next?: PageStart;
}

const requestsAtOnce = 10;

/**
 * UseEvents looks events up, the newest first, and returns what pick takes of them. A page has a few at least, if there
 * are some within ten requests; CloudTrail takes two requests a second.
 */
export function useEvents<T>(
  lookup: Lookup,
  pick: (event: Event) => T | undefined,
): UseInfiniteQueryResult<InfiniteData<EventPage<T>, PageStart | undefined>> {
  const client = useClient(CloudTrailClient);
  const { session } = useSession();
  return useInfiniteQuery({
    queryKey: [...awsKey(CloudTrailClient, pick), session.region, lookup],
    initialPageParam: undefined as PageStart | undefined,
    getNextPageParam: (page: EventPage<T>) => page.next,
    queryFn: async ({ pageParam, signal }): Promise<EventPage<T>> => {
      const since = pageParam?.since ?? Date.now() - lookup.hours * 3_600_000;
      const input = { ...lookupInput(lookup, since), MaxResults: 50 };
      const events: T[] = [];
      let token = pageParam?.token;
      for (let i = 0; i < requestsAtOnce; i++) {
        const answer = await client.send(new LookupEventsCommand({ ...input, NextToken: token }), {
          abortSignal: signal,
        });
        events.push(...(answer.Events ?? []).map(pick).filter((event) => event !== undefined));
        token = answer.NextToken;
        if (token === undefined || events.length >= 20) break;
      }
      return { events, since, next: token === undefined ? undefined : { since, token } };
    },
  });
}

/** AsIs takes all events. */
export function asIs(event: Event): Event {
  return event;
}
