/** Draws lanes: gaps below, then lateness and duration, then outcomes, then future occurrences. */

import { STATES, BAD_STATES } from "../ui/outcomes";
import type { Window } from "../time/window";
import { ago } from "../time/words";
import { beyond, walkable, type CellItem, type DrawnLane, type FutureItem, type GapItem, type MarkItem } from "./items";
import { drawShape, type Paint } from "./paint";

export interface Scene {
  pen: CanvasRenderingContext2D;
  paint: Paint;
  window: Window;
  width: number;
  now: number;
}

/** Below this many pixels a shape cannot be told from another: a bar is drawn instead. */
const SHAPE_MIN = 7.5;
const SHAPE_MAX = 13;

export function toX(scene: Scene, at: number): number {
  return ((at - scene.window.from) / (scene.window.to - scene.window.from)) * scene.width;
}

/** Draw a lane whose middle is at `y`, `height` high. */
export function drawLane(scene: Scene, lane: DrawnLane, y: number, height: number): void {
  const { pen, paint, width } = scene;
  pen.fillStyle = paint.color("line");
  pen.fillRect(0, Math.round(y), width, 1);
  if (lane.undecidedSince !== null) drawUndecided(scene, lane.undecidedSince, y);
  for (const gap of lane.gaps) drawGap(scene, gap, y, height);
  for (const cell of lane.cells) drawCell(scene, lane, cell, y, height);
  drawMarks(scene, lane.marks, y, height);
  drawFuture(scene, lane, y, height);
  drawBeyond(scene, lane, y);
}

/** How much of an edge says what lies beyond it. */
export const BEYOND_PX = 118;

/** A failing job whose failure is not in the window says on the edge where it is and how old. */
function drawBeyond(scene: Scene, lane: DrawnLane, y: number): void {
  const run = beyond(lane, scene.window);
  if (!run) return;
  const { pen, paint, window, width } = scene;
  const isBefore = run.at < window.from;
  const [edge, sign] = isBefore ? [0, 1] : [width, -1];
  const label = isBefore ? `${STATES[run.state].word} ${ago(run.at, scene.now)}` : STATES[run.state].word;
  pen.font = `600 11px ${paint.font}`;
  const room = pen.measureText(label).width;
  const isFree = walkable(lane).every((item) => {
    const x = toX(scene, item.at);
    const right = toX(scene, "through" in item ? item.through : item.at);
    return item === run || right < -10 || x > width + 10 || (isBefore ? x > room + 32 : right < width - room - 32);
  });
  pen.fillStyle = paint.color("surface");
  if (isFree) pen.fillRect(isBefore ? 0 : width - room - 26, y - 9, room + 26, 18);
  pen.fillStyle = paint.color(STATES[run.state].color);
  pen.beginPath();
  pen.moveTo(edge + sign * 5, y + 0.5);
  pen.lineTo(edge + sign * 13, y - 5);
  pen.lineTo(edge + sign * 13, y + 6);
  pen.fill();
  if (!isFree) return;
  pen.textAlign = isBefore ? "left" : "right";
  pen.textBaseline = "middle";
  pen.fillText(label, edge + sign * 19, y + 1);
}

function isShown(scene: Scene, at: number, through: number): boolean {
  const margin = (scene.window.to - scene.window.from) * 0.02;
  return through >= scene.window.from - margin && at <= scene.window.to + margin;
}

function drawUndecided(scene: Scene, since: number, y: number): void {
  const left = Math.max(0, toX(scene, since));
  const right = Math.min(scene.width, toX(scene, scene.now));
  if (right - left < 2) return;
  const { pen, paint } = scene;
  pen.strokeStyle = paint.color("line-strong");
  pen.lineWidth = 2;
  pen.setLineDash([2, 5]);
  pen.beginPath();
  pen.moveTo(left, y + 0.5);
  pen.lineTo(right, y + 0.5);
  pen.stroke();
  pen.setLineDash([]);
}

