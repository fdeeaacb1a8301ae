// Objects that are followed: listed once, then watched, over a WebSocket that is opened again when it ends.
import { useEffect, useState } from "react";
import { type KubernetesClient, type ListOptions, StatusError, useKubernetes } from "./client";
import { type KubernetesObject, type Resource, resourcePath } from "./objects";

export interface WatchEvent<T> {
  type: "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" | "ERROR";
  object: T;
}

/** What is followed. Items are in no order. */
export interface Watched<T> {
  items: T[];
  /** The first list is on its way. */
  loading: boolean;
  /** Why the list cannot be read, or followed, now. */
  error: Error | null;
}

const firstDelay = 500;
const lastDelay = 15_000;
/** What changes together is shown together, in milliseconds. */
const frame = 50;

/**
 * Follow lists and watches a resource until it is stopped, and tells what is there whenever that changes: while a long
 * list is read for the first time, what has been read of it, too. Pick returns what is kept of an object; of ten
 * thousand pods, those who show a few fields keep no more.
 */
export function follow<T extends KubernetesObject, P = T>(
  client: KubernetesClient,
  resource: Resource,
  namespace: string | undefined,
  options: ListOptions,
  tell: (watched: Watched<P>) => void,
  pick: (object: T) => P = (object) => object as unknown as P,
): () => void {
  const stop = new AbortController();
  const items = new Map<string, P>();
  let complete = false;
  let socket: WebSocket | undefined;
  let pending: ReturnType<typeof setTimeout> | undefined;
  let wait: ReturnType<typeof setTimeout> | undefined;
  let delay = firstDelay;

  const show = (error: Error | null = null) => {
    clearTimeout(pending);
    pending = undefined;
    if (!stop.signal.aborted) tell({ items: [...items.values()], loading: !complete && error === null, error });
  };
  const showSoon = () => {
    pending ??= setTimeout(show, frame);
  };
  const later = (next: () => Promise<void>, error?: unknown) => {
    if (stop.signal.aborted) return;
    if (error !== undefined) show(asError(error));
    wait = setTimeout(() => void next(), delay);
    delay = Math.min(2 * delay, lastDelay);
  };

  const list = async (): Promise<void> => {
    try {
      const seen = new Map<string, P>();
      let next: string | undefined;
      let version: string;
      do {
        const page = await client.list<T>(resource, namespace, { limit: 500, ...options, continue: next }, stop.signal);
        const { apiVersion, kind } = page;
        for (const item of page.items) {
          const picked = pick({ ...item, apiVersion, kind: kind.replace(/List$/, "") });
          seen.set(item.metadata.uid, picked);
          if (!complete) items.set(item.metadata.uid, picked);
        }
        if (!complete) showSoon();
        next = page.metadata.continue === "" ? undefined : page.metadata.continue;
        version = page.metadata.resourceVersion;
      } while (next !== undefined);
      items.clear();
      for (const [uid, item] of seen) items.set(uid, item);
      complete = true;
      show();
      await watch(version);
    } catch (error) {
      if (!stop.signal.aborted) later(list, error);
    }
  };

  const watch = async (from: string): Promise<void> => {
    let version = from;
    let expired = false;
    let opened = false;
    const query = { ...options, limit: undefined, watch: true, allowWatchBookmarks: true, resourceVersion: version };
    try {
      socket = await client.open(resourcePath(resource, namespace), query, "v1.watch.k8s.io");
    } catch (error) {
      return later(() => watch(version), error);
    }
    if (stop.signal.aborted) return socket.close();
    socket.onopen = () => {
      opened = true;
      delay = firstDelay;
    };
    socket.onmessage = ({ data }: MessageEvent<string>) => {
      const { type, object } = JSON.parse(data) as WatchEvent<T>;
      if (type === "ERROR") {
        expired = true;
        return;
      }
      version = object.metadata.resourceVersion;
      if (type === "BOOKMARK") return;
      if (type === "DELETED") items.delete(object.metadata.uid);
      else items.set(object.metadata.uid, pick(object));
      showSoon();
    };
    socket.onclose = () => {
      // Why a WebSocket was refused, a browser does not tell: a list does.
      if (expired || !opened) later(list);
      else later(() => watch(version));
    };
  };

  void list();
  return () => {
    stop.abort();
    clearTimeout(pending);
    clearTimeout(wait);
    socket?.close();
  };
}

const nothing: Watched<never> = { items: [], loading: true, error: null };

/** UseWatch follows a resource: useWatch("web", pods, "default"). Pick is a function of the module, if there is one. */
export function useWatch<T extends KubernetesObject, P = T>(
  cluster: string,
  resource: Resource,
  namespace?: string,
  options: ListOptions = {},
  pick?: (object: T) => P,
): Watched<P> {
  const client = useKubernetes(cluster);
  const key = JSON.stringify([resource, namespace, options]);
  const [state, setState] = useState<{ client: KubernetesClient; key: string; watched: Watched<P> } | null>(null);
  useEffect(() => {
    const [of, within, selected] = JSON.parse(key) as [Resource, string | null, ListOptions];
    const tell = (watched: Watched<P>) => setState({ client, key, watched });
    return follow<T, P>(client, of, within ?? undefined, selected, tell, pick);
  }, [client, key, pick]);
  return state?.client === client && state.key === key ? state.watched : nothing;
}

/** IsForbidden reports whether RBAC or an access policy refused a request. */
export function isForbidden(error: unknown): boolean {
  return error instanceof StatusError && error.status === 403;
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(typeof error === "string" ? error : "the request failed");
}
