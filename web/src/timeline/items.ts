/** A lane of the timeline as it is drawn: times as numbers, everything in the order of time. */

import type { AttentionKind, TimelineCell, JobStatus, Lane, LaneGroup, Mark, RunState, Trigger } from "../api/types";
import type { Window } from "../time/window";

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
  cell: TimelineCell;
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
  /** What tells it from the others: the job, or its group. */
  key: string;
  /** Empty for a group. */
  job: string;
  group: LaneGroup | null;
  trouble: AttentionKind | null;
  name: string;
  description: string;
  status: JobStatus;
  timezone: string;
  nextAt: string | null;
  undecidedSince: number | null;
  gaps: GapItem[];
  cells: CellItem[];
  marks: MarkItem[];
  future: FutureItem[];
  /** The last run that ended, if it failed; it may be outside what is shown. */
  failing: MarkItem | null;
  /** The most that one cell holds: what the others are drawn against. */
  fullest: number;
}

const ms = (text: string): number => Date.parse(text);
const msOrNull = (text: string | null | undefined): number | null => (text ? Date.parse(text) : null);

export function prepare(lane: Lane): DrawnLane {
  const cells = lane.cells.map((cell): CellItem => ({ kind: "cell", at: ms(cell.at), through: ms(cell.through), cell }));
  const future = aheadOf(lane);
  return {
    key: lane.group ? `group ${lane.group.name}` : lane.job,
    job: lane.job,
    group: lane.group,
    trouble: lane.trouble,
    name: lane.name,
    description: lane.description,
    status: lane.status,
    timezone: lane.timezone,
    nextAt: lane.next_at,
    undecidedSince: msOrNull(lane.undecided_since),
    gaps: lane.gaps.map((gap): GapItem => ({
      kind: "gap",
      at: ms(gap.at),
      through: ms(gap.through ?? gap.at),
      run: gap.run,
      occurrences: gap.occurrences,
      reason: gap.reason ?? "skipped",
      detail: gap.detail,
    })),
    cells,
    marks: lane.marks.map(markOf).sort((one, other) => one.at - other.at),
    future,
    failing: lane.failing_run && markOf(lane.failing_run),
    fullest: Math.max(1, ...cells.map((item) => item.cell.count), ...future.map((item) => item.count)),
  };
}

function markOf(mark: Mark): MarkItem {
  return {
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
  };
}

function aheadOf(lane: Lane): FutureItem[] {
  const single = lane.future.map((at): FutureItem => ({ kind: "future", at: ms(at), through: ms(at), count: 1 }));
  const many = lane.future_cells.map((cell): FutureItem => ({ kind: "future", at: ms(cell.at), through: ms(cell.through), count: cell.count }));
  return [...single, ...many].sort((one, other) => one.at - other.at);
}

/** Everything of a lane in the order of time: what the arrow keys walk along. */
export function walkable(lane: DrawnLane): Item[] {
  const { failing } = lane;
  const others = failing && !isAmong(failing, lane) ? [failing] : [];
  return [...lane.gaps, ...lane.cells, ...lane.marks, ...lane.future, ...others].sort((one, other) => one.at - other.at);
}

/** Whether a run is drawn as a mark, or counted in a cell. */
function isAmong(run: MarkItem, { marks, cells }: DrawnLane): boolean {
  return marks.some((mark) => mark.run === run.run) || cells.some((cell) => cell.at <= run.at && run.at <= cell.through);
}

/** The run for which a job is failing, where it lies before or after what is shown: the lane would not say why it is red. */
export function beyond(lane: DrawnLane, { from, to }: Window): MarkItem | null {
  const { failing } = lane;
  return failing && (failing.at < from || failing.at > to) ? failing : null;
}
