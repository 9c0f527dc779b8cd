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
            <li>
              <span class="legend-density" /> Shaded strip: many occurrences to come, darker means more
            </li>
            <li>
              <span class="legend-down" /> Band across all lanes: no scheduler ran
            </li>
            <li>
              <span class="legend-undecided" /> Dotted line: nothing is decided yet
            </li>
            <li>
              <span class="legend-troubled" /> Red edge: the job needs attention
            </li>
            <li>
              <span class="legend-beyond" /> Red arrow: it failed before or after this period
            </li>
          </ul>
          <p class="quiet small">
            Drag, or Shift and the mouse wheel, to move in time. Ctrl and the wheel, or pinch, to zoom from a year to a second. The wheel scrolls the jobs.
            Keyboard: Tab to the timeline, arrow keys to go from run to run, + and − to zoom, Shift and arrows to move, N for now, Enter to open.
          </p>
        </Dialog>
      )}
    </>
  );
}
