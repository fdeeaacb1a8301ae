import {
  createContext,
  lazy,
  type ReactNode,
  Suspense,
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useState,
} from "react";
import { describeError } from "../aws/errors";
import { Loading } from "../components/Loading";
import { type Session, storedSession, storeSession } from "./session";
import { redeemCode, takeCode } from "./signIn";

/** Why the sign-in page is there. */
export type Notice = { type: "info" | "warning" | "error"; text: string } | null;

interface SessionState {
  session: Session | null;
  /** A link is being redeemed. */
  pending: boolean;
  notice: Notice;
  begin: (session: Session) => void;
  signOut: () => void;
  /** Expire ends the session of an access key: its credentials were refused. */
  expire: (accessKeyId: string) => void;
  setRegion: (region: string) => void;
}

const Context = createContext<SessionState | null>(null);

export function SessionProvider({ children }: { children: ReactNode }) {
  const [code] = useState(takeCode);
  const [session, setSession] = useState<Session | null>(() => (code === null ? storedSession() : null));
  const [pending, setPending] = useState(code !== null);
  const [notice, setNotice] = useState<Notice>(null);

  const begin = useCallback((next: Session) => {
    setSession(next);
    setNotice(null);
  }, []);
  const end = useCallback((why: Notice) => {
    setSession(null);
    setNotice(why);
  }, []);
  const expire = useCallback((accessKeyId: string) => {
    setSession((current) => (current?.accessKeyId === accessKeyId ? null : current));
    setNotice({ type: "warning", text: "Your session has expired. Sign in again to go on where you were." });
  }, []);

  useEffect(() => storeSession(session), [session]);

  useEffect(() => {
    if (code === null) return;
    void redeemOnce(code)
      .then(begin, (error: unknown) => end({ type: "error", text: describeError(error).message }))
      .finally(() => setPending(false));
  }, [code, begin, end]);

  useEffect(() => {
    if (session?.expiration === undefined) return;
    const { accessKeyId } = session;
    const left = Date.parse(session.expiration) - Date.now();
    const timer = setTimeout(() => expire(accessKeyId), Math.min(Math.max(left, 0), 2 ** 31 - 1));
    return () => clearTimeout(timer);
  }, [session, expire]);

  const state = useMemo<SessionState>(
    () => ({
      session,
      pending,
      notice,
      begin,
      expire,
      signOut: () => end({ type: "info", text: "You have signed out." }),
      setRegion: (region) => setSession((s) => (s === null ? null : { ...s, region })),
    }),
    [session, pending, notice, begin, end, expire],
  );
  return <Context.Provider value={state}>{children}</Context.Provider>;
}

// React's strict mode runs effects twice, and a code is good for one sign-in. Only the session keeps credentials.
const redeeming = new Map<string, Promise<Session>>();
function redeemOnce(code: string): Promise<Session> {
  const running = redeeming.get(code) ?? redeemCode(code).finally(() => redeeming.delete(code));
  redeeming.set(code, running);
  return running;
}

/** UseSessionState returns the session, or null where nobody is signed in, and what changes it. */
export function useSessionState(): SessionState {
  const state = useContext(Context);
  if (state === null) throw new Error("no SessionProvider");
  return state;
}

/** UseSession returns the session of who is signed in. Pages are there only while somebody is. */
export function useSession(): SessionState & { session: Session } {
  const state = useSessionState();
  if (state.session === null) throw new Error("nobody is signed in");
  return { ...state, session: state.session };
}

const SignInPage = lazy(() => import("./SignInPage"));

/** SessionGate shows its children to who is signed in, and the sign-in page to everybody else, at the same address. */
export function SessionGate({ children }: { children: ReactNode }) {
  const { session, pending } = useSessionState();
  if (pending) return <Loading what="session" />;
  if (session !== null) return children;
  return (
    <Suspense fallback={<Loading what="sign-in page" />}>
      <SignInPage />
    </Suspense>
  );
}
