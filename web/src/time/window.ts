/** The visible period, and how it moves. Milliseconds since 1970; fractions are fine. */

export interface Window {
  from: number;
  to: number;
}

export const SPAN_MIN = 1_000;
export const SPAN_MAX = 370 * 86_400_000;
const EARLIEST = 0;
const LATEST = Date.UTC(2200, 0, 1);

export const PRESETS = [
  { label: "1m", span: 60_000, words: "one minute" },
  { label: "15m", span: 900_000, words: "15 minutes" },
  { label: "1h", span: 3_600_000, words: "one hour" },
  { label: "6h", span: 21_600_000, words: "6 hours" },
  { label: "1d", span: 86_400_000, words: "one day" },
  { label: "1w", span: 604_800_000, words: "one week" },
  { label: "1mo", span: 30 * 86_400_000, words: "one month" },
  { label: "1y", span: 366 * 86_400_000, words: "one year" },
] as const;

/** Of what is shown, three quarters are past: most questions are about it. */
export const NOW_PLACE = 0.72;

/** The first visible period: no longer than the history of the ledger, and long enough to show something. */
export function fittingSpan(ageMs: number | null, lanes: number, shown: number): number {
  const young = PRESETS.find((preset) => preset.span >= 900_000 && preset.span * NOW_PLACE >= (ageMs ?? 0));
  if (young && young.span <= DEFAULT_SPAN) return young.span;
  if (shown >= lanes) return DEFAULT_SPAN;
  return shown * 4 >= lanes ? 4 * DEFAULT_SPAN : 28 * DEFAULT_SPAN;
}

export const DEFAULT_SPAN = 21_600_000;

export const spanOf = (window: Window): number => window.to - window.from;

export function around(now: number, span: number, place = NOW_PLACE): Window {
  return within({ from: now - span * place, to: now + span * (1 - place) });
}

/** Zoom by a factor below one to see more detail, holding still what lies under `place` (0 left, 1 right). */
export function zoom(window: Window, factor: number, place: number): Window {
  const old = spanOf(window);
  const span = Math.min(Math.max(old * factor, SPAN_MIN), SPAN_MAX);
  const held = window.from + old * place;
  return within({ from: held - span * place, to: held + span * (1 - place) });
}

export function shift(window: Window, by: number): Window {
  return within({ from: window.from + by, to: window.to + by });
}

function within(window: Window): Window {
  const span = spanOf(window);
  if (window.from < EARLIEST) return { from: EARLIEST, to: EARLIEST + span };
  if (window.to > LATEST) return { from: LATEST - span, to: LATEST };
  return window;
}

export function holds(outer: Window, inner: Window): boolean {
  return outer.from <= inner.from && inner.to <= outer.to;
}

/** A stretch of time in columns of equal width. */
export interface Columns extends Window {
  cells: number;
}

const SECOND = 1_000;
const DAY = 86_400_000;
const steps = (unit: number, ...counts: number[]): number[] => counts.map((count) => count * unit);
const WIDTHS = [
  ...steps(1, 1, 2, 5, 10, 20, 50, 100, 200, 500),
  ...steps(SECOND, 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30),
  ...steps(60 * SECOND, 1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30),
  ...steps(3_600 * SECOND, 1, 2, 3, 4, 6, 8, 12),
  ...steps(DAY, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30),
];

/** What to ask for to show a window: half of it more on each side, so that small moves need no answer.
 *
 * In columns of a round width that begin at round times: what was counted stands still while time moves on, and pages
 * that look at the same stretch ask the same, which is answered once. No more than one column above `most`.
 */
export function columnsOf(window: Window, most: number): Columns {
  const more = spanOf(window) / 2;
  const finest = (2 * spanOf(window)) / most;
  const width = WIDTHS.find((one) => one >= finest) ?? Math.ceil(finest / DAY) * DAY;
  const from = Math.floor((window.from - more) / width) * width;
  const cells = Math.ceil((2 * spanOf(window)) / width) + 1;
  return { from, to: from + cells * width, cells };
}
