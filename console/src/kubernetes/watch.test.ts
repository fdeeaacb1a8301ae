import { afterEach, expect, test, vi } from "vitest";
import type { KubernetesClient } from "./client";
import { type KubernetesObject, pods } from "./objects";
import { follow, type Watched } from "./watch";

afterEach(() => vi.useRealTimers());

function pod(name: string, resourceVersion: string): KubernetesObject {
  const metadata = { name, uid: name, resourceVersion, creationTimestamp: "" };
  return { apiVersion: "v1", kind: "Pod", metadata };
}

class Socket {
  onopen?: () => void;
  onmessage?: (event: { data: string }) => void;
  onclose?: () => void;
  closed = false;
  constructor(readonly query: Record<string, unknown>) {}
  close() {
    this.closed = true;
  }
  send(type: string, object: KubernetesObject) {
    this.onmessage?.({ data: JSON.stringify({ type, object }) });
  }
}

/** A client of a cluster that has one pod, "a". Its first list fails with an error, if there is one. */
function fake(error?: Error) {
  const sockets: Socket[] = [];
  const list = vi.fn(() =>
    Promise.resolve({ apiVersion: "v1", kind: "PodList", metadata: { resourceVersion: "1" }, items: [pod("a", "1")] }),
  );
  if (error !== undefined) list.mockRejectedValueOnce(error);
  const open = (_: string, query: Record<string, unknown>) => {
    const socket = new Socket(query);
    sockets.push(socket);
    return Promise.resolve(socket);
  };
  const seen: Watched<KubernetesObject>[] = [];
  const stop = follow({ list, open } as unknown as KubernetesClient, pods, "default", {}, (w) => seen.push(w));
  const names = () => seen.at(-1)?.items.map(({ metadata }) => metadata.name);
  return { sockets, list, seen, names, stop };
}

test("what is listed is followed, over connections that end", async () => {
  vi.useFakeTimers();
  const { sockets, list, names, stop } = fake();
  await vi.advanceTimersByTimeAsync(0);
  expect(names()).toEqual(["a"]);
  expect(sockets[0]?.query).toMatchObject({ watch: true, resourceVersion: "1" });

  sockets[0]?.onopen?.();
  sockets[0]?.send("ADDED", pod("b", "2"));
  sockets[0]?.send("DELETED", pod("a", "3"));
  await vi.advanceTimersByTimeAsync(100);
  expect(names()).toEqual(["b"]);

  sockets[0]?.onclose?.();
  await vi.advanceTimersByTimeAsync(1000);
  expect(sockets[1]?.query).toMatchObject({ resourceVersion: "3" });
  expect(list).toHaveBeenCalledTimes(1);

  // A version that is too old is listed anew.
  sockets[1]?.onopen?.();
  sockets[1]?.send("ERROR", pod("", ""));
  sockets[1]?.onclose?.();
  await vi.advanceTimersByTimeAsync(1000);
  expect(list).toHaveBeenCalledTimes(2);
  expect(names()).toEqual(["a"]);

  stop();
  expect(sockets[2]?.closed).toBe(true);
  sockets[2]?.onclose?.();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(sockets).toHaveLength(3);
});

test("a list that fails says why, and is tried again", async () => {
  vi.useFakeTimers();
  const { seen, names, stop } = fake(new Error("pods is forbidden"));
  await vi.advanceTimersByTimeAsync(0);
  expect(seen.at(-1)?.error?.message).toBe("pods is forbidden");
  await vi.advanceTimersByTimeAsync(1000);
  expect(names()).toEqual(["a"]);
  expect(seen.at(-1)?.error).toBeNull();
  stop();
});

test("a long list is told of as it is read, with what is kept of each object", async () => {
  vi.useFakeTimers();
  const page = (names: string[], next?: string) => ({
    apiVersion: "v1",
    kind: "PodList",
    metadata: { resourceVersion: "1", continue: next },
    items: names.map((name) => pod(name, "1")),
  });
  let readSecond: (list: ReturnType<typeof page>) => void = () => undefined;
  const second = new Promise<ReturnType<typeof page>>((resolve) => (readSecond = resolve));
  const list = vi.fn().mockResolvedValueOnce(page(["a"], "more")).mockReturnValueOnce(second);
  const open = () => Promise.resolve(new Socket({}));
  const seen: Watched<string>[] = [];
  const client = { list, open } as unknown as KubernetesClient;
  const pick = ({ kind, metadata }: KubernetesObject) => `${kind} ${metadata.name}`;
  const stop = follow<KubernetesObject, string>(client, pods, "default", {}, (w) => seen.push(w), pick);
  await vi.advanceTimersByTimeAsync(100);
  expect(seen.at(-1)).toEqual({ items: ["Pod a"], loading: true, error: null });
  readSecond(page(["b"]));
  await vi.advanceTimersByTimeAsync(0);
  expect(seen.at(-1)).toEqual({ items: ["Pod a", "Pod b"], loading: false, error: null });
  expect(seen).toHaveLength(2);
  stop();
});
