/** Who is looking, and what they may do. */

import { effect, signal } from "@preact/signals";
import { forgetAnswers, get, hasExpired, send, session } from "../api/client";
import { isPassing } from "../api/problem";
import type { Role, Session } from "../api/types";
import { disconnect } from "../api/events";
import { keptSignal } from "./kept";

const RANK: Record<Role, number> = { viewer: 0, operator: 1, editor: 2, admin: 3 };

const AGAIN_MS = 2_000;

/** Why it is unknown who is signed in: the server does not respond. Empty: it is known, or the first request is in flight. */
export const awayBecause = signal("");

const lastKnown = keptSignal("session", ["open", "closed"], "closed");

/** Whether this browser was signed in: then the page asks for its data at once, beside the question who is looking. */
export const wasSignedIn = lastKnown.peek() === "open" && !location.hash.includes("token=");

const lastRole = keptSignal<Role>("role", ["viewer", "operator", "editor", "admin"], "viewer");

effect(() => {
  if (session.value !== undefined) lastKnown.value = session.value ? "open" : "closed";
  if (session.value) lastRole.value = session.value.role;
});

/** A first start shows a link with a token behind '#', which no server sees; it is used once and taken out of sight. */
export async function signInFromAddress(): Promise<void> {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  // A server that does not respond has refused no one: the page opens when the server responds.
  while (!(token && (await isSettled(() => signIn(token), true))) && !(await isSettled(recognize, false))) {
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
  awayBecause.value = "";
}

async function recognize(): Promise<void> {
  session.value = await get<Session>("/session");
}

/** Try once; false: retry. `isOptional`: after a refusal another way is tried. */
async function isSettled(work: () => Promise<void>, isOptional: boolean): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (isPassing(error)) {
      awayBecause.value = (error as Error).message;
      return false;
    }
    // Used or mistyped: an existing session continues.
    if (!isOptional) session.value = null;
    return !isOptional;
  }
}

export async function signIn(token: string): Promise<void> {
  session.value = await send<Session>("/session", { token: token.trim() });
  hasExpired.value = false;
}

export async function signOut(): Promise<void> {
  disconnect();
  forgetAnswers();
  await send("/session", {}, "DELETE").catch(() => undefined);
  session.value = null;
}

/** Until the server has said who is looking, it is who it was before: buttons that came later would move the page. */
export function may(role: Role): boolean {
  const mine = session.value === undefined && wasSignedIn ? lastRole.value : session.value?.role;
  return mine !== undefined && RANK[mine] >= RANK[role];
}
