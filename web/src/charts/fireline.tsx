/** A few times on a small line of time. */

import { nowMs } from "../state/now";
import { inside, ticks } from "../time/axis";
import { LOCAL_ZONE } from "../state/zone";
import { everywhere } from "../time/words";
import { useWidth } from "../ui/width";

const HEIGHT = 62;

export function FireLine({ times, zone }: { times: number[]; zone: string }) {
  const [box, width] = useWidth<HTMLDivElement>();
  const from = nowMs();
  const to = Math.max(from + 1_000, (times.at(-1) ?? from) + ((times.at(-1) ?? from) - from) * 0.03);
  const x = (at: number) => 10 + ((at - from) / (to - from)) * Math.max(width - 20, 1);
  return (
    <div ref={box} class="chart">
      <svg width={width} height={HEIGHT} role="img" aria-label={`${times.length} fire times from now`}>
        <line class="fireline" x1="10" x2={width - 10} y1="22" y2="22" />
        <line class="fireline-now" x1="10" x2="10" y1="8" y2="36" />
        {ticks(from, to, width - 20, zone).map((tick) => (
          <g key={tick.at}>
            <line class="fireline" x1={x(tick.at)} x2={x(tick.at)} y1="30" y2="36" />
            <text class="axis-label" x={inside(x(tick.at), tick.label, width)} y="52">
              {tick.label}
            </text>
          </g>
        ))}
        {times.map((at) => (
          <circle key={at} class="fire" cx={x(at)} cy="22" r="5" data-tip={everywhere(at, LOCAL_ZONE, zone).join("\n")} />
        ))}
      </svg>
    </div>
  );
}
