/** The selection in a table, and the bar with actions on it. */

import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { askedBulk, type BulkAction } from "../actions";
import { may } from "../state/session";
import { counted } from "../time/words";
import { Button } from "./parts";

/** Ids of jobs or runs, of the table that is shown. */
export const selection = signal<ReadonlySet<string>>(new Set());

/** A table begins with nothing selected, and leaves nothing behind. */
export function useSelection(): void {
  useEffect(() => {
    selection.value = new Set();
    return () => {
      selection.value = new Set();
    };
  }, []);
}

function toggle(ids: readonly string[], isOn: boolean): void {
  const chosen = new Set(selection.value);
  for (const id of ids) {
    if (isOn) chosen.add(id);
    else chosen.delete(id);
  }
  selection.value = chosen;
}

export function SelectAll({ ids, what }: { ids: readonly string[]; what: string }) {
  if (!may("operator")) return null;
  const count = ids.filter((id) => selection.value.has(id)).length;
  return (
    <th scope="col" class="select">
      <input
        type="checkbox"
        aria-label={`Select all ${what} shown`}
        checked={count > 0 && count === ids.length}
        ref={(box) => {
          if (box) box.indeterminate = count > 0 && count < ids.length;
        }}
        onChange={(event) => toggle(ids, event.currentTarget.checked)}
      />
    </th>
  );
}

export function Select({ id }: { id: string }) {
  if (!may("operator")) return null;
  return (
    <td class="select">
      <input type="checkbox" aria-label={`Select ${id}`} checked={selection.value.has(id)} onChange={(event) => toggle([id], event.currentTarget.checked)} />
    </td>
  );
}

const NAMES: Record<BulkAction, string> = { run: "Run now", pause: "Pause", resume: "Resume", backfill: "Backfill", retry: "Retry", "retry-failed": "Retry from the failed step", cancel: "Cancel" };

interface BarProps {
  what: "job" | "run";
  actions: readonly BulkAction[];
}

export function BulkBar({ what, actions }: BarProps) {
  const ids = [...selection.value];
  if (!ids.length) return null;
  return (
    <div class="bulk-bar" role="region" aria-label="Selection">
      <strong>{counted(ids.length, what)} selected</strong>
      {actions.map((action) => (
        <Button key={action} isSmall onClick={() => (askedBulk.value = { action, ...(what === "job" ? { jobs: ids } : { runs: ids }) })}>
          {NAMES[action]}
        </Button>
      ))}
      <span class="grow" />
      <Button isSmall kind="bare" onClick={() => (selection.value = new Set())}>
        Clear
      </Button>
    </div>
  );
}
