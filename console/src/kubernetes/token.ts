// Tokens of EKS: a presigned request GetCallerIdentity of STS, as "aws eks get-token" makes it.
import { Sha256 } from "@aws-crypto/sha256-js";
import { SignatureV4 } from "@smithy/signature-v4";
import type { Session } from "../session/session";

/** How long a token is used; STS takes it for 15 minutes. */
const used = 10 * 60 * 1000;

/** NewTokenSource returns a function that returns a token for a cluster, the same one for some minutes. */
export function newTokenSource(session: Session, cluster: string): () => Promise<string> {
  let token: Promise<string> | undefined;
  let made = 0;
  return () => {
    if (token === undefined || Date.now() - made > used) {
      made = Date.now();
      token = createToken(session, cluster);
      token.catch(() => {
        token = undefined;
      });
    }
    return token;
  };
}

/** CreateToken signs a token for a cluster, without asking anybody. */
export async function createToken(session: Session, cluster: string, signingDate = new Date()): Promise<string> {
  const { accessKeyId, secretAccessKey, sessionToken, region } = session;
  const hostname = `sts.${region}.amazonaws.com`;
  const signer = new SignatureV4({
    service: "sts",
    region,
    credentials: { accessKeyId, secretAccessKey, sessionToken },
    sha256: Sha256,
  });
  const { query = {} } = await signer.presign(
    {
      method: "GET",
      protocol: "https:",
      hostname,
      path: "/",
      query: { Action: "GetCallerIdentity", Version: "2011-06-15" },
      headers: { host: hostname, "x-k8s-aws-id": cluster },
    },
    { expiresIn: 60, signingDate, unhoistableHeaders: new Set(["x-k8s-aws-id"]) },
  );
  const parameters = Object.entries(query).map(([k, v]) => `${encode(k)}=${encode(String(v))}`);
  return `k8s-aws-v1.${base64url(`https://${hostname}/?${parameters.join("&")}`)}`;
}

function encode(text: string): string {
  return encodeURIComponent(text).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Base64url encodes text that has ASCII characters alone, without padding. */
export function base64url(text: string): string {
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
