/** Times and spans as people read them. */

import { localMs, offsetText } from "./zones";

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const two = (number: number): string => String(number).padStart(2, "0");

export const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
export const WEEKDAYS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

export function clock(ms: number, zone: string): string {
  const at = new Date(localMs(ms, zone));
  const rest = at.getUTCMilliseconds();
  const whole = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
  return rest ? `${whole}.${String(rest).padStart(3, "0")}` : whole;
}

export function date(ms: number, zone: string): string {
  const at = new Date(localMs(ms, zone));
  return `${at.getUTCFullYear()}-${two(at.getUTCMonth() + 1)}-${two(at.getUTCDate())}`;
}

export function full(ms: number, zone: string): string {
  return `${date(ms, zone)} ${clock(ms, zone)}`;
}

/** As short as it can be understood: today's times without a date, this year's without a year.
 *
 * `readerZone`: beside times of other zones, "today" is the reader's day; in Tokyo it may be tomorrow already. */
export function short(ms: number, zone: string, now: number, readerZone = zone): string {
  const day = date(ms, zone);
  const time = clock(Math.floor(ms / SECOND) * SECOND, zone);
  if (day === date(now, zone) && day === date(now, readerZone)) return time;
  const at = new Date(localMs(ms, zone));
  const spoken = `${MONTHS[at.getUTCMonth()]} ${at.getUTCDate()}`;
  return day.slice(0, 4) === date(now, zone).slice(0, 4) ? `${spoken}, ${time}` : `${spoken} ${day.slice(0, 4)}, ${time}`;
}

/** The same instant three times: where the reader is, where the job is, and in UTC. */
export function everywhere(ms: number, localZone: string, jobZone?: string): string[] {
  const lines = [`${full(ms, localZone)}  ${localZone} ${offsetText(ms, localZone)}`];
  if (jobZone && jobZone !== localZone && jobZone !== "UTC" && jobZone !== "Etc/UTC") {
    lines.push(`${full(ms, jobZone)}  ${jobZone} ${offsetText(ms, jobZone)}`);
  }
  if (localZone !== "UTC") lines.push(`${full(ms, "UTC")}  UTC`);
  return lines;
}

export function span(ms: number): string {
  const size = Math.abs(ms);
  const sign = ms < 0 ? "−" : "";
  if (size < 1) return "0ms";
  if (size < SECOND) return `${sign}${Math.floor(size)}ms`;
  if (size < 10 * SECOND) return `${sign}${trimmed(Math.floor(size) / SECOND, 3)}s`;
  if (size < MINUTE) return `${sign}${Math.floor(size / SECOND)}s`;
  if (size < HOUR) return sign + units(Math.floor(size / MINUTE), "m", Math.floor((size % MINUTE) / SECOND), "s");
  if (size < DAY) return sign + units(Math.floor(size / HOUR), "h", Math.floor((size % HOUR) / MINUTE), "m");
  return sign + units(Math.floor(size / DAY), "d", Math.floor((size % DAY) / HOUR), "h");
}

/** The two largest units, without a part that is zero. */
function units(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small ? `${large}${largeUnit} ${small}${smallUnit}` : `${large}${largeUnit}`;
}

/** A tick of an axis. */
export function roundSpan(ms: number): string {
  return ms === 0 ? "0" : span(ms);
}

function trimmed(number: number, digits: number): string {
  return number.toFixed(digits).replace(/\.?0+$/, "");
}

/** One unit is enough for how long ago something was. */
export function roughly(ms: number): string {
  const size = Math.abs(ms);
  if (size < MINUTE) return `${Math.floor(size / SECOND)}s`;
  if (size < HOUR) return `${Math.floor(size / MINUTE)}m`;
  if (size < 2 * DAY) return `${Math.floor(size / HOUR)}h`;
  return `${Math.floor(size / DAY)}d`;
}

export function ago(ms: number, now: number): string {
  if (Math.abs(ms - now) < SECOND) return "now";
  return ms <= now ? `${roughly(now - ms)} ago` : `in ${roughly(ms - now)}`;
}

export const lasting = (since: number, now: number): string => `for ${roughly(Math.max(0, now - since))}`;

export function bytes(count: number): string {
  if (count < 1024) return `${count} B`;
  if (count < 1024 * 1024) return `${trimmed(count / 1024, 1)} KB`;
  return `${trimmed(count / 1024 / 1024, 1)} MB`;
}

export const number = (count: number): string => count.toLocaleString("en");

export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${number(count)} ${count === 1 ? noun : plural}`;
}

/** The last part of a path with what follows it, such as a line: `/srv/jobs/etl.yaml:3` is `etl.yaml:3`. */
export function fileName(place: string): string {
  return place.slice(place.lastIndexOf("/") + 1);
}
