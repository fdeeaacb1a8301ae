import { formatAge, formatTime } from "./time";

/** Time shows how long ago something was; the time itself shows when pointed at. */
export function Time({ at }: { at: Date | string | undefined }) {
  if (at === undefined) return <>-</>;
  const time = new Date(at);
  return (
    <time dateTime={time.toISOString()} title={formatTime(time)}>
      {formatAge(time)}
    </time>
  );
}
