/** What the timeline asks for: which lanes, and which period in how many columns. */

import { withQuery } from "../api/address";
import type { TimelineGroup, TimelineSort } from "../api/types";
import { around, columnsOf, DEFAULT_SPAN, type Columns, type Window } from "../time/window";

export const BLOCK = 30;
/** Screen pixels that one column of an answer has at least. */
const COLUMN_PX = 7;
const COLUMNS_MIN = 40;
const COLUMNS_MAX = 1_000;

export const SORTS: readonly (readonly [TimelineSort, string])[] = [
  ["worst", "Worst first"],
  ["name", "By name"],
  ["tag", "By tag"],
  ["next", "By next start"],
];
export const GROUPS: readonly (readonly [TimelineGroup, string])[] = [
  ["none", "No groups"],
  ["health", "Fold healthy jobs"],
  ["tag", "Group by tag"],
];

export interface Filter {
  search: string;
  tag: string;
  state: string;
  sort: TimelineSort;
  group: TimelineGroup;
  /** Groups that show all of their lanes. */
  open: readonly string[];
}

/** What the address asks for; the first where it asks for nothing that there is. */
function pick<T extends string>(options: readonly (readonly [T, string])[], asked: string | null): T {
  return (options.find(([value]) => value === asked) ?? (options[0] as readonly [T, string]))[0];
}

export function filterOf(query: URLSearchParams): Filter {
  return {
    search: query.get("search") ?? "",
    tag: query.get("tag") ?? "",
    state: query.get("state") ?? "",
    sort: pick(SORTS, query.get("sort")),
    group: pick(GROUPS, query.get("group")),
    open: query.getAll("open"),
  };
}

/** The period that the address names; `at` is null where it follows the current time. */
export function periodOf(query: URLSearchParams): { span: number | null; at: number | null } {
  const at = Date.parse(query.get("at") ?? "");
  return { span: Number(query.get("span")) || null, at: Number.isNaN(at) ? null : at };
}

export function windowOf({ span, at }: { span: number | null; at: number | null }, now: number): Window {
  const wide = span ?? DEFAULT_SPAN;
  return at === null ? around(now, wide) : around(at, wide, 0.5);
}

/** A little more than is shown, in columns that suit the width of the screen. */
export function columnsFor(window: Window, width: number): Columns {
  return columnsOf(window, Math.min(Math.max(COLUMNS_MIN, Math.round((2 * width) / COLUMN_PX)), COLUMNS_MAX));
}

export function firstBlock(query: URLSearchParams, now: number, width: number): Columns {
  return columnsFor(windowOf(periodOf(query), now), width);
}

/** The period moves on with the time: an answer is much like the one before, whatever its period. */
export const timelineName = (block: number): string => `/timeline ${block}`;

export function timelineQuestion(filter: Filter | URLSearchParams, columns: Columns, block = 0): string {
  const { search, tag, state, sort, group, open } = filter instanceof URLSearchParams ? filterOf(filter) : filter;
  const [from, to] = [columns.from, columns.to].map((at) => new Date(at).toISOString());
  return withQuery("/timeline", { from, to, offset: block * BLOCK, limit: BLOCK, cells: columns.cells, search, tag, state, sort, group, open });
}
