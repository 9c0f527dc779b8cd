/** How many occurrences fall together: finds the midnight at which everything starts at once. */

import { LOCAL_ZONE, shownZone } from "../state/zone";
import { inside, ticks } from "../time/axis";
import { counted, everywhere } from "../time/words";
import { useWidth } from "../ui/width";

const HEIGHT = 96;
const BAR_PX = 6;

export function Pileup({ minutes }: { minutes: { at: string; count: number }[] }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const zone = shownZone();
  const from = Date.parse(minutes[0]?.at ?? "");
  const to = Date.parse(minutes.at(-1)?.at ?? "") + 60_000;
  const count = Math.max(1, Math.min(minutes.length, Math.floor(width / BAR_PX)));
  const step = (to - from) / count;
  const wide = width / count;
  const bars = new Array<number>(count).fill(0);
  for (const minute of minutes) {
    const place = Math.min(count - 1, Math.floor((Date.parse(minute.at) - from) / step));
    bars[place] = (bars[place] ?? 0) + minute.count;
  }
  const most = Math.max(1, ...bars);
  const busiest = bars.indexOf(most);
  const busiestAt = everywhere(from + busiest * step, LOCAL_ZONE)[0];
  return (
    <div ref={box} class="chart pileup">
      <svg width={width} height={HEIGHT + 20} role="img" aria-label={`Busiest: ${counted(most, "start")} around ${busiestAt}`}>
        {bars.map((bar, index) =>
          bar ? (
            <rect
              key={index}
              class={index === busiest && most > 3 ? "pileup-bar is-most" : "pileup-bar"}
              x={index * wide}
              y={HEIGHT - (HEIGHT - 8) * (bar / most)}
              width={Math.max(1, wide - 1)}
              height={(HEIGHT - 8) * (bar / most)}
              data-tip={`${counted(bar, "start")}\n${everywhere(from + index * step, LOCAL_ZONE).join("\n")}`}
            />
          ) : null,
        )}
        {ticks(from, to, width, zone).map((tick) => (
          <text key={tick.at} class="axis-label" x={inside(((tick.at - from) / (to - from)) * width, tick.label, width)} y={HEIGHT + 15}>
            {tick.label}
          </text>
        ))}
      </svg>
    </div>
  );
}
