/** A log as far as it was read: from its end backwards, and onwards while it grows. Never all of a long one. */

import { get, path, withQuery } from "../api/client";
import type { LogChunk } from "../api/types";

const CHUNK = 256 * 1024;
const POLL_MS = 1_000;
/** Beyond this the oldest lines are let go: a browser tab is no archive. */
const LINES_MAX = 200_000;

export class LogReader {
  lines: string[] = [];
  /** Where the first line begins in the file. */
  start = 0;
  end = 0;
  isComplete = false;
  error: Error | null = null;
  isReady = false;
  private rest = "";
  private timer = 0;
  private isStopped = false;

  constructor(
    private run: string,
    private attempt: number,
    private step: string,
    size: number,
    private onChange: () => void,
  ) {
    this.start = this.end = Math.max(0, size - 2 * CHUNK);
    void this.forward();
  }

  stop(): void {
    this.isStopped = true;
    clearTimeout(this.timer);
  }

  get target(): string {
    return path`/runs/${this.run}/logs/${this.attempt}/${this.step}`;
  }

  /** What lies before the first line. */
  async earlier(): Promise<void> {
    const from = Math.max(0, this.start - 2 * CHUNK);
    let text = "";
    let at = from;
    while (at < this.start) {
      const chunk = await this.read(at, Math.min(CHUNK, this.start - at));
      if (!chunk || chunk.next_offset <= at) break;
      text += chunk.text;
      at = chunk.next_offset;
    }
    const older = text.split("\n");
    const last = older.pop() ?? "";
    // The first line that was shown may have been the end of a longer one.
    if (last) this.lines[0] = last + (this.lines[0] ?? "");
    this.lines = [...older, ...this.lines];
    this.start = from;
    this.onChange();
  }

  private async read(offset: number, limit: number): Promise<LogChunk | null> {
    try {
      const chunk = await get<LogChunk>(withQuery(this.target, { offset, limit }));
      this.error = null;
      return chunk;
    } catch (error) {
      this.error = error as Error;
      return null;
    }
  }

  private async forward(): Promise<void> {
    while (!this.isStopped) {
      const chunk = await this.read(this.end, CHUNK);
      if (this.isStopped) return;
      this.isReady = true;
      if (chunk && chunk.next_offset > this.end) {
        this.add(chunk.text, this.end === this.start && this.start > 0);
        this.end = chunk.next_offset;
      }
      if (chunk?.is_complete) {
        this.isComplete = true;
        if (this.rest) this.lines = [...this.lines.slice(0, -1), this.rest];
        return this.onChange();
      }
      this.onChange();
      if (!chunk || chunk.text === "") break;
    }
    if (!this.isStopped) this.timer = window.setTimeout(() => void this.forward(), POLL_MS);
  }

  /** Text that begins in the middle of the file begins in the middle of a line, which is left out. */
  private add(text: string, isCut: boolean): void {
    const whole = this.rest ? this.lines.slice(0, -1) : this.lines;
    const fresh = (this.rest + (isCut ? text.slice(text.indexOf("\n") + 1) : text)).split("\n");
    this.rest = fresh.at(-1) ?? "";
    if (!this.rest) fresh.pop();
    this.lines = [...whole, ...fresh];
    if (this.lines.length > LINES_MAX) this.lines = this.lines.slice(-LINES_MAX);
  }
}
