/** An instant on the page: in the chosen zone, and everywhere when pointed at. */

import { now } from "../state/now";
import { LOCAL_ZONE, shownZone, zoneChoice } from "../state/zone";
import { ago, everywhere, full, lasting, short, span } from "../time/words";

interface Props {
  at: string | null | undefined;
  zone?: string | undefined;
  /** `short` (default), `full`, `ago`: how long ago, or in how long, or `for`: how long it has been so. */
  as?: "short" | "full" | "ago" | "for" | undefined;
  /** Times of other zones stand beside it: it names its own where each is shown in its job's. */
  isMixed?: boolean | undefined;
}

export function Time({ at, zone, as = "short", isMixed }: Props) {
  if (!at) return <span class="quiet">–</span>;
  const ms = Date.parse(at);
  const shown = shownZone(zone);
  // Only what counts seconds listens to the clock; a table of old times does not redraw every second.
  const isSpan = as === "ago" || as === "for";
  const text = as === "full" ? full(ms, shown) : as === "ago" ? ago(ms, now.value) : as === "for" ? lasting(ms, now.value) : short(ms, shown, now.peek(), isMixed ? LOCAL_ZONE : shown);
  return (
    <time dateTime={at} data-tip={everywhere(ms, LOCAL_ZONE, zone).join("\n")}>
      {text}
      {isMixed && !isSpan && zoneChoice.value === "job" && <span class="zone-of"> {shown}</span>}
    </time>
  );
}

export function Span({ seconds }: { seconds: number | null | undefined }) {
  if (seconds === null || seconds === undefined) return <span class="quiet">–</span>;
  return <span>{span(seconds * 1000)}</span>;
}

/** How long something has been going on, counting. */
export function Counting({ since }: { since: string | null }) {
  if (!since) return <span class="quiet">–</span>;
  return <span>{span(Math.max(0, Math.floor((now.value - Date.parse(since)) / 1000) * 1000))}</span>;
}
