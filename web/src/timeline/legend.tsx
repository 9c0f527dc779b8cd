/** What the shapes and colours of the timeline mean. */

import { useState } from "preact/hooks";
import type { RunState } from "../api/types";
import { Dialog } from "../ui/dialog";
import { Glyph } from "../ui/icon";
import { STATES } from "../ui/outcomes";
import { Button } from "../ui/parts";

const SHOWN: RunState[] = ["succeeded", "failed", "timed_out", "lost", "cancelled", "skipped", "running", "retrying", "waiting", "planned"];

export function Legend() {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button isSmall kind="bare" onClick={() => setOpen(true)}>
        Legend
      </Button>
      {isOpen && (
        <Dialog title="How to read the timeline" onClose={() => setOpen(false)}>
          <ul class="legend">
            {SHOWN.map((state) => (
              <li key={state}>
                <Glyph look={STATES[state]} size={14} /> {STATES[state].word}
              </li>
            ))}
            <li>
              <Glyph look={STATES.succeeded} size={14} isHatched /> Hatched: caught up or backfilled
            </li>
            <li>
              <span class="legend-gap" /> Bar: occurrences skipped together, and why
            </li>
            <li>
              <span class="legend-tail" /> Tail: how late it started
            </li>
            <li>
              <span class="legend-bar" /> Rounded bar: how long it took
            </li>
            <li>
              <span class="legend-cells" /> Columns: many occurrences, the red ones failed
            </li>
          </ul>
          <p class="quiet small">
            Drag or Shift-wheel moves through time, Ctrl-wheel or pinch zooms from a year to a second, the wheel scrolls the jobs. With the
            keyboard: Tab to the timeline, arrows walk along runs, + and − zoom, Shift with arrows moves, N returns to now, Enter opens.
          </p>
        </Dialog>
      )}
    </>
  );
}
