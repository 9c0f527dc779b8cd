/** Local times in a zone, by the browser's own zone data. */

const formats = new Map<string, Intl.DateTimeFormat>();

function format(zone: string): Intl.DateTimeFormat {
  let found = formats.get(zone);
  if (!found) {
    const fields = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" } as const;
    try {
      found = new Intl.DateTimeFormat("en-CA", { ...fields, timeZone: zone, hourCycle: "h23" });
    } catch {
      found = format("UTC"); // a zone that the server knows and this browser does not
    }
    formats.set(zone, found);
  }
  return found;
}

/** The local clock as if it were UTC: its getUTC… functions read local fields. */
export function localMs(ms: number, zone: string): number {
  if (zone === "UTC") return ms;
  const whole = Math.floor(ms / 1000) * 1000;
  const part: Record<string, number> = {};
  for (const { type, value } of format(zone).formatToParts(whole)) part[type] = Number(value);
  const { year = 1970, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = part;
  return Date.UTC(year, month - 1, day, hour, minute, second) + (ms - whole);
}

export function offsetMs(ms: number, zone: string): number {
  return localMs(ms, zone) - ms;
}

/** The instant of a local time; of a time that comes twice the first, of one that is skipped the same span later. */
export function instantOf(local: number, zone: string): number {
  const before = offsetMs(local - 86_400_000, zone);
  const guess = local - before;
  if (offsetMs(guess, zone) === before) return guess;
  const other = local - offsetMs(guess, zone);
  return localMs(other, zone) === local ? other : guess;
}

export function offsetText(ms: number, zone: string): string {
  const minutes = Math.round(offsetMs(ms, zone) / 60_000);
  const size = Math.abs(minutes);
  const two = (number: number) => String(number).padStart(2, "0");
  return `${minutes < 0 ? "−" : "+"}${two(Math.floor(size / 60))}:${two(size % 60)}`;
}
