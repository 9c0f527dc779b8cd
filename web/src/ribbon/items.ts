/** A lane of the ribbon as it is drawn: times as numbers, everything in the order of time. */

import type { Cell, JobStatus, Lane, Mark, RunState, Trigger } from "../api/types";

export interface MarkItem {
  kind: "mark";
  at: number;
  start: number | null;
  end: number | null;
  state: RunState;
  reason: string | null;
  trigger: Trigger;
  run: string;
  attempt: number;
  lateness: number | null;
}

export interface CellCounts {
  count: number;
  succeeded: number;
  failed: number;
  skipped: number;
  other: number;
  caughtUp: number;
  backfilled: number;
  reasons: string[];
}

export interface CellItem {
  kind: "cell";
  at: number;
  through: number;
  cell: CellCounts;
}

export interface GapItem {
  kind: "gap";
  at: number;
  through: number;
  run: string;
  occurrences: number;
  reason: string;
  detail: string;
}

export interface FutureItem {
  kind: "future";
  at: number;
  through: number;
  count: number;
}

export type Item = MarkItem | CellItem | GapItem | FutureItem;

export interface DrawnLane {
  job: string;
  description: string;
  status: JobStatus;
  timezone: string;
  nextAt: string | null;
  undecidedSince: number | null;
  gaps: GapItem[];
  cells: CellItem[];
  marks: MarkItem[];
  future: FutureItem[];
  /** The most that one cell holds: what the others are drawn against. */
  fullest: number;
}

const ms = (text: string): number => Date.parse(text);
const msOrNull = (text: string | null | undefined): number | null => (text ? Date.parse(text) : null);

export function prepare(lane: Lane, now: number): DrawnLane {
  const cells = lane.cells.map((cell): CellItem => ({ kind: "cell", at: ms(cell.at), through: ms(cell.until), cell: counted(cell) }));
  const future = aheadOf(lane);
  return {
    job: lane.job,
    description: lane.description ?? "",
    status: lane.status,
    timezone: lane.timezone,
    nextAt: lane.next ?? (lane.held ? null : (lane.ahead[0] ?? null)),
    undecidedSince: undecided(lane, now),
    gaps: lane.gaps.map((gap): GapItem => ({
      kind: "gap",
      at: ms(gap.from),
      through: ms(gap.through ?? gap.from),
      run: gap.run,
      occurrences: gap.occurrences,
      reason: gap.reason ?? "skipped",
      detail: gap.detail,
    })),
    cells,
    marks: lane.marks.map(markOf).sort((one, other) => one.at - other.at),
    future,
    fullest: Math.max(1, ...cells.map((item) => item.cell.count), ...future.map((item) => item.count)),
  };
}

function markOf(mark: Mark): MarkItem {
  const start = msOrNull(mark.started_at);
  return {
    kind: "mark",
    at: ms(mark.at),
    start,
    end: start === null || mark.duration_seconds === null ? null : start + mark.duration_seconds * 1000,
    state: mark.state,
    reason: mark.reason,
    trigger: mark.trigger,
    run: mark.run,
    attempt: mark.attempt,
    // A run that somebody asked for was due when they asked.
    lateness: mark.run.includes("~") ? null : mark.lateness_seconds,
  };
}

function counted({ count, states, triggers, reasons }: Cell): CellCounts {
  const sum = (...names: RunState[]) => names.reduce((total, name) => total + (states[name] ?? 0), 0);
  const [succeeded, failed, skipped] = [sum("succeeded"), sum("failed", "timed_out", "lost"), sum("skipped")];
  return {
    count,
    succeeded,
    failed,
    skipped,
    other: count - succeeded - failed - skipped,
    caughtUp: triggers.catchup ?? 0,
    backfilled: triggers.backfill ?? 0,
    reasons: Object.keys(reasons),
  };
}

function aheadOf(lane: Lane): FutureItem[] {
  const single = lane.ahead.map((at): FutureItem => ({ kind: "future", at: ms(at), through: ms(at), count: 1 }));
  const many = (lane.ahead_cells ?? []).map((cell): FutureItem => ({ kind: "future", at: ms(cell.at), through: ms(cell.until), count: cell.count }));
  return [...single, ...many].sort((one, other) => one.at - other.at);
}

/** From when on nothing was decided: a job that is held back, or a scheduler that is away. A few seconds are its pace. */
function undecided(lane: Lane, now: number): number | null {
  const since = msOrNull(lane.watermark);
  return since !== null && since < now - 60_000 ? since : null;
}

/** Everything of a lane in the order of time: what the arrow keys walk along. */
export function walkable(lane: DrawnLane): Item[] {
  return [...lane.gaps, ...lane.cells, ...lane.marks, ...lane.future].sort((one, other) => one.at - other.at);
}
