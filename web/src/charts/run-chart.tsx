/** How long runs took and how late they began: a point for each, a band and lines for what is usual. */

import { useLayoutEffect } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Durations, Percentiles, RunPoint } from "../api/types";
import { paint } from "../state/theme";
import { shownZone } from "../state/zone";
import { spanTicks, ticks } from "../time/axis";
import { counted, roundSpan, span } from "../time/words";
import { BAD_STATES } from "../ui/outcomes";
import { Empty } from "../ui/parts";
import { useWidth } from "../ui/width";

const HEIGHT = 220;

function color(name: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** A figure of runs: a point for each that has it, and what is usual. */
interface Figure {
  value: (run: RunPoint) => number | null;
  percentiles: Percentiles;
  /** The chart for those who do not see it. */
  words: (count: number, usual: Usual) => string;
  note?: string;
}

type Usual = Record<keyof Percentiles, number>;

export function DurationChart({ durations, zone }: { durations: Durations; zone: string }) {
  return <RunChart runs={durations.items} zone={zone} figure={{ value: (run) => run.duration_seconds, percentiles: durations.percentiles, words: durationWords }} />;
}

function durationWords(count: number, usual: Usual): string {
  return `Durations of the last ${counted(count, "run")}: half took up to ${span(usual.p50 * 1000)}, nine of ten up to ${span(usual.p90 * 1000)}, the longest ${span(usual.max * 1000)}`;
}

/** A run that was caught up is late by the length of an outage: it would hide all others. */
export function LatenessChart({ durations, zone }: { durations: Durations; zone: string }) {
  const figure: Figure = {
    value: (run) => (run.trigger === "scheduler" ? run.lateness_seconds : null),
    percentiles: durations.lateness,
    words: (count, usual) => `Lateness of the last ${counted(count, "scheduled start")}: half within ${span(usual.p50 * 1000)}, nine of ten within ${span(usual.p90 * 1000)}`,
    note: "of starts within the grace period",
  };
  return <RunChart runs={durations.items} zone={zone} figure={figure} />;
}

function RunChart({ runs, zone, figure }: { runs: RunPoint[]; zone: string; figure: Figure }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const shown = shownZone(zone);
  const turn = paint.value;
  const points = runs.filter((run) => figure.value(run) !== null);
  const usual = known(figure.percentiles);
  // Before the frame is painted, which would show an empty box.
  useLayoutEffect(() => {
    if (!box.current || !width || !points.length) return;
    const plot = new uPlot(options(usual, width, shown), series(points, figure.value), box.current);
    return () => plot.destroy();
  }, [runs, width, shown, turn]);
  if (!points.length) return <Empty title="No runs to show yet" icon="runs" />;
  return (
    <div>
      <div ref={box} class="chart is-runs" role="img" aria-label={usual ? figure.words(points.length, usual) : counted(points.length, "run")} />
      {usual && (
        <p class="chart-foot quiet small">
          p10 {span(usual.p10 * 1000)} · <strong>p50 {span(usual.p50 * 1000)}</strong> · p90 {span(usual.p90 * 1000)} · p99 {span(usual.p99 * 1000)} · max {span(usual.max * 1000)} {figure.note}
        </p>
      )}
    </div>
  );
}

/** All of them, or none: there are percentiles as soon as one run has ended. */
function known(percentiles: Percentiles): Usual | null {
  return percentiles.p50 === null ? null : (percentiles as Usual);
}

function series(runs: RunPoint[], value: Figure["value"]): uPlot.AlignedData {
  const of = (isBad: boolean) => runs.map((run) => (BAD_STATES.includes(run.state) === isBad ? value(run) : null));
  return [runs.map((run) => Date.parse(run.scheduled_for) / 1000), of(false), of(true)];
}

function options(usual: Usual | null, width: number, zone: string): uPlot.Options {
  const [ink, line, good, bad, soft] = ["ink-3", "line", "succeeded", "failed", "now"].map(color) as [string, string, string, string, string];
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui" };
  return {
    width,
    height: HEIGHT,
    // Room on the right for the names of the lines, where no point can be.
    padding: [8, 34, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: true, y: false }, points: { size: 9 } },
    axes: [{ ...axis, ...roundTimes(zone) }, { ...axis, size: 64, splits: (plot) => spanTicks((plot.scales["y"]?.max ?? 1) * 1000).map((ms) => ms / 1000), values: (_plot, values) => values.map((value) => roundSpan(value * 1000)) }],
    // A single run has no span of its own; uPlot would show years after it.
    scales: { x: { range: (plot, least, most) => (plot.data[0].length === 1 || least === most ? [least - 60, least + 60] : [least, most]) }, y: { range: (_plot, _least, most) => [0, (most || 1) * 1.12] } },
    series: [
      {},
      { label: "took", stroke: good, width: 1.2, spanGaps: true, points: { show: true, size: 5, fill: good, stroke: good } },
      { label: "failed", stroke: bad, width: 0, points: { show: true, size: 9, fill: bad, stroke: bad, paths: crosses } },
    ],
    hooks: { draw: [(plot) => usual && drawPercentiles(plot, usual, soft)] },
  } as uPlot.Options;
}

