/** The engine of the timeline: knows what is visible, reads it, and draws it when something has changed. */

import { signal } from "@preact/signals";
import { keep } from "../state/kept";
import { nowMs } from "../state/now";
import { shownZone } from "../state/zone";
import type { Timeline } from "../api/types";
import { around, fittingSpan, NOW_PLACE, shift, spanOf, zoom, type Window } from "../time/window";
import { drawLane, toX, type Scene } from "./draw";
import { AXIS_HEIGHT, drawAxis, drawDowntimes, drawGround, drawNow } from "./frame";
import type { DrawnLane, Item } from "./items";
import { Lanes } from "./lanes";
import { windowOf, type Filter } from "./question";
import { readPaint, type Paint } from "./paint";

export interface Parts {
  scroll: HTMLElement;
  canvas: HTMLCanvasElement;
  axis: HTMLCanvasElement;
}

export interface Spot {
  lane: number;
  item: Item;
}

/** A period of some lanes: times in milliseconds, numbers of lanes. */
export interface Chosen {
  from: number;
  to: number;
  first: number;
  last: number;
}

const GLIDE_MS = 200;
/** Below this span the line for now moves visibly within a second, and every frame is drawn. */
const SMOOTH_SPAN = 180_000;

export class Engine {
  window: Window;
  readonly lanes: Lanes;
  /** Grows with each change that the names, the table or the toolbar show. */
  readonly version = signal(0);
  readonly isFollowing = signal(true);
  readonly spot = signal<Spot | null>(null);
  /** Whether a drag chooses a period of some jobs instead of moving. */
  readonly isChoosing = signal(false);
  chosen: Chosen | null = null;
  laneHeight = 30;
  width = 0;
  height = 0;
  private paint: Paint | null = null;
  private frame = 0;
  private glide: { from: Window; to: Window; since: number } | null = null;
  private clock: number;
  private isGone = false;
  /** Whether the visible period was not chosen yet. */
  private isUnasked: boolean;

  constructor(
    private parts: Parts,
    filter: Filter,
    span: number | null,
    at: number | null,
  ) {
    this.isFollowing.value = at === null;
    this.isUnasked = span === null;
    this.window = windowOf({ span, at }, nowMs());
    this.lanes = new Lanes(filter, () => this.changed(), (answer) => this.settle(answer));
    this.clock = window.setInterval(() => !document.hidden && this.request(), 1_000);
    this.resize();
  }

  destroy(): void {
    this.isGone = true;
    this.lanes.stop();
    clearInterval(this.clock);
    cancelAnimationFrame(this.frame);
  }

  // --- what is looked at

  get first(): number {
    return Math.floor(this.parts.scroll.scrollTop / this.laneHeight);
  }

  get last(): number {
    return Math.ceil((this.parts.scroll.scrollTop + this.height) / this.laneHeight);
  }

  get span(): number {
    return spanOf(this.glide?.to ?? this.window);
  }

  move(to: Window, isGliding = false): void {
    this.isFollowing.value = false;
    this.steer(to, isGliding);
  }

  pan(pixels: number): void {
    this.glide = null;
    this.move(shift(this.window, (pixels / this.width) * spanOf(this.window)));
  }

  panBy(share: number): void {
    const base = this.glide?.to ?? this.window;
    this.move(shift(base, share * spanOf(base)), true);
  }

  zoomBy(factor: number, place?: number, isGliding = true): void {
    const base = this.glide?.to ?? this.window;
    // Around now while it is followed, so that zooming does not lose it.
    const held = this.isFollowing.value ? NOW_PLACE : (place ?? 0.5);
    this.steer(zoom(base, factor, held), isGliding);
  }

  showSpan(span: number): void {
    const base = this.glide?.to ?? this.window;
    if (this.isFollowing.value) this.steer(around(nowMs(), span), true);
    else this.steer(zoom(base, span / spanOf(base), 0.5), true);
  }

  follow(): void {
    this.isFollowing.value = true;
    this.steer(around(nowMs(), this.span), true);
  }

  reveal(at: number): void {
    const { from, to } = this.window;
    const edge = spanOf(this.window) * 0.05;
    if (at < from + edge || at > to - edge) this.move(around(at, spanOf(this.window), 0.5), true);
    else this.request();
  }

  /** The first result shows how much history there is. */
  private settle(answer: Timeline): void {
    if (!this.isUnasked || !this.isFollowing.value) return;
    this.isUnasked = false;
    const { from, to } = this.window;
    const isShown = (text: string) => Date.parse(text) >= from && Date.parse(text) <= to;
    const shown = answer.lanes.reduce(
      (sum, lane) => sum + lane.gaps.length + [...lane.marks, ...lane.cells].filter((one) => isShown(one.at)).length + lane.future.filter(isShown).length + lane.future_cells.length,
      0,
    );
    const age = answer.since === null ? null : Date.parse(answer.now) - Date.parse(answer.since);
    const span = fittingSpan(age, answer.lanes.length, shown);
    if (span !== this.span) this.steer(around(nowMs(), span), false);
  }

