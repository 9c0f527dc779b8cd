/** What a person chose, kept in this browser. */

import { effect, signal, type Signal } from "@preact/signals";
import { readKept } from "./storage";

export function keptSignal<T extends string>(name: string, allowed: readonly T[], first: T): Signal<T> {
  const chosen = signal<T>(read(name, allowed) ?? first);
  effect(() => keep(name, chosen.value));
  return chosen;
}

export function keep(name: string, value: string): void {
  try {
    localStorage.setItem(`evertick.${name}`, value);
  } catch {
    // Storage may be forbidden; then the choice lasts as long as the page.
  }
}

function read<T extends string>(name: string, allowed: readonly T[]): T | null {
  const value = readKept(name) as T | null;
  return value !== null && allowed.includes(value) ? value : null;
}
