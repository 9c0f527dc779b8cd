/** One query, repeated when its result may have changed: never twice at once, and never aborted half-way. */

import { isPassing } from "./problem";

/** At most once a second, and on a slow connection never so often that it does little else. */
const REST_MS = 1_000;
const REST_FACTOR = 5;
const REST_MAX_MS = 10_000;
const AGAIN_MS = 1_000;
const AGAIN_MAX_MS = 15_000;

export interface Hearing<T> {
  onAsk: () => void;
  onAnswer: (answer: T) => void;
  onProblem: (error: Error) => void;
}

export class Asker<T> {
  private abort = new AbortController();
  private isAsking = false;
  private isOutdated = false;
  private isHurried = false;
  private failures = 0;
  private took = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private question: (signal: AbortSignal) => Promise<T>,
    private hearing: Hearing<T>,
  ) {}

  /** Now, or after the request in flight: its result may be older than the caller's change. */
  ask(): void {
    if (this.isAsking) this.isOutdated = this.isHurried = true;
    else void this.put();
  }

  /** The result may have changed. A request in flight continues: on a slow connection events would otherwise abort every one. */
  changed(): void {
    if (this.isAsking) this.isOutdated = true;
    else this.later(this.rest);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.abort.abort();
  }

  private get rest(): number {
    return Math.min(Math.max(REST_MS, REST_FACTOR * this.took), REST_MAX_MS);
  }

  private later(ms: number): void {
    this.timer ??= setTimeout(() => void this.put(), ms);
  }

  private async put(): Promise<void> {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.isAsking = true;
    this.isOutdated = this.isHurried = false;
    const { signal } = this.abort;
    const since = performance.now();
    this.hearing.onAsk();
    try {
      const answer = await this.question(signal);
      if (signal.aborted) return;
      this.took = performance.now() - since;
      this.failures = 0;
      this.hearing.onAnswer(answer);
    } catch (error) {
      if (signal.aborted) return;
      this.failures++;
      this.hearing.onProblem(error as Error);
      // A page opened during an outage need not be reloaded.
      if (isPassing(error)) this.later(Math.min(AGAIN_MS * 2 ** (this.failures - 1), AGAIN_MAX_MS));
    } finally {
      this.isAsking = false;
    }
    if (this.isOutdated) this.later(this.isHurried ? 0 : this.rest);
  }
}
