const units: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 365 * 24 * 3600],
  ["month", 30 * 24 * 3600],
  ["day", 24 * 3600],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

const relative = new Intl.RelativeTimeFormat("en-US", { numeric: "always" });

/** FormatAge returns how long ago a time was: "3 hours ago". */
export function formatAge(time: Date, now = Date.now()): string {
  const seconds = Math.round((time.getTime() - now) / 1000);
  const [unit, size] = units.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
  return relative.format(Math.trunc(seconds / size), unit);
}

/** FormatTime returns a time as AWS's console writes it: "November 30, 2026, 19:50 (UTC+01:00)". */
export function formatTime(time: Date): string {
  const date = time.toLocaleDateString("en-US", { year: "numeric", month: "long", day: "numeric" });
  const clock = time.toLocaleTimeString("en-US", { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  const offset = -time.getTimezoneOffset();
  const pad = (n: number) => String(n).padStart(2, "0");
  const zone = `${offset < 0 ? "-" : "+"}${pad(Math.floor(Math.abs(offset) / 60))}:${pad(Math.abs(offset) % 60)}`;
  return `${date}, ${clock} (UTC${zone})`;
}
