/** A log as far as it was read: from its end backwards, and onwards while it grows. Never all of a long one. */

import { get, path, withQuery } from "../api/client";
import type { LogChunk, LogHits, LogTime, LogTimes } from "../api/types";

const CHUNK = 256 * 1024;
const POLL_MS = 1_000;
/** In place of a step: the lines of all steps by time, each with its time and its step before it, separated by tabs. */
export const ALL_STEPS = "*";
/** Beyond this the oldest lines are dropped. */
const LINES_MAX = 200_000;

export class LogReader {
  lines: string[] = [];
  /** Where each line begins in the file, in bytes. */
  private offsets: number[] = [];
  /** From which byte on it was written at which time; empty: nobody has asked. */
  private times: LogTime[] = [];
  private hasTimes = false;
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

  /** When a line was printed, in milliseconds; null: not known yet. */
  timeOf(index: number): number | null {
    const offset = this.offsets[index];
    if (offset === undefined || !this.times.length) return null;
    let [low, high] = [0, this.times.length - 1];
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if ((this.times[middle]?.offset ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    const found = this.times[low];
    return found ? Date.parse(found.at) : null;
  }

  /** Read the times of what is loaded, and of what will be. */
  async showTimes(): Promise<void> {
    this.hasTimes = true;
    await this.readTimes(0);
  }

  private async readTimes(offset: number): Promise<void> {
    try {
      const found = await get<LogTimes>(withQuery(`${this.target}/times`, { offset }));
      const first = found.items[0]?.offset ?? 0;
      this.times = [...this.times.filter((time) => time.offset < first), ...found.items];
    } catch {
      // The log can be read without times; the next part asks again.
    }
    this.onChange();
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
      this.offsets = [...offsetsOf(older, first.offset), ...this.offsets];
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
    this.offsets = [];
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
        if (this.hasTimes) void this.readTimes(this.times.at(-1)?.offset ?? 0);
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
    const begun = whole.length < this.lines.length ? (this.offsets.at(-1) ?? this.end) : this.end;
    this.rest = fresh.at(-1) ?? "";
    if (!this.rest) fresh.pop();
    this.offsets = [...this.offsets.slice(0, whole.length), ...offsetsOf(fresh, begun)];
    this.lines = [...whole, ...fresh];
    const over = this.lines.length - LINES_MAX;
    if (over <= 0) return;
    const gone = this.lines.slice(0, over);
    this.lines = this.lines.slice(over);
    this.offsets = this.offsets.slice(over);
    this.start += new TextEncoder().encode(`${gone.join("\n")}\n`).length;
    if (this.firstLine !== null) this.firstLine += over;
  }
}

const encoder = new TextEncoder();

function offsetsOf(lines: string[], start: number): number[] {
  const found: number[] = [];
  for (const line of lines) {
    found.push(start);
    start += encoder.encode(line).length + 1;
  }
  return found;
}
