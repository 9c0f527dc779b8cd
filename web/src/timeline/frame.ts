/** What surrounds the lanes: the axis, the lines of time, the line for now. */

import { edgeLabel, ticks } from "../time/axis";
import { clock } from "../time/words";
import { toX, type Scene } from "./draw";

export const AXIS_HEIGHT = 44;

/** The ground of the lanes: what is to come is a shade darker, round times have a line. */
export function drawGround(scene: Scene, height: number, zone: string): void {
  const { pen, paint, window, width, now } = scene;
  pen.fillStyle = paint.color("surface");
  pen.fillRect(0, 0, width, height);
  const nowX = toX(scene, now);
  if (nowX < width) {
    pen.fillStyle = paint.color("sunken");
    pen.globalAlpha = 0.55;
    pen.fillRect(Math.max(0, nowX), 0, width - Math.max(0, nowX), height);
    pen.globalAlpha = 1;
  }
  for (const tick of ticks(window.from, window.to, width, zone)) {
    pen.fillStyle = paint.color(tick.isMajor ? "line-strong" : "line");
    pen.globalAlpha = tick.isMajor ? 0.8 : 0.7;
    pen.fillRect(Math.round(toX(scene, tick.at)), 0, 1, height);
  }
  pen.globalAlpha = 1;
}

/** While no scheduler ran: one band across all lanes. */
export function drawDowntimes(scene: Scene, height: number, downtimes: readonly { at: number; through: number | null }[]): void {
  const { pen, paint, width, now } = scene;
  for (const { at, through } of downtimes) {
    const [left, right] = [Math.max(-4, toX(scene, at)), Math.min(width + 4, toX(scene, through ?? now))];
    if (right < 0 || left > width) continue;
    pen.globalAlpha = 0.16;
    pen.fillStyle = paint.color("timed-out");
    pen.fillRect(left, 0, Math.max(right - left, 3), height);
    pen.globalAlpha = 0.75;
    pen.fillRect(left, 0, 1.5, height);
    pen.fillRect(Math.max(right, left + 3) - 1.5, 0, 1.5, height);
    pen.globalAlpha = 1;
  }
}

/** The same on the axis, with a word where there is room for it. */
function labelDowntimes(scene: Scene, downtimes: readonly { at: number; through: number | null }[]): void {
  const { pen, paint, width, now } = scene;
  for (const { at, through } of downtimes) {
    const [left, right] = [Math.max(0, toX(scene, at)), Math.min(width, toX(scene, through ?? now))];
    if (right <= 0 || left >= width) continue;
    pen.fillStyle = paint.color("timed-out");
    pen.fillRect(left, AXIS_HEIGHT - 4, Math.max(right - left, 3), 4);
    pen.font = `600 11px ${paint.font}`;
    if (pen.measureText(DOWN).width + 8 > right - left || left < 120) continue;
    pen.textAlign = "center";
    pen.textBaseline = "alphabetic";
    pen.fillText(DOWN, (left + right) / 2, 17);
  }
}

const DOWN = "scheduler down";

export function drawNow(scene: Scene, height: number): void {
  const x = toX(scene, scene.now);
  if (x < -2 || x > scene.width + 2) return;
  scene.pen.fillStyle = scene.paint.color("now");
  scene.pen.fillRect(Math.round(x) - 1, 0, 2, height);
}

export function drawAxis(scene: Scene, zone: string, downtimes: readonly { at: number; through: number | null }[]): void {
  const { pen, paint, window, width, now } = scene;
  pen.clearRect(0, 0, width, AXIS_HEIGHT);
  pen.textBaseline = "alphabetic";
  pen.textAlign = "left";
  pen.font = `600 12px ${paint.font}`;
  pen.fillStyle = paint.color("ink-2");
  pen.fillText(edgeLabel(window.from, window.to, zone), 8, 17);
  pen.font = `12px ${paint.font}`;
  let free = -20;
  for (const tick of ticks(window.from, window.to, width, zone)) {
    const x = toX(scene, tick.at);
    const half = pen.measureText(tick.label).width / 2;
    pen.fillStyle = paint.color("line-strong");
    pen.fillRect(Math.round(x), AXIS_HEIGHT - 6, 1, 6);
    if (x - half < free || x - half < 4 || x + half > width - 4) continue;
    pen.fillStyle = paint.color(tick.isMajor ? "ink" : "ink-3");
    pen.textAlign = "center";
    pen.fillText(tick.label, x, AXIS_HEIGHT - 11);
    free = x + half + 10;
  }
  labelDowntimes(scene, downtimes);
  drawNowLabel(scene, toX(scene, now), clock(Math.floor(now / 1000) * 1000, zone));
}

function drawNowLabel(scene: Scene, x: number, text: string): void {
  const { pen, paint, width } = scene;
  if (x < -40 || x > width + 40) return;
  pen.font = `650 11px ${paint.font}`;
  const wide = pen.measureText(text).width + 14;
  const left = Math.min(Math.max(x - wide / 2, 2), width - wide - 2);
  pen.fillStyle = paint.color("now");
  pen.beginPath();
  pen.roundRect(left, 4, wide, 18, 9);
  pen.fill();
  pen.fillRect(Math.round(x) - 1, 20, 2, AXIS_HEIGHT - 20);
  pen.fillStyle = paint.color("surface");
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillText(text, left + wide / 2, 13.5);
}
