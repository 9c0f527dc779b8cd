/** Where an axis of time has its lines, and what they are called: round local times, also across changes of the clock. */

import { MONTHS, WEEKDAYS } from "./words";
import { instantOf, localMs } from "./zones";

export interface Tick {
  at: number;
  label: string;
  /** Drawn stronger: the first of the next larger unit. */
  isMajor: boolean;
}

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

const FIXED = [
  10, 50, 100, 250, 500,
  SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 30 * SECOND,
  MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE,
  HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR,
];
const DAYS = [1, 2, 7, 14];
const MONTH_STEPS = [1, 3, 6, 12, 24, 60, 120];
const LABEL_PX = 84;
const TICKS_MAX = 200;

export function ticks(from: number, to: number, width: number, zone: string): Tick[] {
  const least = ((to - from) / Math.max(width, 1)) * LABEL_PX;
  const fixed = FIXED.find((step) => step >= least);
  if (fixed) return fixedTicks(from, to, fixed, zone);
  const days = DAYS.find((count) => count * DAY >= least);
  if (days) return dayTicks(from, to, days, zone);
  const months = MONTH_STEPS.find((count) => count * 30 * DAY >= least) ?? 120;
  return monthTicks(from, to, months, zone);
}

function fixedTicks(from: number, to: number, step: number, zone: string): Tick[] {
  const found: Tick[] = [];
  let local = Math.ceil(localMs(from, zone) / step) * step;
  for (let turn = 0; turn < TICKS_MAX; turn++, local += step) {
    const at = instantOf(local, zone);
    if (at > to) break;
    // A skipped local time is the instant of a later one, which then has its line already.
    if (at < from || at <= (found.at(-1)?.at ?? -Infinity)) continue;
    const shown = new Date(localMs(at, zone));
    const isMidnight = localMs(at, zone) % DAY === 0;
    found.push({ at, label: isMidnight ? dayLabel(shown) : clockLabel(shown, step), isMajor: isMidnight });
  }
  return found;
}

function dayTicks(from: number, to: number, count: number, zone: string): Tick[] {
  const found: Tick[] = [];
  // 1970-01-01 was a Thursday: weeks begin on Mondays when counted from the fourth day before.
  const first = Math.floor(localMs(from, zone) / DAY);
  const phase = count % 7 === 0 ? 4 : 0;
  let day = Math.ceil((first - phase) / count) * count + phase;
  for (let turn = 0; turn < TICKS_MAX; turn++, day += count) {
    const at = instantOf(day * DAY, zone);
    if (at > to) break;
    const shown = new Date(day * DAY);
    const isMajor = shown.getUTCDate() === 1 || (count === 1 && shown.getUTCDay() === 1);
    if (at >= from) found.push({ at, label: dayLabel(shown), isMajor });
  }
  return found;
}

function monthTicks(from: number, to: number, count: number, zone: string): Tick[] {
  const found: Tick[] = [];
  const start = new Date(localMs(from, zone));
  let month = Math.floor((start.getUTCFullYear() * 12 + start.getUTCMonth()) / count) * count;
  for (let turn = 0; turn < TICKS_MAX; turn++, month += count) {
    const local = Date.UTC(Math.floor(month / 12), month % 12, 1);
    const at = instantOf(local, zone);
    if (at > to) break;
    if (at < from) continue;
    const isYear = month % 12 === 0;
    found.push({ at, label: isYear ? String(month / 12) : (MONTHS[month % 12] ?? ""), isMajor: isYear });
  }
  return found;
}

function dayLabel(local: Date): string {
  if (local.getUTCMonth() === 0 && local.getUTCDate() === 1) return String(local.getUTCFullYear());
  return `${WEEKDAYS[local.getUTCDay()]} ${local.getUTCDate()} ${MONTHS[local.getUTCMonth()]}`;
}

function clockLabel(local: Date, step: number): string {
  const text = local.toISOString();
  if (step < SECOND) return text.slice(17, 23);
  return step < MINUTE ? text.slice(11, 19) : text.slice(11, 16);
}

const LETTER_PX = 7;

/** Where the middle of a label is, moved by what would be cut off at an edge. */
export function inside(x: number, label: string, width: number): number {
  const half = (label.length * LETTER_PX) / 2;
  return Math.max(half, Math.min(x, width - half));
}

const SPANS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((count) => count * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
];

/** Round spans from nothing up to the longest, a handful of them: 0, 2 min, 4 min, never 3 min 20. */
export function spanTicks(longest: number, count = 5): number[] {
  const least = longest / count;
  const step = SPANS.find((one) => one >= least) ?? Math.ceil(least / DAY) * DAY;
  return Array.from({ length: Math.floor(longest / step) + 1 }, (_, index) => index * step);
}

/** What the axis cannot say with its lines: the date on its left edge. */
export function edgeLabel(from: number, to: number, zone: string): string {
  const local = new Date(localMs(from, zone));
  const day = `${WEEKDAYS[local.getUTCDay()]} ${local.getUTCDate()} ${MONTHS[local.getUTCMonth()]}`;
  return to - from > 40 * DAY ? String(local.getUTCFullYear()) : `${day} ${local.getUTCFullYear()}`;
}
