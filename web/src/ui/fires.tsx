/** When something is due next, on the clock of its own zone. */

import type { Fire } from "../api/types";
import { offsetMs } from "../time/zones";
import { Time } from "./time";

/** A word stands where the clock changes in between. */
export function Fires({ fires }: { fires: (Pick<Fire, "scheduled_for" | "local" | "offset" | "timezone"> & { note?: string | null })[] }) {
  return (
    <ol class="fires">
      {fires.map((fire, index) => {
        const before = fires[index - 1];
        const at = Date.parse(fire.scheduled_for);
        const moved = before ? offsetMs(at, fire.timezone) - offsetMs(Date.parse(before.scheduled_for), fire.timezone) : 0;
        return (
          <li key={fire.scheduled_for}>
            {moved !== 0 && <div class="fires-note small">the clock goes {moved > 0 ? "forward" : "back"}</div>}
            <div class="row">
              <span class="mono grow">{fire.local}</span>
              <span class="quiet small">{fire.offset}</span>
              <span class="small list-when quiet">
                <Time at={fire.scheduled_for} zone={fire.timezone} as="ago" />
              </span>
            </div>
            {fire.note && <div class="fires-note small">{fire.note}</div>}
          </li>
        );
      })}
    </ol>
  );
}
