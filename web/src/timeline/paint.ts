/** Colours and patterns for the canvas, read from the same tokens as the rest of the page. */

import { SHAPES } from "../ui/shapes";
import type { Shape } from "../ui/outcomes";

export interface Paint {
  color: (name: string) => string;
  /** Slanted lines in the ground's colour: laid over what was caught up. */
  hatch: CanvasPattern;
  /** The other way: laid over what was backfilled. */
  counterHatch: CanvasPattern;
  /** Slanted lines in the skip colour: gaps. */
  gapHatch: CanvasPattern;
  font: string;
}

export function readPaint(canvas: HTMLCanvasElement, ratio: number): Paint {
  const probe = document.createElement("i");
  document.body.append(probe);
  const known = new Map<string, string>();
  const color = (name: string): string => {
    let found = known.get(name);
    if (!found) {
      document.body.append(probe);
      probe.style.color = `var(--${name})`;
      found = getComputedStyle(probe).color;
      probe.remove();
      known.set(name, found);
    }
    return found;
  };
  const context = canvas.getContext("2d") as CanvasRenderingContext2D;
  const font = getComputedStyle(document.body).fontFamily;
  return {
    color,
    hatch: slanted(context, color("surface"), 6, 2, ratio, false),
    counterHatch: slanted(context, color("surface"), 6, 2, ratio, true),
    gapHatch: slanted(context, color("skipped"), 7, 1.2, ratio, false),
    font,
  };
}

function slanted(context: CanvasRenderingContext2D, color: string, size: number, width: number, ratio: number, isMirrored: boolean): CanvasPattern {
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(size * ratio);
  const pen = tile.getContext("2d") as CanvasRenderingContext2D;
  const side = tile.width;
  pen.strokeStyle = color;
  pen.lineWidth = width * ratio;
  pen.beginPath();
  for (const shift of [-side, 0, side]) {
    pen.moveTo(shift - 1, isMirrored ? -1 : side + 1);
    pen.lineTo(shift + side + 1, isMirrored ? side + 1 : -1);
  }
  pen.stroke();
  const pattern = context.createPattern(tile, "repeat") as CanvasPattern;
  pattern.setTransform(new DOMMatrix().scale(1 / ratio));
  return pattern;
}

const paths = new Map<string, Path2D>();

function path(data: string): Path2D {
  let found = paths.get(data);
  if (!found) paths.set(data, (found = new Path2D(data)));
  return found;
}

/** An outcome's shape around a point. */
export function drawShape(
  pen: CanvasRenderingContext2D, shape: Shape, x: number, y: number, size: number, color: string, ground: string, pattern: CanvasPattern | null,
): void {
  const { body, line } = SHAPES[shape];
  const scale = size / 16;
  pen.save();
  pen.translate(x - size / 2, y - size / 2);
  pen.scale(scale, scale);
  pen.lineJoin = pen.lineCap = "round";
  if (body) {
    const outline = path(body);
    pen.strokeStyle = ground;
    pen.lineWidth = 2.4;
    pen.stroke(outline);
    pen.fillStyle = color;
    pen.fill(outline);
    if (pattern) {
      pen.fillStyle = pattern;
      pen.fill(outline);
      pen.strokeStyle = color;
      pen.lineWidth = 1.8;
      pen.stroke(outline);
    }
  }
  if (line) {
    if (!body) {
      pen.fillStyle = ground;
      pen.fill(path(line));
    }
    pen.strokeStyle = body && !pattern ? ground : color;
    pen.lineWidth = 2.2;
    pen.stroke(path(line));
  }
  pen.restore();
}
