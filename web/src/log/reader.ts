/** A log as far as it was read: from its end backwards, and onwards while it grows. Never all of a long one. */

import { get, path, withQuery } from "../api/client";
import type { LogChunk, LogHits } from "../api/types";

const CHUNK = 256 * 1024;
const POLL_MS = 1_000;
/** Beyond this the oldest lines are dropped. */
const LINES_MAX = 200_000;

export class LogReader {
  lines: string[] = [];
  /** The number of the first line that is loaded; null: it lies too far inside the log to be counted. */
  firstLine: number | null = 1;
  /** Where the first line begins in the file, and where the last one ends. */
  start = 0;
  end = 0;
  size: number;
  /** Whether nothing follows what is loaded, now or later. */
  isComplete = false;
  /** Whether more follows that is not loaded because something further up was asked for. */
  isHeld = false;
  error: Error | null = null;
  isReady = false;
  private rest = "";
  private timer = 0;
  private turn = 0;
  private until = Infinity;

  constructor(
    private run: string,
    private attempt: number,
    private step: string,
    size: number,
    private onChange: () => void,
  ) {
    this.size = size;
    this.showEnd();
  }

  stop(): void {
    this.turn++;
    clearTimeout(this.timer);
  }

  get target(): string {
    return path`/runs/${this.run}/logs/${this.attempt}/${this.step}`;
  }

  /** Whether all that there is was loaded. */
  get isWhole(): boolean {
    return this.isReady && this.start === 0 && !this.isHeld;
  }

  showEnd(): void {
    this.begin(Math.max(0, this.size - 2 * CHUNK), Infinity);
  }

  /** Load what is around a byte in place of what is loaded. */
  show(offset: number): void {
    this.begin(Math.max(0, offset - CHUNK / 2), offset + CHUNK);
  }

  /** What lies behind the last line. */
  later(): void {
    this.until = this.end + 2 * CHUNK;
    this.isHeld = false;
    void this.forward(this.turn);
  }

  /** What lies before the first line. */
  async earlier(): Promise<void> {
    const turn = this.turn;
    let text = "";
    let first: LogChunk | null = null;
    for (let at = Math.max(0, this.start - 2 * CHUNK); at < this.start; ) {
      const chunk: LogChunk | null = await this.read(at, Math.min(CHUNK, this.start - at), first === null);
      if (turn !== this.turn) return;
      if (!chunk || chunk.next_offset <= chunk.offset) break;
      first ??= chunk;
      text += chunk.text;
      at = chunk.next_offset;
    }
    if (first) {
      const older = text.split("\n");
      if (older.at(-1) === "") older.pop();
      this.lines = [...older, ...this.lines];
      this.start = first.offset;
      this.firstLine = first.first_line;
    }
    this.onChange();
  }

  async search(text: string): Promise<LogHits> {
    return this.find({ text });
  }

  /** Lines with a text, lines that look like errors, or the line with a number; the server looks at the whole log. */
  async find(what: { text?: string; errors?: true; line?: number }): Promise<LogHits> {
    return get<LogHits>(withQuery(`${this.target}/search`, what));
  }

  private begin(offset: number, until: number): void {
    this.stop();
    this.lines = [];
    this.rest = "";
    this.start = this.end = offset;
    this.until = until;
    this.isReady = this.isComplete = this.isHeld = false;
    void this.forward(this.turn);
  }

  private async read(offset: number, limit: number, isFirst: boolean): Promise<LogChunk | null> {
    try {
      const chunk = await get<LogChunk>(withQuery(this.target, { offset, limit, lines: isFirst || null }));
      this.error = null;
      this.size = Math.max(this.size, chunk.size);
      return chunk;
    } catch (error) {
      this.error = error as Error;
      return null;
    }
  }

  private async forward(turn: number): Promise<void> {
    while (turn === this.turn) {
      const chunk = await this.read(this.end, CHUNK, !this.isReady);
      if (turn !== this.turn) return;
      if (chunk && !this.isReady) {
        this.start = this.end = chunk.offset;
        this.firstLine = chunk.first_line;
      }
      if (chunk) this.isReady = true;
      if (chunk && chunk.next_offset > this.end) {
        this.add(chunk.text);
        this.end = chunk.next_offset;
      }
      if (chunk?.is_complete) {
        this.isComplete = true;
        return this.onChange();
      }
      this.isHeld = this.end >= this.until;
      this.onChange();
      if (this.isHeld) return;
      if (!chunk || chunk.text === "") break;
    }
    if (turn === this.turn) this.timer = window.setTimeout(() => void this.forward(turn), POLL_MS);
  }

  private add(text: string): void {
    const whole = this.rest ? this.lines.slice(0, -1) : this.lines;
    const fresh = (this.rest + text).split("\n");
    this.rest = fresh.at(-1) ?? "";
    if (!this.rest) fresh.pop();
    this.lines = [...whole, ...fresh];
    const over = this.lines.length - LINES_MAX;
    if (over <= 0) return;
    const gone = this.lines.slice(0, over);
    this.lines = this.lines.slice(over);
    this.start += new TextEncoder().encode(`${gone.join("\n")}\n`).length;
    if (this.firstLine !== null) this.firstLine += over;
  }
}
