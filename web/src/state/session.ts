/** Who is looking, and what they may do. */

import { signal } from "@preact/signals";
import { get, send, session } from "../api/client";
import { isPassing } from "../api/problem";
import type { Role, Session } from "../api/types";
import { disconnect } from "../api/events";

const RANK: Record<Role, number> = { viewer: 0, operator: 1, editor: 2, admin: 3 };

const AGAIN_MS = 2_000;

/** Why it is not known yet who is signed in: the server is away. Empty: it is known, or being asked for the first time. */
export const awayBecause = signal("");

/** A first start shows a link with a token behind '#', which no server sees; it is used once and taken out of sight. */
export async function signInFromAddress(): Promise<void> {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  // A server that is away has refused nobody: whoever opens the page meanwhile is let in when it is back.
  while (!(token && (await isSettled(() => signIn(token), true))) && !(await isSettled(recognize, false))) {
    await new Promise((done) => setTimeout(done, AGAIN_MS));
  }
  awayBecause.value = "";
}

async function recognize(): Promise<void> {
  session.value = await get<Session>("/session");
}

/** Try it; false: it is to be tried again. `isOptional`: a refusal only means that another way has to be tried. */
async function isSettled(work: () => Promise<void>, isOptional: boolean): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (isPassing(error)) {
      awayBecause.value = (error as Error).message;
      return false;
    }
    // Used up or mistyped: whoever is signed in already stays so.
    if (!isOptional) session.value = null;
    return !isOptional;
  }
}

export async function signIn(token: string): Promise<void> {
  session.value = await send<Session>("/session", { token: token.trim() });
}

export async function signOut(): Promise<void> {
  disconnect();
  await send("/session", {}, "DELETE").catch(() => undefined);
  session.value = null;
}

export function may(role: Role): boolean {
  const mine = session.value?.role;
  return mine !== undefined && RANK[mine] >= RANK[role];
}
