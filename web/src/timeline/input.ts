/** Input on the timeline: wheel, drag, pinch and keys. */

import { askedBulk } from "../actions";
import { may } from "../state/session";
import { go, jobPath, runPath } from "../state/route";
import { nowMs } from "../state/now";
import { spanOf } from "../time/window";
import { hideTip, showTip } from "../ui/tip";
import { say } from "../ui/toast";
import { BEYOND_PX } from "./draw";
import type { Engine, Parts, Spot } from "./engine";
import { beyond, walkable, type DrawnLane, type Item } from "./items";
import { itemAt, tell } from "./words";

const CLICK_PX = 4;

export function open(lane: DrawnLane, item: Item): void {
  if (lane.group) toggleGroup(lane.group.name);
  else if (item.kind === "mark") go(item.state === "skipped" ? whyPath(lane.job, item.at) : runPath(item.run));
  else if (item.kind === "gap" || item.kind === "future") go(whyPath(lane.job, item.at));
  else go(jobPath(lane.job));
}

/** Show the lanes of a group, or fold them into one again. */
export function toggleGroup(name: string): void {
  const query = new URLSearchParams(location.search);
  const open = query.getAll("open");
  query.delete("open");
  for (const one of open.includes(name) ? open.filter((other) => other !== name) : [...open, name]) query.append("open", one);
  go(`${location.pathname}?${query}`, true);
}

export function whyPath(job: string, at: number): string {
  return `${jobPath(job)}?tab=ledger&at=${encodeURIComponent(new Date(at).toISOString())}`;
}

export function listenToHands(engine: Engine, { scroll, canvas, axis }: Parts): () => void {
  const stop = new AbortController();
  const on = <K extends keyof HTMLElementEventMap>(target: HTMLElement, name: K, handle: (event: HTMLElementEventMap[K]) => void) =>
    target.addEventListener(name, handle as EventListener, { signal: stop.signal, passive: false });
  const fingers = new Map<number, { x: number; y: number }>();
  let isDragging = false;
  let travelled = 0;
  /** Where a choice of a period began. */
  let anchor: { at: number; lane: number } | null = null;

  const placeOf = (x: number) => (x - canvas.getBoundingClientRect().left) / engine.width;
  const wheel = (event: WheelEvent, isAxis: boolean) => {
    const unit = event.deltaMode === 1 ? 16 : 1;
    const canScroll = scroll.scrollHeight > scroll.clientHeight + 1;
    if (event.ctrlKey || event.metaKey || isAxis || (!canScroll && !event.shiftKey && Math.abs(event.deltaY) > Math.abs(event.deltaX))) {
      event.preventDefault();
      engine.zoomBy(Math.exp(event.deltaY * unit * (event.ctrlKey ? 0.01 : 0.002)), placeOf(event.clientX), false);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      engine.pan((event.deltaX || event.deltaY) * unit);
    }
  };
  on(scroll, "wheel", (event) => wheel(event, false));
  on(axis, "wheel", (event) => wheel(event, true));
  on(scroll, "scroll", () => (hideTip(), engine.changed()));

  // All of the lanes, not only what is drawn: on a narrow screen names lie over it, and a finger may land on one.
  for (const surface of [scroll, axis]) {
    const isDrawn = (event: PointerEvent | MouseEvent) => surface === scroll && event.target === canvas;
    on(surface, "pointerdown", (event) => {
      if (event.button !== 0 || (event.pointerType === "mouse" && event.target !== canvas && surface !== axis)) return;
      if (isDrawn(event) && (event.shiftKey || engine.isChoosing.value)) {
        anchor = placeIn(event);
        surface.setPointerCapture(event.pointerId);
        return choose(event);
      }
      fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      isDragging = true;
      travelled = 0;
    });
    on(surface, "pointermove", (event) => {
      if (anchor) return choose(event);
      const before = fingers.get(event.pointerId);
      if (!isDragging || !before) return isDrawn(event) ? hover(event) : undefined;
      const here = { x: event.clientX, y: event.clientY };
      const others = [...fingers].filter(([id]) => id !== event.pointerId).map(([, place]) => place);
      const other = others[0];
      travelled += Math.abs(here.x - before.x) + Math.abs(here.y - before.y);
      if (travelled > CLICK_PX && !surface.hasPointerCapture(event.pointerId)) surface.setPointerCapture(event.pointerId);
      if (other) {
        const [old, fresh] = [Math.abs(before.x - other.x), Math.abs(here.x - other.x)].map((size) => Math.max(size, 20)) as [number, number];
        engine.zoomBy(old / fresh, placeOf((here.x + other.x) / 2), false);
      } else if (travelled > CLICK_PX) {
        hideTip();
        engine.pan(before.x - here.x);
        if (event.pointerType === "mouse" && surface === scroll) scroll.scrollTop += before.y - here.y;
      }
      fingers.set(event.pointerId, here);
    });
    const release = (event: PointerEvent) => {
      fingers.delete(event.pointerId);
      isDragging = fingers.size > 0;
    };
    on(surface, "pointerup", (event) => {
      if (anchor) {
        anchor = null;
        engine.isChoosing.value = false;
        return act(engine);
      }
      const found = isDrawn(event) && travelled <= CLICK_PX ? spotAt(event) : null;
      release(event);
      const lane = found && engine.lanes.lane(found.lane);
      if (found && lane) open(lane, found.item);
    });
    on(surface, "pointercancel", (event) => {
      anchor = engine.chosen = null;
      release(event);
    });
    on(surface, "dblclick", (event) => (isDrawn(event) || surface === axis) && engine.zoomBy(0.4, placeOf(event.clientX)));
  }
  on(canvas, "pointerleave", hideTip);

  function placeIn(event: PointerEvent): { at: number; lane: number } {
    const box = canvas.getBoundingClientRect();
    const at = engine.window.from + ((event.clientX - box.left) * spanOf(engine.window)) / engine.width;
    return { at, lane: Math.max(0, Math.floor((event.clientY - box.top + scroll.scrollTop) / engine.laneHeight)) };
  }

  function choose(event: PointerEvent): void {
    if (!anchor) return;
    const here = placeIn(event);
    const last = Math.max(0, (engine.lanes.total ?? 1) - 1);
    hideTip();
    engine.chosen = {
      from: Math.min(anchor.at, here.at),
      to: Math.max(anchor.at, here.at),
      first: Math.min(anchor.lane, here.lane, last),
      last: Math.min(Math.max(anchor.lane, here.lane), last),
    };
    engine.request();
  }

  function spotAt(event: PointerEvent): Spot | null {
    const box = canvas.getBoundingClientRect();
    const index = Math.floor((event.clientY - box.top + scroll.scrollTop) / engine.laneHeight);
    const lane = engine.lanes.lane(index);
    if (!lane) return null;
    const perPixel = spanOf(engine.window) / engine.width;
    const item = itemAt(lane, engine.window.from + (event.clientX - box.left) * perPixel, perPixel);
    const edge = beyond(lane, engine.window);
    const isAtEdge = edge && (edge.at < engine.window.from ? event.clientX - box.left < BEYOND_PX : box.right - event.clientX < BEYOND_PX);
    const found = item ?? (isAtEdge ? edge : null);
    return found ? { lane: index, item: found } : null;
  }

  function hover(event: PointerEvent): void {
    const found = spotAt(event);
    const lane = found && engine.lanes.lane(found.lane);
    canvas.style.cursor = engine.isChoosing.value ? "crosshair" : found ? "pointer" : "grab";
    if (!found || !lane) return hideTip();
    const y = engine.middleOf(found.lane) - scroll.scrollTop + canvas.getBoundingClientRect().top;
    showTip(tell(lane, found.item, nowMs()), event.clientX, y - 4);
  }

  return () => stop.abort();
}

