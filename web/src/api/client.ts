/** How the page asks: one function for questions, one for actions, and errors that can be shown. */

import { signal } from "@preact/signals";
import type { Session } from "./types";

const ROOT = "/api/v1";

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** Who is signed in; undefined until the server was asked, null when nobody is. */
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

export async function getText(target: string, signal: AbortSignal): Promise<string> {
  const response = await reach(target, { signal });
  return response.ok ? response.text() : answer<string>(response);
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

async function reach(target: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(ROOT + target, { credentials: "same-origin", ...init });
  } catch (problem) {
    if (problem instanceof DOMException && problem.name === "AbortError") throw problem;
    throw new ApiError(0, "The server cannot be reached. The page shows what it last knew and tries again.");
  }
}

async function answer<T>(response: Response): Promise<T> {
  if (response.status === 401) session.value = null;
  if (response.ok) return response.status === 204 ? (undefined as T) : ((await response.json()) as T);
  let said = `The server answered ${response.status}.`;
  try {
    const problem = (await response.json()) as { detail?: unknown; title?: string };
    if (typeof problem.detail === "string" && problem.detail) said = problem.detail;
    else if (problem.title) said = problem.title;
  } catch {
    // Not JSON: a proxy in between said something of its own.
  }
  throw new ApiError(response.status, said);
}
