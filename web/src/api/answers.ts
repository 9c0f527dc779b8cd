/** The last answers, for the way back, and so that the server sends only what has changed since. */

import { apply, type Delta } from "./delta";

export interface Answer {
  data: unknown;
  /** The server's tag of it; null: it has none. */
  tag: string | null;
}

/** A response with the answer in full, with what has changed, or without any. */
export interface Response {
  status: number;
  text: string;
  tag: string | null;
}

const KEPT_MAX = 60;

export class Answers {
  private kept = new Map<string, Answer>();

  get(name: string): Answer | undefined {
    return this.kept.get(name);
  }

  keep(name: string, answer: Answer): void {
    this.kept.delete(name);
    this.kept.set(name, answer);
    if (this.kept.size > KEPT_MAX) this.kept.delete(this.kept.keys().next().value as string);
  }

  /** The answers to questions of one kind, newest first. */
  beginningWith(name: string): unknown[] {
    return [...this.kept].flatMap(([key, { data }]) => (key.startsWith(name) ? [data] : [])).reverse();
  }

  forget(): void {
    this.kept.clear();
  }
}

/** What to send with a request, so that its response may be short. */
export function headersFor(before: Answer | undefined): Record<string, string> {
  return { "a-im": "evertick-delta", ...(before?.tag ? { "if-none-match": before.tag } : {}) };
}

/** What a response says, given the answer that its request named; undefined: the two do not fit. */
export function complete(before: Answer | undefined, { status, text, tag }: Response): Answer | undefined {
  if (status === 304 || (before?.tag && before.tag === tag)) return before;
  if (status !== 226) return { data: JSON.parse(text), tag };
  try {
    return before && { data: apply(before.data, JSON.parse(text) as Delta), tag };
  } catch {
    return undefined;
  }
}