/** Ask what to do with a period of some jobs: the one that was dragged over, else all that is shown. */
export function act(engine: Engine): void {
  const chosen = engine.chosen ?? { ...engine.window, first: engine.first, last: engine.last };
  engine.chosen = null;
  engine.request();
  if (!may("operator")) return;
  const lanes = [];
  for (let index = chosen.first; index <= chosen.last; index++) lanes.push(engine.lanes.lane(index));
  const jobs = lanes.flatMap((lane) => lane?.job || []);
  if (lanes.some((lane) => lane?.group && !lane.group.is_open)) say("Folded groups are left out. Open a group to act on its jobs.");
  if (!jobs.length) return;
  askedBulk.value = { action: "retry", jobs, from: new Date(chosen.from).toISOString(), to: new Date(Math.min(chosen.to, nowMs())).toISOString() };
}

/** Keys while the timeline has the focus; true when one was used. */
export function useKey(engine: Engine, scroll: HTMLElement, event: KeyboardEvent): boolean {
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  switch (event.key) {
    case "+":
    case "=":
      return done(engine.zoomBy(0.5));
    case "-":
    case "_":
      return done(engine.zoomBy(2));
    case "0":
    case "n":
      return done(engine.follow());
    case "ArrowLeft":
    case "ArrowRight": {
      const sign = event.key === "ArrowLeft" ? -1 : 1;
      return done(event.shiftKey ? engine.panBy(sign * 0.25) : step(engine, scroll, sign));
    }
    case "ArrowUp":
      return done(changeLane(engine, scroll, -1));
    case "ArrowDown":
      return done(changeLane(engine, scroll, 1));
    case "a":
      return done(act(engine));
    case "Enter": {
      const spot = engine.spot.value;
      const lane = spot && engine.lanes.lane(spot.lane);
      if (spot && lane) open(lane, spot.item);
      return !!spot;
    }
    case "Escape":
      return engine.spot.value !== null && done((engine.spot.value = null));
    default:
      return false;
  }
}

function done(_result: unknown): true {
  return true;
}

function select(engine: Engine, scroll: HTMLElement, lane: number, item: Item): void {
  engine.spot.value = { lane, item };
  const top = lane * engine.laneHeight;
  if (top < scroll.scrollTop) scroll.scrollTop = top;
  if (top + engine.laneHeight > scroll.scrollTop + engine.height) scroll.scrollTop = top + engine.laneHeight - engine.height;
  engine.reveal(item.at);
}

function step(engine: Engine, scroll: HTMLElement, sign: number): void {
  const spot = engine.spot.value;
  if (!spot) return changeLane(engine, scroll, 0);
  const lane = engine.lanes.lane(spot.lane);
  if (!lane) return;
  const items = walkable(lane);
  const here = items.findIndex((item) => item.at === spot.item.at && item.kind === spot.item.kind);
  const next = items[here + sign];
  if (next) select(engine, scroll, spot.lane, next);
}

/** The lane above or below, at what is nearest in time there; lanes without anything are passed over. */
function changeLane(engine: Engine, scroll: HTMLElement, sign: number): void {
  const spot = engine.spot.value;
  const total = engine.lanes.total ?? 0;
  const at = spot?.item.at ?? nowMs();
  const begin = spot ? spot.lane + sign : engine.first;
  for (let index = begin; index >= 0 && index < total; index += sign || 1) {
    const lane = engine.lanes.lane(index);
    if (!lane) return void (scroll.scrollTop = index * engine.laneHeight);
    const nearest = walkable(lane).sort((one, other) => Math.abs(one.at - at) - Math.abs(other.at - at))[0];
    if (nearest) return select(engine, scroll, index, nearest);
  }
}