function drawGap(scene: Scene, gap: GapItem, y: number, height: number): void {
  if (!isShown(scene, gap.at, gap.through)) return;
  const { pen, paint } = scene;
  const left = Math.max(-10, toX(scene, gap.at) - 3);
  const right = Math.min(scene.width + 10, toX(scene, gap.through) + 3);
  const tall = Math.min(16, height - 10);
  pen.beginPath();
  pen.roundRect(left, y - tall / 2, Math.max(right - left, 6), tall, 4);
  pen.fillStyle = paint.color("skipped-soft");
  pen.fill();
  pen.fillStyle = paint.gapHatch;
  pen.globalAlpha = 0.45;
  pen.fill();
  pen.globalAlpha = 1;
  pen.strokeStyle = paint.color("skipped");
  pen.lineWidth = 1;
  pen.stroke();
  const label = `${gap.occurrences.toLocaleString("en")} × ${gap.reason}`;
  pen.font = `600 11px ${paint.font}`;
  const room = pen.measureText(label).width + 16;
  const [seenLeft, seenRight] = [Math.max(left, 0), Math.min(right, scene.width)];
  if (seenRight - seenLeft > room + 12) {
    const middle = (seenLeft + seenRight) / 2;
    pen.fillStyle = paint.color("skipped-soft");
    pen.fillRect(middle - room / 2, y - tall / 2 + 1, room, tall - 2);
    pen.fillStyle = paint.color("ink-2");
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.fillText(label, middle, y + 0.5);
  }
}

function drawCell(scene: Scene, lane: DrawnLane, item: CellItem, y: number, height: number): void {
  if (!isShown(scene, item.at, item.through)) return;
  const { pen, paint } = scene;
  const { cell } = item;
  const left = toX(scene, item.at);
  const right = toX(scene, Math.min(item.through, Math.max(scene.now, item.at)));
  const wide = Math.max(right - left - 1, 2);
  const tallest = height - 10;
  const tall = 5 + (tallest - 10) * (Math.log1p(cell.count) / Math.log1p(lane.fullest));
  let bottom = y + tallest / 2;
  const stack: [number, string, boolean][] = [
    [cell.skipped, "skipped", true],
    [cell.waiting, "waiting", false],
    [cell.cancelled, "cancelled", false],
    [cell.running, "running", false],
    [cell.succeeded, "succeeded", false],
    [cell.failed, "failed", false],
  ];
  for (const [count, color, isHatched] of stack) {
    if (!count) continue;
    // A failure is never paler for being one among thousands: it has at least half of its column, solid.
    const part = color === "failed" ? Math.max((tall * count) / cell.count, tall / 2, 8) : Math.max((tall * count) / cell.count, 1.5);
    pen.fillStyle = isHatched ? paint.gapHatch : paint.color(color);
    pen.globalAlpha = color === "failed" ? 1 : 0.82;
    const extra = color === "failed" ? Math.max(0, 3 - wide) / 2 : 0;
    pen.fillRect(left - extra, Math.max(bottom - part, y - tallest / 2), wide + 2 * extra, part);
    pen.globalAlpha = 1;
    if (color === "succeeded" && cell.caught_up + cell.backfilled > cell.count / 2) {
      pen.fillStyle = cell.caught_up >= cell.backfilled ? paint.hatch : paint.counterHatch;
      pen.fillRect(left, bottom - part, wide, part);
    }
    bottom -= part;
  }
}

function drawMarks(scene: Scene, marks: MarkItem[], y: number, height: number): void {
  const shown = marks.filter((mark) => isShown(scene, Math.min(mark.at, mark.start ?? mark.at), Math.max(mark.at, mark.end ?? 0, mark.end === null && mark.start !== null ? scene.now : 0)));
  if (!shown.length) return;
  const size = shapeSize(scene, shown);
  for (const mark of shown) drawCourse(scene, mark, y, height, size);
  // Failures are drawn last, so that successes never hide them.
  for (const isBad of [false, true]) {
    for (const mark of shown) {
      if (BAD_STATES.includes(mark.state) === isBad) drawMark(scene, mark, y, height, size);
    }
  }
}

function shapeSize(scene: Scene, items: readonly { at: number }[]): number {
  const first = items[0];
  const last = items.at(-1);
  if (!first || !last || items.length < 2) return SHAPE_MAX;
  const apart = (toX(scene, last.at) - toX(scene, first.at)) / (items.length - 1);
  return Math.min(Math.max(apart * 0.9, 2), SHAPE_MAX);
}

