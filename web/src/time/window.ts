/** The stretch of time that is looked at, and how it moves. Milliseconds since 1970; fractions are fine. */

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

/** Which stretch to begin with: no longer than the ledger is old, no shorter than it takes to see something. */
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

/** What to ask for to show a window: half of it more on each side, so that small moves need no answer. */
export function widened(window: Window): Window {
  const more = spanOf(window) / 2;
  return { from: Math.floor(window.from - more), to: Math.ceil(window.to + more) };
}
