/** What is under the pointer or the keyboard's place, in words. */

import { LOCAL_ZONE } from "../state/zone";
import { counted, everywhere, span } from "../time/words";
import { REASONS, STATES, TRIGGERS } from "../ui/outcomes";
import type { DrawnLane, Item } from "./items";

export function tell(lane: DrawnLane, item: Item, now: number): string {
  const times = everywhere(item.at, LOCAL_ZONE, lane.timezone);
  return [headline(item, now), ...details(item, now), ...times].join("\n");
}

/** One line, for screen readers. */
export function tellShort(lane: DrawnLane, item: Item, now: number): string {
  return [lane.name, headline(item, now), ...details(item, now), everywhere(item.at, LOCAL_ZONE, lane.timezone)[0]].join(", ");
}

function headline(item: Item, now: number): string {
  switch (item.kind) {
    case "mark":
      return `${STATES[item.state].word} · ${TRIGGERS[item.trigger]}`;
    case "gap":
      return `${counted(item.occurrences, "occurrence")} skipped: ${item.reason}`;
    case "cell":
      return `${counted(item.cell.count, "occurrence")}`;
    case "future":
      return item.count > 1 ? `${counted(item.count, "occurrence")} scheduled` : `Due in ${span(Math.max(0, item.at - now))}`;
  }
}

function details(item: Item, now: number): string[] {
  const lines: string[] = [];
  if (item.kind === "mark") {
    if (item.reason) lines.push(REASONS[item.reason] ?? item.reason);
    if (item.start !== null) lines.push(`${item.end === null ? "running for" : "took"} ${span((item.end ?? now) - item.start)}`);
    if (item.lateness !== null && item.lateness >= 0.001) lines.push(`started ${span(item.lateness * 1000)} late`);
    if (item.attempt > 1) lines.push(`attempt ${item.attempt}`);
  } else if (item.kind === "gap") {
    lines.push(item.detail || REASONS[item.reason] || "");
    lines.push(`over ${span(item.through - item.at)}`);
  } else if (item.kind === "cell") {
    const { succeeded, failed, skipped, cancelled, running, waiting, caught_up: caughtUp, backfilled } = item.cell;
    const parts = [
      [succeeded, "succeeded"], [failed, "failed"], [skipped, "skipped"], [cancelled, "cancelled"], [running, "running"], [waiting, "waiting"],
      [caughtUp, "caught up"], [backfilled, "backfilled"],
    ] as const;
    lines.push(parts.filter(([count]) => count).map(([count, word]) => `${count.toLocaleString("en")} ${word}`).join(" · "));
    lines.push("zoom in for single runs");
  }
  return lines.filter(Boolean);
}

const HIT_PX = 8;

/** What lies under a point of a lane: the nearest mark, else a gap that reaches over it. */
export function itemAt(lane: DrawnLane, at: number, perPixel: number): Item | null {
  const reach = HIT_PX * perPixel;
  let best: Item | null = null;
  let distance = reach;
  for (const item of [...lane.marks, ...lane.future]) {
    const nearest = Math.max(item.at - at, at - ("through" in item ? item.through : item.at), 0);
    if (nearest <= distance && (nearest < distance || !best)) [best, distance] = [item, nearest];
  }
  if (best) return best;
  const course = lane.marks.find((mark) => mark.start !== null && mark.start <= at && at <= (mark.end ?? Date.now()));
  return (
    course ??
    lane.cells.find((cell) => cell.at <= at && at <= cell.through) ??
    lane.gaps.find((gap) => gap.at - reach <= at && at <= gap.through + reach) ??
    null
  );
}
