/** A short message about an action; it disappears by itself, and screen readers read it. */

import { signal } from "@preact/signals";

interface Word {
  id: number;
  text: string;
  isBad: boolean;
}

const words = signal<Word[]>([]);
let count = 0;

export function say(text: string, isBad = false): void {
  const word = { id: ++count, text, isBad };
  words.value = [...words.value.slice(-3), word];
  window.setTimeout(() => (words.value = words.value.filter((one) => one !== word)), isBad ? 10_000 : 5_000);
}

/** Perform an action and show its result. */
export async function attempt(work: () => Promise<string>): Promise<void> {
  try {
    say(await work());
  } catch (error) {
    say((error as Error).message, true);
  }
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {words.value.map((word) => (
        <div key={word.id} class={word.isBad ? "toast is-bad" : "toast"}>
          {word.text}
        </div>
      ))}
    </div>
  );
}
