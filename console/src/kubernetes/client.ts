// A client of the API server of a cluster, through the console's path of the endpoint. What it may do, the API server
// decides: its tokens are those of who is signed in.
import { useMemo } from "react";
import { useSession } from "../session/SessionProvider";
import { type KubernetesObject, type List, type Resource, resourcePath } from "./objects";
import { base64url, newTokenSource } from "./token";

/** StatusError is an error that the API server returned. */
export class StatusError extends Error {
  constructor(
    readonly status: number,
    reason: string,
    message: string,
  ) {
    super(message);
    this.name = reason;
  }
}

export interface ListOptions {
  labelSelector?: string;
  fieldSelector?: string;
  limit?: number;
  continue?: string;
}

/** The formats of patches. */
export const patchTypes = {
  merge: "application/merge-patch+json",
  strategic: "application/strategic-merge-patch+json",
  json: "application/json-patch+json",
  apply: "application/apply-patch+yaml",
} as const;

/** The field manager of changes that the console makes. */
export const fieldManager = "coracle-console";

type Query = Record<string, string | number | boolean | string[] | undefined>;

/** A client of one cluster. */
export class KubernetesClient {
  readonly base: string;

  constructor(
    readonly cluster: string,
    region: string,
    private readonly token: () => Promise<string>,
  ) {
    this.base = `/console/kubernetes/${encodeURIComponent(region)}/${encodeURIComponent(cluster)}`;
  }

  /** Request sends a request. The error is a StatusError where the API server returned one. */
  async request(path: string, query: Query = {}, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    headers.set("Authorization", `Bearer ${await this.token()}`);
    // A cluster has no say in where a request goes again, with its token.
    const safe = { cache: "no-store", credentials: "omit", redirect: "error" } as const;
    const response = await fetch(this.base + path + queryString(query), { ...init, headers, ...safe });
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  async json<T>(path: string, query: Query = {}, init: RequestInit = {}): Promise<T> {
    const headers = new Headers(init.headers);
    if (!headers.has("Accept")) headers.set("Accept", "application/json");
    return (await (await this.request(path, query, { ...init, headers })).json()) as T;
  }

  list<T extends KubernetesObject>(
    resource: Resource,
    namespace?: string,
    options: ListOptions = {},
    signal?: AbortSignal,
  ): Promise<List<T>> {
    return this.json(resourcePath(resource, namespace), { ...options }, { signal });
  }

  get<T extends KubernetesObject>(
    resource: Resource,
    namespace: string | undefined,
    name: string,
    signal?: AbortSignal,
  ): Promise<T> {
    return this.json(resourcePath(resource, namespace, name), {}, { signal });
  }

  create<T extends KubernetesObject>(resource: Resource, namespace: string | undefined, object: object): Promise<T> {
    return this.send("POST", resourcePath(resource, namespace), object);
  }

  replace<T extends KubernetesObject>(
    resource: Resource,
    namespace: string | undefined,
    name: string,
    object: object,
  ): Promise<T> {
    return this.send("PUT", resourcePath(resource, namespace, name), object);
  }

  /** Patch changes an object. An apply patch is text in YAML or JSON; force takes fields from their owners. */
  patch<T extends KubernetesObject>(
    resource: Resource,
    namespace: string | undefined,
    name: string,
    type: keyof typeof patchTypes,
    patch: object | string,
    { force, subresource, dryRun }: { force?: boolean; subresource?: string; dryRun?: boolean } = {},
  ): Promise<T> {
    return this.json(
      resourcePath(resource, namespace, name, subresource),
      { fieldManager, force, dryRun: dryRun === true ? "All" : undefined },
      {
        method: "PATCH",
        headers: { "Content-Type": patchTypes[type] },
        body: typeof patch === "string" ? patch : JSON.stringify(patch),
      },
    );
  }

  async delete(resource: Resource, namespace: string | undefined, name: string): Promise<void> {
    await this.request(resourcePath(resource, namespace, name), {}, { method: "DELETE" });
  }

  private send<T>(method: string, path: string, object: object): Promise<T> {
    const headers = { "Content-Type": "application/json" };
    return this.json(path, { fieldManager }, { method, headers, body: JSON.stringify(object) });
  }

  /**
   * Open opens a WebSocket. Streams take one rather than a request, of which browsers have but six at a time. The token
   * goes as a subprotocol, for a browser sets no headers here.
   * https://kubernetes.io/docs/reference/access-authn-authz/authentication/#putting-a-bearer-token-in-a-request
   */
  async open(path: string, query: Query, protocol: string): Promise<WebSocket> {
    const token = base64url(await this.token());
    const url = new URL(this.base + path + queryString(query), location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return new WebSocket(url, [`base64url.bearer.authorization.k8s.io.${token}`, protocol]);
  }
}

/** UseKubernetes returns a client of a cluster in the region of the session. */
export function useKubernetes(cluster: string): KubernetesClient {
  const { session } = useSession();
  return useMemo(
    () => new KubernetesClient(cluster, session.region, newTokenSource(session, cluster)),
    [cluster, session],
  );
}

function queryString(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined) continue;
    for (const v of Array.isArray(value) ? value : [value]) parameters.append(name, String(v));
  }
  const text = parameters.toString();
  return text === "" ? "" : "?" + text;
}

/** ErrorOf returns the error of an answer. */
async function errorOf(response: Response): Promise<StatusError> {
  const text = await response.text();
  try {
    const status = JSON.parse(text) as { reason?: string; message?: string };
    return new StatusError(response.status, status.reason ?? response.statusText, status.message ?? text);
  } catch {
    return new StatusError(response.status, response.statusText, text.slice(0, 1000));
  }
}
