/** Requests to the API: one function for reads, one for actions, and errors that can be shown. */

import { signal } from "@preact/signals";
import { heardTime } from "../state/now";
import { Answers, complete, headersFor, type Answer } from "./answers";
import { answered, failed, sent } from "./connection";
import { ApiError } from "./problem";
import type { Session } from "./types";

const ROOT = "/api/v1";

interface Reply {
  status: number;
  isOk: boolean;
  text: string;
  tag: string | null;
}

/** Who is signed in; undefined until the server has answered, null if no one is. */
export const session = signal<Session | null | undefined>(undefined);

export type Query = Record<string, string | number | boolean | null | undefined | readonly string[]>;

/** A path with its parts encoded: ids of runs hold '@' and ':', and ids of jobs may hold more. */
export function path(strings: TemplateStringsArray, ...parts: (string | number)[]): string {
  return strings.reduce((text, next, index) => text + encodeURIComponent(String(parts[index - 1])) + next);
}

export function withQuery(target: string, query: Query): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) search.append(name, String(one));
  }
  const text = search.toString();
  return text ? `${target}?${text}` : target;
}

export async function get<T>(target: string, signal?: AbortSignal): Promise<T> {
  return answer<T>(await reach(target, signal ? { signal } : {}));
}

const answers = new Answers();

/** The last answer to a question that is asked again and again; undefined: none is kept. */
export function lastAnswer<T>(name: string): T | undefined {
  return answers.get(name)?.data as T | undefined;
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
  const reply = await reach(target, { signal, headers: headersFor(before) });
  const found = reply.isOk || reply.status === 304 ? complete(before, reply) : answer<undefined>(reply);
  // An answer from before says nothing about the time.
  const at = found !== before && (found?.data as { now?: unknown } | null | undefined)?.now;
  if (typeof at === "string") heardTime(at);
  return found;
}

/** Called at the end of a session: the next person to sign in must not see its data. */
export function forgetAnswers(): void {
  answers.forget();
}

export async function getText(target: string, signal: AbortSignal): Promise<string> {
  const reply = await reach(target, { signal });
  return reply.isOk ? reply.text : answer<string>(reply);
}

export async function send<T>(target: string, body: unknown = {}, method = "POST"): Promise<T> {
  const headers: Record<string, string> = { "content-type": "application/json", "idempotency-key": newKey() };
  const csrf = session.value?.csrf;
  if (csrf) headers["x-csrf-token"] = csrf;
  return answer<T>(await reach(target, { method, headers, body: JSON.stringify(body) }));
}

/** randomUUID exists only on secure origins; a page served over plain HTTP on a LAN behind a proxy is not one. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function downloadAddress(target: string): string {
  return ROOT + target;
}

/** Send a request and read the whole response: on a slow connection it may break off long after it began. */
async function reach(target: string, init: RequestInit): Promise<Reply> {
  const done = sent();
  try {
    const response = await fetch(ROOT + target, { credentials: "same-origin", ...init });
    const text = await response.text();
    // The response of a proxy whose server is down.
    if (response.status >= 502 && response.status <= 504) failed();
    else answered();
    return { status: response.status, isOk: response.ok, text, tag: response.headers.get("etag") };
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") throw problem;
    failed();
    throw new ApiError(0, "Cannot reach the server. Showing the last known data; retrying.");
  } finally {
    done();
  }
}

function answer<T>(reply: Reply): T {
  if (reply.status === 401) {
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
