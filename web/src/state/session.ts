/** Who is looking, and what they may do. */

import { get, send, session } from "../api/client";
import type { Role, Session } from "../api/types";
import { disconnect } from "../api/events";

const RANK: Record<Role, number> = { viewer: 0, operator: 1, editor: 2, admin: 3 };

/** A first start shows a link with a token behind '#', which no server sees; it is used once and taken out of sight. */
export async function signInFromAddress(): Promise<void> {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  if (token) {
    try {
      await signIn(token);
      return;
    } catch {
      // Used up or mistyped: whoever is signed in already stays so.
    }
  }
  try {
    session.value = await get<Session>("/session");
  } catch {
    session.value = null;
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
