/** The current time, once a second; corrected by the server's clock. */

import { signal } from "@preact/signals";

let ahead = 0;

export const now = signal(Date.now());

export function nowMs(): number {
  return Date.now() + ahead;
}

/** A browser's clock may be minutes off; every answer that carries the server's time corrects ours. */
export function heardTime(text: string): void {
  const difference = Date.parse(text) - Date.now();
  // Less than two seconds is how long answers take.
  ahead = Math.abs(difference) < 2_000 ? 0 : difference;
}

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = nowMs();
  }, 1_000);
}
