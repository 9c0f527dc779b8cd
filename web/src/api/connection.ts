/** Whether the page shows the current state: requests are answered, and events arrive. */

import { computed, signal } from "@preact/signals";
import { now, nowMs } from "../state/now";

/** Whether the live feed is open. */
export const isFeedOpen = signal(false);

/** Since when requests fail or the feed is closed; null: neither. */
const failingSince = signal<number | null>(null);
/** When the oldest request that waits for its answer was sent; null: none waits. */
const oldest = signal<number | null>(null);

/** A restart of the server takes this long; it causes no warning. */
const PATIENCE_MS = 3_000;
const SLOW_MS = 5_000;

const waiting = new Set<number>();

/** Count a request as in flight; returns the function to call when it is over. */
export function sent(): () => void {
  // Two within a millisecond must not be one.
  let at = nowMs();
  while (waiting.has(at)) at += 0.001;
  waiting.add(at);
  oldest.value ??= at;
  return () => {
    waiting.delete(at);
    oldest.value = waiting.size ? Math.min(...waiting) : null;
  };
}

export function answered(): void {
  if (isFeedOpen.value) failingSince.value = null;
}

export function failed(): void {
  failingSince.value ??= nowMs();
}

export function feedOpened(): void {
  isFeedOpen.value = true;
  failingSince.value = null;
}

export function feedClosed(): void {
  isFeedOpen.value = false;
  failed();
}

export function forget(): void {
  isFeedOpen.value = false;
  failingSince.value = null;
}

/** Since when the page may be out of date; null: it is current. */
export const staleSince = computed(() => {
  const since = failingSince.value;
  return since !== null && now.value - since >= PATIENCE_MS ? since : null;
});

export const connection = computed((): "opening" | "live" | "slow" | "away" => {
  if (!isFeedOpen.value && failingSince.value === null) return "opening";
  if (!isFeedOpen.value || staleSince.value !== null) return "away";
  return oldest.value !== null && now.value - oldest.value > SLOW_MS ? "slow" : "live";
});
