// Requests that a browser gives up when the network of the host changes, as it does whenever a cluster or an instance
// comes or goes: Chromium ends them with ERR_NETWORK_CHANGED.

const key = "coracle.reloads";
/** How often a page is loaded anew within a minute because a part of it did not arrive. */
const most = 20;
const minute = 60_000;

/** IsLostRequest reports whether a request did not get through, or a part of the page did not arrive. */
export function isLostRequest(error: unknown): boolean {
  return error instanceof TypeError && /fetch|dynamically imported module|importing a module/i.test(error.message);
}

/** MayReload reports whether the page may be loaded anew at a time in milliseconds, and counts that it is. */
export function mayReload(storage: Pick<Storage, "getItem" | "setItem">, now: number): boolean {
  let times: number[] = [];
  try {
    times = (JSON.parse(storage.getItem(key) ?? "[]") as number[]).filter((time) => now - time < minute);
  } catch {
    // Somebody else wrote it.
  }
  if (times.length >= most) return false;
  storage.setItem(key, JSON.stringify([...times, now]));
  return true;
}
