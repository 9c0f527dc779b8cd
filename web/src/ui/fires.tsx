/** When something is due next, on the clock of its own zone. */

import type { Fire } from "../api/types";
import { offsetMs } from "../time/zones";
import { Time } from "./time";

type Due = Pick<Fire, "scheduled_for" | "local" | "offset" | "timezone"> & { note?: string | null; detail?: string; action?: Fire["action"]; starts_at?: string | null };

const ACTIONS = {
  stop: { word: "stops", tip: "Stops the active run; starts nothing" },
  restart: { word: "restarts", tip: "Stops the active run and starts it again" },
} as const;

/** A schedule may stop or restart runs; without a word, a time is one at which a run starts. */
export function ActionTag({ action }: { action: Fire["action"] }) {
  if (action === "start") return null;
  const { word, tip } = ACTIONS[action];
  return (
    <span class="trigger" data-tip={tip}>
      {word}
    </span>
  );
}

/** Where jitter delays the start of an occurrence. */
export function Start({ fire }: { fire: Pick<Due, "starts_at" | "timezone"> }) {
  if (!fire.starts_at) return null;
  return (
    <span class="quiet small nowrap" data-tip="Jitter delays the start">
      starts <Time at={fire.starts_at} zone={fire.timezone} /> (jitter)
    </span>
  );
}

/** A note is shown where the clock changes in between. */
export function Fires({ fires }: { fires: Due[] }) {
  return (
    <ol class="fires">
      {fires.map((fire, index) => {
        const before = fires[index - 1];
        const at = Date.parse(fire.scheduled_for);
        const moved = before ? offsetMs(at, fire.timezone) - offsetMs(Date.parse(before.scheduled_for), fire.timezone) : 0;
        return (
          <li key={`${fire.scheduled_for} ${fire.action}`}>
            {moved !== 0 && <div class="fires-note small">the clock goes {moved > 0 ? "forward" : "back"}</div>}
            <div class="row">
              <span class="mono">{fire.local}</span>
              <span class="grow">{fire.action && <ActionTag action={fire.action} />}</span>
              <span class="quiet small">{fire.offset}</span>
              <span class="small list-when quiet">
                <Time at={fire.starts_at ?? fire.scheduled_for} zone={fire.timezone} as="ago" />
              </span>
            </div>
            <Start fire={fire} />
            {fire.note && <div class="fires-note small">{fire.note}</div>}
            {fire.detail && fire.detail !== before?.detail && <div class="fires-note small">{fire.detail}</div>}
          </li>
        );
      })}
    </ol>
  );
}
