// The three ways to sign in.
import { AssumeRoleCommand, GetCallerIdentityCommand, STSClient } from "@aws-sdk/client-sts";
import { clientConfigOf } from "../aws/client";
import type { Session } from "./session";

/** An access key, with the session token of temporary credentials. */
export interface AccessKey {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
  expiration?: string;
  region: string;
}

/** TakeCode returns the one-time code of the address, and removes it from there and from the history. */
export function takeCode(): string | null {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code !== null) history.replaceState(history.state, "", location.pathname + location.search);
  return code;
}

/** RedeemCode signs in with the code of the link that "coracle console" printed. */
export async function redeemCode(code: string): Promise<Session> {
  const response = await fetch("/console/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code }),
    cache: "no-store",
  });
  const answer = (await response.json()) as Session & { message?: string };
  if (!response.ok) throw new Error(answer.message ?? `the daemon answered ${response.status}`);
  return answer;
}

/** SignIn signs in with an access key, once STS has said whose it is. */
export async function signIn(key: AccessKey): Promise<Session> {
  const client = new STSClient(clientConfigOf(key));
  const { Account: account, Arn: arn } = await client.send(new GetCallerIdentityCommand({}));
  if (account === undefined || arn === undefined) throw new Error("STS does not say whose access key this is");
  return { ...key, account, arn };
}

/** AssumeRole signs in to a session of a role, which the owner of an access key assumes. */
export async function assumeRole(key: AccessKey, role: string, name: string, externalId?: string): Promise<Session> {
  const { Credentials: c } = await new STSClient(clientConfigOf(key)).send(
    new AssumeRoleCommand({ RoleArn: role, RoleSessionName: name, ExternalId: externalId }),
  );
  if (c?.AccessKeyId === undefined || c.SecretAccessKey === undefined) throw new Error("STS returned no credentials");
  return signIn({
    accessKeyId: c.AccessKeyId,
    secretAccessKey: c.SecretAccessKey,
    sessionToken: c.SessionToken,
    expiration: c.Expiration?.toISOString(),
    region: key.region,
  });
}

/** DefaultRegion returns the region of the daemon. */
export function defaultRegion(): string {
  return document.querySelector<HTMLMetaElement>('meta[name="coracle-region"]')?.content ?? "us-east-1";
}
