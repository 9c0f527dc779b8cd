/** Which lanes are known, and which to ask for: blocks of them, for a little more time than is shown. */

import { getAgain } from "../api/client";
import type { Timeline } from "../api/types";
import { holds, spanOf, type Window } from "../time/window";
import { prepare, type DrawnLane } from "./items";
import { BLOCK, columnsFor, timelineName, timelineQuestion, type Filter } from "./question";

const AT_ONCE = 3;
/** How old an answer of the server may be. */
const KEPT_MS = 1_000;

interface Block {
  window: Window;
  /** The span that was shown when it was asked for: an answer is too fine or too coarse for one very different. */
  span: number;
  width: number;
  lanes: DrawnLane[];
  isStale: boolean;
  /** Until then a stale one is good enough: once a second at most, and never for more than a quarter of the server's time. */
  restsUntil: number;
}

interface View {
  first: number;
  last: number;
  window: Window;
  width: number;
}

export class Lanes {
  total: number | null = null;
  /** Jobs that match, in lanes of their own or not. */
  jobs = 0;
  downtimes: readonly { at: number; through: number | null; jobs: number }[] = [];
  error: Error | null = null;
  private blocks = new Map<number, Block>();
  private asked = new Map<number, AbortController>();
  private view: View | null = null;
  private timer = 0;
  private again = 0;
  /** When something in a block last changed. */
  private touched = new Map<number, number>();

  constructor(
    private filter: Filter,
    private onChange: () => void,
    private onAnswer: (answer: Timeline) => void,
  ) {}

  lane(index: number): DrawnLane | undefined {
    return this.blocks.get(Math.floor(index / BLOCK))?.lanes[index % BLOCK];
  }

  /** Lanes that are known, with their numbers: for the table, and for finding a job. */
  *known(): Iterable<[number, DrawnLane]> {
    for (const [number, block] of [...this.blocks].sort(([one], [other]) => one - other)) {
      for (const [index, lane] of block.lanes.entries()) yield [number * BLOCK + index, lane];
    }
  }

  get isByTag(): boolean {
    return this.filter.group === "tag";
  }

  get isLoading(): boolean {
    return this.asked.size > 0;
  }

  /** Whether what is shown is not yet all that the window asks for. */
  get isBehind(): boolean {
    const view = this.view;
    if (!view || this.total === null || this.asked.size > 0) return true;
    const last = Math.floor(Math.min(view.last, Math.max(this.total - 1, 0)) / BLOCK);
    for (let number = Math.max(0, Math.floor(view.first / BLOCK)); number <= last; number++) if (this.isWanting(number, view)) return true;
    return false;
  }

  setFilter(filter: Filter): void {
    if (JSON.stringify(filter) === JSON.stringify(this.filter)) return;
    this.filter = filter;
    this.stop();
    for (const block of this.blocks.values()) block.isStale = true;
    this.blocks.clear();
    this.touched.clear();
    this.total = null;
    this.askSoon(0);
  }

  show(view: View): void {
    this.view = view;
    this.askSoon(this.blocks.size ? 80 : 0);
  }

  /** Some jobs changed; null: unknown which. */
  touch(jobs: ReadonlySet<string> | null): void {
    for (const number of new Set([...this.blocks.keys(), ...this.asked.keys()])) {
      const block = this.blocks.get(number);
      if (block && jobs !== null && !block.lanes.some((lane) => jobs.has(lane.job))) continue;
      if (block) block.isStale = true;
      this.touched.set(number, performance.now());
    }
    this.askSoon(0);
  }

  stop(): void {
    for (const abort of this.asked.values()) abort.abort();
    this.asked.clear();
    clearTimeout(this.timer);
    clearTimeout(this.again);
    this.timer = 0;
  }

  private askSoon(delay: number): void {
    this.timer ||= window.setTimeout(() => {
      this.timer = 0;
      this.ask();
    }, delay);
  }

  private ask(): void {
    const view = this.view;
    if (!view || view.width < 50) return;
    const first = Math.max(0, Math.floor(view.first / BLOCK));
    const end = this.total === null ? first : Math.floor(Math.max(this.total - 1, 0) / BLOCK);
    const last = Math.min(Math.floor(view.last / BLOCK), end);
    for (const [number, abort] of this.asked) {
      if (number >= first && number <= last) continue;
      abort.abort();
      this.asked.delete(number);
    }
    for (let number = first; number <= last && this.asked.size < AT_ONCE; number++) {
      if (!this.asked.has(number) && this.isWanting(number, view)) void this.fetch(number, view);
    }
  }

  private isWanting(number: number, view: View): boolean {
    const block = this.blocks.get(number);
    if (!block || (block.isStale && performance.now() >= block.restsUntil)) return true;
    const ratio = spanOf(view.window) / block.span;
    const isResized = Math.abs(Math.log(view.width / block.width)) > 0.4;
    return !holds(block.window, view.window) || ratio < 0.6 || ratio > 1.3 || isResized;
  }

  private async fetch(number: number, view: View): Promise<void> {
    const abort = new AbortController();
    const asked = performance.now();
    this.asked.set(number, abort);
    const wide = columnsFor(view.window, view.width);
    const target = timelineQuestion(this.filter, wide, number);
    try {
      const answer = await getAgain<Timeline>(target, abort.signal, timelineName(number));
      const lanes = answer.lanes.map(prepare);
      const now = performance.now();
      const restsUntil = now + Math.max(1_000, 4 * (now - asked));
      // An immediate result may be from just before the change: it is read once more.
      const isStale = asked - (this.touched.get(number) ?? -Infinity) < KEPT_MS;
      const before = this.blocks.get(number)?.lanes;
      // The order follows from what happens: a lane that moved here has left another block.
      if (before && (answer.total !== this.total || lanes.some((lane, index) => lane.key !== before[index]?.key))) {
        for (const block of this.blocks.values()) block.isStale = true;
      }
      this.blocks.set(number, { window: wide, span: spanOf(view.window), width: view.width, lanes, isStale, restsUntil });
      this.total = answer.total;
      this.jobs = answer.jobs;
      this.downtimes = answer.downtimes.map(({ at, through, jobs }) => ({ at: Date.parse(at), through: through ? Date.parse(through) : null, jobs }));
      this.error = null;
      this.onAnswer(answer);
    } catch (error) {
      if (abort.signal.aborted) return;
      this.error = error as Error;
      // What is known stays on the screen; the next look at the block is five seconds away.
      const block = this.blocks.get(number);
      if (block) Object.assign(block, { isStale: false, window: wide, span: spanOf(view.window), width: view.width });
      clearTimeout(this.again);
      this.again = window.setTimeout(() => this.touch(null), 5_000);
    } finally {
      if (this.asked.get(number) === abort) this.asked.delete(number);
    }
    this.onChange();
    if (!this.error) this.ask();
  }
}