  private steer(to: Window, isGliding: boolean): void {
    this.isUnasked = false;
    const isStill = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (isGliding && !isStill) this.glide = { from: this.window, to, since: performance.now() };
    else [this.glide, this.window] = [null, to];
    this.changed();
  }

  // --- drawing

  changed(): void {
    this.version.value++;
    this.request();
  }

  repaint(): void {
    this.paint = null;
    this.request();
  }

  resize(): void {
    const { scroll, canvas, axis } = this.parts;
    const ratio = devicePixelRatio || 1;
    this.width = canvas.clientWidth || 1;
    this.height = scroll.clientHeight;
    for (const [element, height] of [[canvas, this.height], [axis, AXIS_HEIGHT]] as const) {
      element.width = Math.round(this.width * ratio);
      element.height = Math.round(height * ratio);
      element.style.height = `${height}px`;
    }
    this.paint = null;
    keep("stage", `${innerWidth}:${this.width}`);
    this.changed();
  }

  request(): void {
    if (!this.frame && !this.isGone) this.frame = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.frame = 0;
    const now = nowMs();
    this.advance(now);
    this.lanes.show({ first: this.first - 2, last: this.last + 2, window: this.glide?.to ?? this.window, width: this.width });
    this.paint ??= readPaint(this.parts.canvas, devicePixelRatio || 1);
    const scene = this.scene(this.parts.canvas, this.paint, now);
    const zone = shownZone();
    drawGround(scene, this.height, zone);
    drawDowntimes(scene, this.height, this.lanes.downtimes);
    const top = this.parts.scroll.scrollTop;
    for (let index = this.first; index <= this.last; index++) {
      const lane = this.lanes.lane(index);
      if (lane) this.drawOne(scene, lane, index, top);
    }
    this.drawChosen(scene, top);
    drawNow(scene, this.height);
    drawAxis(this.scene(this.parts.axis, this.paint, now), zone, this.lanes.downtimes);
    this.tellBusy();
    if (this.glide || (this.isFollowing.value && spanOf(this.window) < SMOOTH_SPAN && !document.hidden)) this.request();
  }

  private tellBusy(): void {
    const stage = this.parts.canvas.parentElement;
    const said = String(this.lanes.isBehind);
    if (stage && stage.getAttribute("aria-busy") !== said) stage.setAttribute("aria-busy", said);
  }

  /** Where in its row a lane is drawn: on narrow screens its name is above it. */
  middleOf(index: number): number {
    const isTall = this.laneHeight > 36;
    return index * this.laneHeight + (isTall ? this.laneHeight - 15 : this.laneHeight / 2);
  }

  private drawOne(scene: Scene, lane: DrawnLane, index: number, top: number): void {
    const y = Math.round(this.middleOf(index) - top);
    const spot = this.spot.value;
    const { pen, paint } = scene;
    if (spot?.lane === index) {
      pen.fillStyle = paint.color("hover");
      pen.globalAlpha = 0.7;
      pen.fillRect(0, index * this.laneHeight - top, this.width, this.laneHeight);
      pen.globalAlpha = 1;
    }
    drawLane(scene, lane, y, Math.min(this.laneHeight, 30));
    if (spot?.lane === index) {
      pen.strokeStyle = paint.color("accent");
      pen.lineWidth = 2;
      pen.beginPath();
      const right = "through" in spot.item ? Math.max(toX(scene, spot.item.through), toX(scene, spot.item.at)) : toX(scene, spot.item.at);
      const left = toX(scene, spot.item.at);
      pen.roundRect(left - 9.5, y - 10, right - left + 19, 21, 6);
      pen.stroke();
    }
  }

  private drawChosen(scene: Scene, top: number): void {
    if (!this.chosen) return;
    const { from, to, first, last } = this.chosen;
    const { pen, paint } = scene;
    const box = [toX(scene, from), first * this.laneHeight - top, toX(scene, to) - toX(scene, from), (last - first + 1) * this.laneHeight] as const;
    pen.fillStyle = pen.strokeStyle = paint.color("accent");
    pen.globalAlpha = 0.14;
    pen.fillRect(...box);
    pen.globalAlpha = 1;
    pen.lineWidth = 1.5;
    pen.strokeRect(...box);
  }

  private scene(canvas: HTMLCanvasElement, paint: Paint, now: number): Scene {
    const pen = canvas.getContext("2d") as CanvasRenderingContext2D;
    const ratio = devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    return { pen, paint, window: this.window, width: this.width, now };
  }

  private advance(now: number): void {
    if (this.glide) {
      const share = Math.min(1, (performance.now() - this.glide.since) / GLIDE_MS);
      const eased = 1 - (1 - share) ** 3;
      const { from, to } = this.glide;
      this.window = { from: from.from + (to.from - from.from) * eased, to: from.to + (to.to - from.to) * eased };
      if (share === 1) this.glide = null;
    } else if (this.isFollowing.value) {
      this.window = around(now, spanOf(this.window));
    }
  }
}
