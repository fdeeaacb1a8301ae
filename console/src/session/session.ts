// The session: who is signed in, with which credentials, in which region. It is in the memory of this tab alone.

export interface Session {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
  /** When the credentials end, ISO 8601; access keys do not. */
  expiration?: string;
  region: string;
  account: string;
  arn: string;
}

const key = "coracle.session";

/** StoredSession returns the session of this tab, unless there is none or it has ended. */
export function storedSession(storage: Storage = sessionStorage, now = Date.now()): Session | null {
  const text = storage.getItem(key);
  if (text === null) return null;
  try {
    const session = JSON.parse(text) as Session;
    if (session.expiration !== undefined && Date.parse(session.expiration) <= now) return null;
    return session;
  } catch {
    return null;
  }
}

/** StoreSession keeps the session for reloads of this tab; null forgets it. */
export function storeSession(session: Session | null, storage: Storage = sessionStorage): void {
  if (session === null) storage.removeItem(key);
  else storage.setItem(key, JSON.stringify(session));
}

/** IdentityName returns how AWS's console names who is signed in: "Admin/alice", "bob", "root". */
export function identityName(arn: string): string {
  const resource = arn.split(":").slice(5).join(":");
  const [kind, ...rest] = resource.split("/");
  if (kind === "assumed-role") return rest.join("/");
  return rest.at(-1) ?? resource;
}

/** FormatAccount returns an account number as AWS's console writes it: "1111-2222-3333". */
export function formatAccount(account: string): string {
  return account.replace(/^(\d{4})(\d{4})(\d{4})$/, "$1-$2-$3");
}