/** The same round times in the chosen zone as everywhere on the page. */
function roundTimes(zone: string): Pick<uPlot.Axis, "splits" | "values"> {
  const of = (plot: uPlot) => ticks((plot.scales["x"]?.min ?? 0) * 1000, (plot.scales["x"]?.max ?? 1) * 1000, plot.bbox.width / devicePixelRatio, zone);
  return { splits: (plot) => of(plot).map((tick) => tick.at / 1000), values: (plot) => of(plot).map((tick) => tick.label) };
}

/** Failed runs are crosses, so that they are told apart without their colour. */
function crosses(plot: uPlot, number: number): uPlot.Series.Points.Paths {
  const path = new Path2D();
  const arm = 4 * devicePixelRatio;
  const values = plot.data[number] ?? [];
  values.forEach((value, index) => {
    const at = plot.data[0]?.[index];
    if (value === null || value === undefined || at === undefined) return;
    const [x, y] = [plot.valToPos(at, "x", true), plot.valToPos(value, "y", true)];
    path.moveTo(x - arm, y - arm);
    path.lineTo(x + arm, y + arm);
    path.moveTo(x + arm, y - arm);
    path.lineTo(x - arm, y + arm);
  });
  return { stroke: path, fill: path } as unknown as uPlot.Series.Points.Paths;
}

function drawPercentiles(plot: uPlot, usual: Usual, stroke: string): void {
  const pen = plot.ctx;
  pen.save();
  pen.strokeStyle = stroke;
  pen.fillStyle = stroke;
  pen.font = `${11 * devicePixelRatio}px system-ui`;
  // What is usual: eight of ten runs are in this band.
  const [low, high] = [plot.valToPos(usual.p10, "y", true), plot.valToPos(usual.p90, "y", true)];
  pen.globalAlpha = 0.1;
  pen.fillRect(plot.bbox.left, high, plot.bbox.width, Math.max(low - high, 1));
  pen.globalAlpha = 1;
  let free = Infinity;
  pen.textAlign = "left";
  pen.textBaseline = "middle";
  for (const [name, value] of [["p50", usual.p50], ["p90", usual.p90], ["p99", usual.p99]] as const) {
    const y = plot.valToPos(value, "y", true);
    if (y < plot.bbox.top) continue;
    pen.setLineDash(name === "p50" ? [] : [4, 4]);
    pen.beginPath();
    pen.moveTo(plot.bbox.left, y);
    pen.lineTo(plot.bbox.left + plot.bbox.width, y);
    pen.stroke();
    // Where the lines are close, the lower one has the word.
    if (free - y > 13 * devicePixelRatio) {
      pen.fillText(name, plot.bbox.left + plot.bbox.width + 5 * devicePixelRatio, y);
      free = y;
    }
  }
  pen.restore();
}
