// Times and durations.

const full = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "medium", timeZone: "UTC" });
const short = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

const units: [seconds: number, name: string][] = [[86_400 * 365, "year"], [86_400 * 30, "month"], [86_400, "day"], [3600, "hour"], [60, "minute"]];

/** ago says how long ago a moment was, in its largest unit. */
export function ago(moment: Date, now: Date): string {
  const seconds = Math.max(0, (now.getTime() - moment.getTime()) / 1000);
  for (const [length, name] of units) {
    const n = Math.floor(seconds / length);
    if (n >= 1) return `${n} ${name}${n === 1 ? "" : "s"} ago`;
  }
  return seconds < 5 ? "just now" : `${Math.floor(seconds)} seconds ago`;
}

/** Time shows a moment: how long ago it was, or with `at` the date. The other one is in its title. */
export function Time({ at, exact = false }: { at: string; exact?: boolean }) {
  const moment = new Date(at);
  if (Number.isNaN(moment.getTime())) return <bdi>{at}</bdi>;
  const relative = ago(moment, new Date());
  return exact ? <time dateTime={at} title={relative}>{short.format(moment)} UTC</time> : <time dateTime={at} title={`${full.format(moment)} UTC`}>{relative}</time>;
}
