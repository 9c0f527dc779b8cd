/** Requests to the API: one function for reads, one for actions, and errors that can be shown. */

import { effect, signal } from "@preact/signals";
import { heardTime, nowMs } from "../state/now";
import { knownStage } from "../state/storage";
import { Answers, complete, headersFor, type Answer } from "./answers";
import { askAhead, fetchReply, forgetAhead, repliesAhead, ROOT, takeAhead, type Reply } from "./ahead";
import { path, withQuery, type Query } from "./address";
import { answered, failed, sent } from "./connection";
import { ApiError } from "./problem";
import { firstQuestions, nameOfQuestion } from "./questions";
import type { Job, JobPage, Session } from "./types";

/** Who is signed in; undefined until the server has answered, null if no one is. */
export const session = signal<Session | null | undefined>(undefined);

/** Whether a session ended without a sign-out: its token expired or was revoked. */
export const hasExpired = signal(false);

export { path, withQuery, type Query };

export async function get<T>(target: string, signal?: AbortSignal): Promise<T> {
  return answer<T>(await reach(target, signal ? { signal } : {}));
}

const answers = new Answers();
for (const [target, reply] of repliesAhead()) {
  const found = complete(undefined, reply);
  if (found) answers.keep(target, found);
}

/** The last answer to a question that is asked again and again; undefined: none is kept. */
export function lastAnswer<T>(name: string): T | undefined {
  return answers.get(name)?.data as T | undefined;
}

/** Jobs that lists have shown, the newest answer first. */
export function knownJobs(): Job[] {
  return answers.beginningWith("/jobs?").flatMap((page) => (page as JobPage).items);
}

/** Ask for what a page will show, all at once, while the page is still put together. */
export function askForPage(pathname: string, query: URLSearchParams): void {
  const isDefined = (id: string) => lastAnswer<Job>(path`/jobs/${id}`)?.is_defined ?? knownJobs().some((job) => job.job === id && job.is_defined);
  for (const target of firstQuestions(pathname, query, nowMs(), knownStage(), isDefined)) askAhead(target, answers.get(nameOfQuestion(target)));
}

/** Ask again: the server sends only what has changed. `name`: one for questions with similar answers, such as of a moving period. */
export async function getAgain<T>(target: string, signal: AbortSignal, name = target): Promise<T> {
  const before = answers.get(name);
  const found = (await ask(target, signal, before)) ?? (await ask(target, signal, undefined));
  if (!found) throw new ApiError(0, "The server's response cannot be read.");
  answers.keep(name, found);
  return found.data as T;
}

async function ask(target: string, signal: AbortSignal, before: Answer | undefined): Promise<Answer | undefined> {
  const reply = await reach(target, { signal, headers: headersFor(before) }, takeAhead(target));
  const named = "before" in reply ? reply.before : before;
  const found = reply.isOk || reply.status === 304 ? complete(named, reply) : answer<undefined>(reply);
  // An answer from before says nothing about the time.
  const at = found !== named && (found?.data as { now?: unknown } | null | undefined)?.now;
  if (typeof at === "string") heardTime(at);
  return found;
}

/** Called at the end of a session: the next person to sign in must not see its data. */
export function forgetAnswers(): void {
  answers.forget();
  forgetAhead();
}

export async function getText(target: string, signal: AbortSignal): Promise<string> {
  const reply = await reach(target, { signal });
  return reply.isOk ? reply.text : answer<string>(reply);
}

const SESSION = "/session";

export async function send<T>(target: string, body: unknown = {}, method = "POST"): Promise<T> {
  // A page that was signed in before is shown before the server has said who is looking; only who is known may act.
  if (target !== SESSION) await isRecognized();
  const headers: Record<string, string> = { "content-type": "application/json", "idempotency-key": newKey() };
  const csrf = session.value?.csrf;
  if (csrf) headers["x-csrf-token"] = csrf;
  return answer<T>(await reach(target, { method, headers, body: JSON.stringify(body) }));
}

function isRecognized(): Promise<void> {
  return new Promise((done) => {
    const stop = effect(() => {
      if (session.value !== undefined) queueMicrotask(() => (stop(), done()));
    });
  });
}

/** randomUUID exists only on secure origins; a page served over plain HTTP on a LAN behind a proxy is not one. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function downloadAddress(target: string): string {
  return ROOT + target;
}

/** `ahead`: the reply to the same question, asked before; it may name only what has changed. */
async function reach(target: string, init: RequestInit, ahead: Promise<Reply> | null = null): Promise<Reply> {
  const done = sent();
  try {
    const reply = await (ahead ?? fetchReply(target, init));
    if (init.signal?.aborted) throw new DOMException("Aborted", "AbortError");
    // The response of a proxy whose server is down.
    if (reply.status >= 502 && reply.status <= 504) failed();
    else answered();
    return reply;
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") throw problem;
    failed();
    throw new ApiError(0, `Cannot reach the server. ${init.method === undefined ? "The page retries by itself." : "Try again when it responds."}`);
  } finally {
    done();
  }
}

function answer<T>(reply: Reply): T {
  if (reply.status === 401) {
    if (session.value) hasExpired.value = true;
    session.value = null;
    forgetAnswers();
  }
  if (reply.isOk) return reply.status === 204 ? (undefined as T) : (JSON.parse(reply.text) as T);
  let said = `The server returned HTTP ${reply.status}.`;
  try {
    const problem = JSON.parse(reply.text) as { detail?: unknown; title?: string };
    if (typeof problem.detail === "string" && problem.detail) said = problem.detail;
    else if (problem.title) said = problem.title;
  } catch {
    // Not JSON: a response of a proxy in between.
  }
  throw new ApiError(reply.status, said);
}
