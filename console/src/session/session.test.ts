import { expect, test } from "vitest";
import { formatAccount, identityName, type Session, storedSession, storeSession } from "./session";

function storage(): Storage {
  const items = new Map<string, string>();
  return {
    getItem: (key: string) => items.get(key) ?? null,
    setItem: (key: string, value: string) => void items.set(key, value),
    removeItem: (key: string) => void items.delete(key),
  } as Storage;
}

const session: Session = {
  accessKeyId: "ASIAEXAMPLE",
  secretAccessKey: "secret",
  sessionToken: "token",
  expiration: "2026-01-01T12:00:00Z",
  region: "eu-west-1",
  account: "111122223333",
  arn: "arn:aws:iam::111122223333:root",
};
const noon = Date.parse("2026-01-01T12:00:00Z");

test("a session outlives a reload, but not its credentials", () => {
  const s = storage();
  storeSession(session, s);
  expect(storedSession(s, noon - 1)).toEqual(session);
  expect(storedSession(s, noon)).toBeNull();
});

test("a session that was signed out is forgotten", () => {
  const s = storage();
  storeSession(session, s);
  storeSession(null, s);
  expect(storedSession(s, noon - 1)).toBeNull();
});

test("what is not a session is none", () => {
  const s = storage();
  s.setItem("coracle.session", "{");
  expect(storedSession(s)).toBeNull();
});

test.each([
  ["arn:aws:iam::111122223333:root", "root"],
  ["arn:aws:iam::111122223333:user/teams/bob", "bob"],
  ["arn:aws:sts::111122223333:assumed-role/Admin/alice", "Admin/alice"],
  ["arn:aws:sts::111122223333:federated-user/carol", "carol"],
])("%s is called %s", (arn, name) => {
  expect(identityName(arn)).toBe(name);
});

test("an account number has groups", () => {
  expect(formatAccount("111122223333")).toBe("1111-2222-3333");
});
