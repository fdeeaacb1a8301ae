import { afterEach, expect, test, vi } from "vitest";
import { KubernetesClient, StatusError } from "./client";
import { type KubernetesObject, pods } from "./objects";

afterEach(() => vi.unstubAllGlobals());

function answers(status: number, body: string): ReturnType<typeof vi.fn> {
  const fetch = vi.fn(() => Promise.resolve(new Response(body, { status })));
  vi.stubGlobal("fetch", fetch);
  return fetch;
}

const client = new KubernetesClient("web", "eu-west-1", () => Promise.resolve("token"));

test("a patch names its manager and type", async () => {
  const fetch = answers(200, "{}");
  await client.patch<KubernetesObject>(pods, "default", "p", "merge", { metadata: {} }, { force: false });
  const [url, init] = fetch.mock.calls[0] as [string, RequestInit];
  expect(url).toBe(
    "/console/kubernetes/eu-west-1/web/api/v1/namespaces/default/pods/p?fieldManager=coracle-console&force=false",
  );
  const headers = init.headers as Headers;
  expect([headers.get("Authorization"), headers.get("Content-Type")]).toEqual([
    "Bearer token",
    "application/merge-patch+json",
  ]);
});

test.each([
  [403, '{"kind":"Status","reason":"Forbidden","message":"pods is forbidden"}', "Forbidden", "pods is forbidden"],
  [502, "bad gateway", "", "bad gateway"],
])("the error of %i", async (status, body, reason, message) => {
  answers(status, body);
  const error: unknown = await client.list(pods).catch((e: unknown) => e);
  expect(error).toBeInstanceOf(StatusError);
  expect(error).toMatchObject({ status, name: reason, message });
});
