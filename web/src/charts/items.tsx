/** The items of a step as a field of squares: a thousand fit, and the one that failed is seen at once. */

import type { AttemptStep } from "../api/types";
import { counted, span } from "../time/words";
import { Glyph } from "../ui/icon";
import { lookOf } from "../ui/outcomes";

interface Props {
  items: AttemptStep[];
  chosen: string | undefined;
  onPick: (step: string) => void;
}

/** In the order in which they need a look. */
const ORDER = ["failed", "lost", "running", "skipped", "succeeded"];

export function ItemField({ items, chosen, onPick }: Props) {
  const sorted = items.toSorted((one, other) => numberOf(one) - numberOf(other));
  return (
    <div class="items" role="group" aria-label={`Items of ${items[0]?.item_of ?? ""}`}>
      <p class="small quiet">{summary(items)}</p>
      <div class="items-field">
        {sorted.map((item) => (
          <button key={item.name} type="button" class={`item on-${lookOf(item.state ?? "unknown").color}`} aria-pressed={item.name === chosen} aria-label={`${item.name}: ${words(item)}`} data-tip={`${item.name}\n${words(item)}`} onClick={() => onPick(item.name)}>
            <Glyph look={lookOf(item.state ?? "unknown")} size={10} />
          </button>
        ))}
      </div>
    </div>
  );
}

/** `60 items: 2 failed, 3 running, 55 succeeded`. */
function summary(items: AttemptStep[]): string {
  const counts = new Map<string, number>();
  for (const item of items) counts.set(item.state ?? "unknown", (counts.get(item.state ?? "unknown") ?? 0) + 1);
  const states = [...counts].toSorted(([one], [other]) => ORDER.indexOf(one) - ORDER.indexOf(other));
  return `${counted(items.length, "item")}: ${states.map(([state, count]) => `${count} ${lookOf(state).word.toLowerCase()}`).join(", ")}`;
}

function words(item: AttemptStep): string {
  const took = item.duration_seconds === null ? "" : span(item.duration_seconds * 1000);
  return [item.item, lookOf(item.state ?? "unknown").word, item.reused_from ? "not repeated" : took, item.tries > 1 ? `${item.tries} tries` : "", item.executor && `on ${item.executor}`, item.detail].filter(Boolean).join(" · ");
}

/** `render[12]` is number 12. */
function numberOf(item: AttemptStep): number {
  return Number(item.name.slice((item.item_of ?? "").length + 1, -1));
}
