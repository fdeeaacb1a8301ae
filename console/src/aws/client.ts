// Clients of the AWS SDK. They are like those of everybody else: signed in the browser, for the endpoint that served
// the console.
import { useMemo } from "react";
import { useSession } from "../session/SessionProvider";
import type { Session } from "../session/session";

/** The configuration of a client. */
export interface ClientConfig {
  endpoint: string;
  region: string;
  credentials: { accessKeyId: string; secretAccessKey: string; sessionToken?: string };
  maxAttempts: number;
  /** Operations with a host of their own, such as StartLiveTail, are served at the endpoint, too. */
  disableHostPrefix: boolean;
}

export type ClientClass<C> = new (config: ClientConfig) => C;

/** ClientConfigOf returns the configuration of clients that act for a session. */
export function clientConfigOf(session: Pick<Session, keyof ClientConfig["credentials"] | "region">): ClientConfig {
  const { accessKeyId, secretAccessKey, sessionToken, region } = session;
  return {
    endpoint: location.origin,
    region,
    credentials: { accessKeyId, secretAccessKey, sessionToken },
    maxAttempts: 2,
    disableHostPrefix: true,
  };
}

/** UseClient returns a client of a service: useClient(EKSClient). */
export function useClient<C>(Client: ClientClass<C>): C {
  const { session } = useSession();
  return useMemo(() => new Client(clientConfigOf(session)), [Client, session]);
}