/** How late it started, as a tail; how long it took, as a bar. */
function drawCourse(scene: Scene, mark: MarkItem, y: number, height: number, size: number): void {
  if (mark.start === null) return;
  const { pen, paint } = scene;
  const color = paint.color(STATES[mark.state].color);
  const due = toX(scene, mark.at);
  const left = toX(scene, mark.start);
  const right = toX(scene, mark.end ?? scene.now);
  if (left - due > 2) {
    pen.strokeStyle = color;
    pen.globalAlpha = 0.55;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(due, y + 0.5);
    pen.lineTo(left, y + 0.5);
    pen.moveTo(left, y - 4);
    pen.lineTo(left, y + 5);
    pen.stroke();
    pen.globalAlpha = 1;
  }
  // A bar that its own mark would cover says nothing.
  if (right - left < Math.max(4, size * 1.1)) return;
  const tall = Math.min(12, height - 14);
  pen.beginPath();
  pen.roundRect(left, y - tall / 2 + 0.5, right - left, tall, Math.min(tall / 2, (right - left) / 2));
  // A failure is solid at every zoom.
  pen.fillStyle = BAD_STATES.includes(mark.state) ? color : paint.color(`${STATES[mark.state].color}-soft`);
  pen.fill();
  if (mark.trigger === "catchup" || mark.trigger === "backfill") {
    pen.globalAlpha = 0.5;
    pen.fillStyle = color;
    pen.fill();
    pen.globalAlpha = 1;
    pen.fillStyle = mark.trigger === "catchup" ? paint.hatch : paint.counterHatch;
    pen.fill();
  }
  pen.strokeStyle = color;
  pen.lineWidth = 1.2;
  pen.stroke();
}

function drawMark(scene: Scene, mark: MarkItem, y: number, height: number, size: number): void {
  const { pen, paint } = scene;
  const look = STATES[mark.state];
  const color = paint.color(look.color);
  const x = toX(scene, mark.at);
  const isBad = BAD_STATES.includes(mark.state);
  const pattern = mark.trigger === "catchup" ? paint.hatch : mark.trigger === "backfill" ? paint.counterHatch : null;
  if (size >= SHAPE_MIN) {
    drawShape(pen, look.shape, x, y + 0.5, size, color, paint.color("surface"), pattern);
    return;
  }
  // Bars only: the pale rims of shapes that lie closer than they are wide would wipe each other out.
  const tall = mark.state === "skipped" ? 7 : isBad ? height - 8 : Math.min(14, height - 12);
  const wide = Math.max(isBad ? 3 : 1.5, size * 0.6);
  pen.fillStyle = color;
  if (mark.state === "skipped" || mark.state === "planned" || mark.state === "waiting") {
    pen.globalAlpha = 0.6;
  }
  pen.fillRect(x - wide / 2, y - tall / 2, wide, tall);
  if (pattern) {
    pen.fillStyle = pattern;
    pen.fillRect(x - wide / 2, y - tall / 2, wide, tall);
  }
  pen.globalAlpha = 1;
}

/** What is to come: single occurrences as rings, as long as they can be told apart, else how many there are as a density. */
function drawFuture(scene: Scene, lane: DrawnLane, y: number, height: number): void {
  const { pen, paint } = scene;
  const shown = lane.future.filter((item) => isShown(scene, item.at, item.through));
  if (!shown.length) return;
  const size = shapeSize(scene, shown);
  const isHeld = lane.status === "paused" || lane.status === "disabled";
  const color = paint.color(isHeld ? "line-strong" : "planned");
  const isSingle = shown.every((item) => item.through === item.at);
  if (isSingle && size >= SHAPE_MIN) {
    for (const item of shown) drawShape(pen, "ring", toX(scene, item.at), y + 0.5, Math.min(size, 11), color, paint.color("surface"), null);
    return;
  }
  drawDensity(scene, isSingle ? binned(scene, shown) : shown, y, height, color);
}

const BIN_PX = 12;

/** Occurrences that are too close to be drawn singly, counted by strips of the screen. */
function binned(scene: Scene, items: FutureItem[]): FutureItem[] {
  const span = (scene.window.to - scene.window.from) * (BIN_PX / scene.width);
  const counts = new Map<number, number>();
  for (const { at } of items) counts.set(Math.floor(at / span), (counts.get(Math.floor(at / span)) ?? 0) + 1);
  return [...counts].map(([bin, count]) => ({ kind: "future", at: bin * span, through: (bin + 1) * span, count }));
}

function drawDensity(scene: Scene, items: FutureItem[], y: number, height: number, color: string): void {
  const { pen, now } = scene;
  const tallest = height - 12;
  const fullest = Math.max(...items.map((item) => item.count / Math.max(item.through - item.at, 1)));
  pen.fillStyle = color;
  for (const item of items) {
    const left = Math.max(toX(scene, item.at), toX(scene, now));
    const share = item.count / Math.max(item.through - item.at, 1) / fullest;
    pen.globalAlpha = 0.12 + 0.3 * share;
    pen.fillRect(left, y - tallest / 2, Math.max(toX(scene, item.through) - left, 1), tallest);
  }
  pen.globalAlpha = 1;
}
