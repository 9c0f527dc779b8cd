/** In which zone times are shown: the browser's, the job's own, or UTC. */

import { keptSignal } from "./kept";

export const ZONES = ["local", "job", "utc"] as const;
export const zoneChoice = keptSignal("zone", ZONES, "local");

export const LOCAL_ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

export function shownZone(jobZone?: string): string {
  if (zoneChoice.value === "utc") return "UTC";
  return zoneChoice.value === "job" && jobZone ? jobZone : LOCAL_ZONE;
}
