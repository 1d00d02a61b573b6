// Numbers and times as a person would say them.

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `850 ms`, `1.9 s`, `3 min 12 s`, `2 h 5 min`, `3 days 4 h`: as the command line says it. */
export function duration(ms: number): string {
  const size = Math.max(0, Math.round(ms));
  const whole = (unit: number) => Math.floor(size / unit);
  if (size < SECOND) return `${size} ms`;
  // Cut, not rounded: what says 40 s has taken 40 s.
  if (size < 10 * SECOND) return `${whole(SECOND)}.${Math.floor((size % SECOND) / 100)} s`;
  if (size < MINUTE) return `${whole(SECOND)} s`;
  if (size < HOUR) return two(whole(MINUTE), "min", Math.floor((size % MINUTE) / SECOND), "s");
  if (size < DAY) return two(whole(HOUR), "h", Math.floor((size % HOUR) / MINUTE), "min");
  const days = whole(DAY);
  return two(days, days === 1 ? "day" : "days", Math.floor((size % DAY) / HOUR), "h");
}

function two(big: number, bigUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${big} ${bigUnit}` : `${big} ${bigUnit} ${small} ${smallUnit}`;
}

/** Below ten one digit behind the point says something, above it only flickers. */
function oneDigit(value: number): string {
  return Math.abs(value) < 9.95 ? String(Math.round(value * 10) / 10) : String(Math.round(value));
}

/** How long ago, in one unit: `now`, `12 s`, `4 min`, `2 h`, `3 d`. */
export function age(time: number, now: number): string {
  const ms = now - time;
  if (ms < 5 * SECOND) return "now";
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

/** How long until then, never more than it is: `58 min`; `over` once it has passed. */
export function left(time: number, now: number): string {
  const ms = time - now;
  if (ms <= 0) return "over";
  if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
  if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `${Math.floor(ms / HOUR)} h`;
  return `${Math.floor(ms / DAY)} d`;
}

/** The exact time, local, to the second, with the zone. */
export function exact(time: number): string {
  const at = new Date(time);
  const two = (value: number) => String(value).padStart(2, "0");
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const clock = `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  const offset = -at.getTimezoneOffset();
  const sign = offset < 0 ? "-" : "+";
  const zone = `${sign}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${date} ${clock} ${zone}`;
}

/** The time of the day, local, to the second. */
export function clock(time: number): string {
  return exact(time).slice(11, 19);
}

/** `812`, `12.4k`, `3.1M`. */
export function count(value: number): string {
  if (value < 1_000) return String(value);
  if (value < 999_950) return `${oneDigit(value / 1_000)}k`;
  return `${oneDigit(value / 1_000_000)}M`;
}

/** `812 B`, `12.4 KiB`, `3.1 MiB`. */
export function bytes(value: number): string {
  if (value < 1_024) return `${value} B`;
  if (value < 1_024 * 1_024) return `${oneDigit(value / 1_024)} KiB`;
  return `${oneDigit(value / 1_024 / 1_024)} MiB`;
}

/** A share as a whole percentage; nothing when there is no whole. */
export function percent(part: number, whole: number): string {
  return whole === 0 ? "" : `${Math.round((100 * part) / whole)} %`;
}

/** Enough of an id to tell it from others in a list. */
export function shortId(id: string): string {
  return id.slice(0, 8);
}

/** Who did it, without the kind in front that `actor` has in the log. */
export function person(actor: string): string {
  return actor.startsWith("person:") ? actor.slice("person:".length) : actor;
}

/** Millionths of a currency: two decimals, or as many as it needs. Whose currency it is nobody says. */
export function money(micros: number): string {
  const [whole, part] = [Math.floor(micros / 1_000_000), micros % 1_000_000];
  const digits = String(part)
    .padStart(6, "0")
    .replace(/0{1,4}$/, "");
  return `${whole.toLocaleString("en-US")}.${digits}`;
}
