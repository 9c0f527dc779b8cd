/** Answers that were asked for before a page was there to ask: each is handed out once, and not when it is old. */

import { headersFor, type Answer } from "./answers";

export interface Reply {
  status: number;
  isOk: boolean;
  text: string;
  tag: string | null;
  /** Of one that was asked for ahead: the answer that its request named. */
  before?: Answer | undefined;
}

interface Ahead {
  at: number;
  reply: Promise<Reply>;
  /** The reply, once it is there. */
  known: Reply | null;
}

declare global {
  /** Shared by the first script and the page's own code, which know nothing else of each other. */
  var evertickAhead: Map<string, Ahead> | undefined;
}

export const ROOT = "/api/v1";
const FRESH_MS = 5_000;

function all(): Map<string, Ahead> {
  return (globalThis.evertickAhead ??= new Map());
}

/** `before`: the last answer, so that the server sends only what has changed since. */
export function askAhead(target: string, before?: Answer): void {
  for (const [other, { at }] of all()) if (Date.now() - at >= FRESH_MS) all().delete(other);
  if (all().has(target)) return;
  const reply = fetchReply(target, { headers: headersFor(before) }).then((one) => ({ ...one, before }));
  const asked: Ahead = { at: Date.now(), reply, known: null };
  // The page that takes the answer sees its failure and asks again; an answer that no page takes fails without a message.
  asked.reply.then(
    (reply) => (asked.known = reply),
    () => undefined,
  );
  all().set(target, asked);
}

/** The replies that are there already: what they say can be on the first picture. */
export function repliesAhead(): [string, Reply][] {
  return [...all()].flatMap(([target, { known }]) => (known?.isOk ? [[target, known] satisfies [string, Reply]] : []));
}

export function takeAhead(target: string): Promise<Reply> | null {
  const found = all().get(target);
  all().delete(target);
  return found && Date.now() - found.at < FRESH_MS ? found.reply : null;
}

/** Called at the end of a session, and when something has changed since they were asked for. */
export function forgetAhead(): void {
  all().clear();
}

/** Send a request and read the whole response: on a slow connection it may break off long after it began. */
export async function fetchReply(target: string, init: RequestInit): Promise<Reply> {
  const response = await fetch(ROOT + target, { credentials: "same-origin", ...init });
  return { status: response.status, isOk: response.ok, text: await response.text(), tag: response.headers.get("etag") };
}
