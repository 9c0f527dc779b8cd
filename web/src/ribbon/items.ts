/** A lane of the ribbon as it is drawn: times as numbers, everything in the order of time. */

import type { Cell, JobStatus, Lane, RunState, Trigger } from "../api/types";

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

export interface CellItem {
  kind: "cell";
  at: number;
  through: number;
  cell: Cell;
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
  tags: string[];
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
const msOrNull = (text: string | null): number | null => (text === null ? null : Date.parse(text));

export function prepare(lane: Lane): DrawnLane {
  const future: FutureItem[] = [
    ...lane.future.map((at): FutureItem => ({ kind: "future", at: ms(at), through: ms(at), count: 1 })),
    ...lane.future_cells.map((cell): FutureItem => ({ kind: "future", at: ms(cell.at), through: ms(cell.through), count: cell.count })),
  ];
  return {
    job: lane.job,
    description: lane.description,
    status: lane.status,
    timezone: lane.timezone,
    tags: lane.tags,
    nextAt: lane.next_at,
    undecidedSince: msOrNull(lane.undecided_since),
    gaps: lane.gaps.map((gap) => ({ ...gap, kind: "gap", at: ms(gap.at), through: ms(gap.through) })),
    cells: lane.cells.map((cell) => ({ kind: "cell", at: ms(cell.at), through: ms(cell.through), cell })),
    marks: lane.marks
      .map((mark): MarkItem => ({
        kind: "mark",
        at: ms(mark.at),
        start: msOrNull(mark.started_at),
        end: msOrNull(mark.finished_at),
        state: mark.state,
        reason: mark.reason,
        trigger: mark.trigger,
        run: mark.run,
        attempt: mark.attempt,
        lateness: mark.lateness_seconds,
      }))
      .sort((one, other) => one.at - other.at),
    future: future.sort((one, other) => one.at - other.at),
    fullest: Math.max(1, ...lane.cells.map((cell) => cell.count), ...lane.future_cells.map((cell) => cell.count)),
  };
}

/** Everything of a lane in the order of time: what the arrow keys walk along. */
export function walkable(lane: DrawnLane): Item[] {
  return [...lane.gaps, ...lane.cells, ...lane.marks, ...lane.future].sort((one, other) => one.at - other.at);
}
