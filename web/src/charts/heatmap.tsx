/** A year of days with their outcomes, in colour and in words; future days are hollow, clock changes are marked. */

import { useEffect } from "preact/hooks";
import type { Blackout, Day, ExcludedDay } from "../api/types";
import { counted, MONTHS, number } from "../time/words";
import { useWidth } from "../ui/width";

const CELL = 14;
const GAP = 3;
const LEFT = 30;
const TOP = 20;
/** Room for the frame of a chosen day. */
const EDGE = 2;
/** On wide screens the days are larger. */
const SCALE_MAX = 1.6;

/** Its start and end; a day on which the clocks change has 23 or 25 hours. */
export function boundsOf(day: Day): [number, number] {
  const start = Date.parse(day.start);
  return [start, start + (day.dst === "forward" ? 23 : day.dst === "back" ? 25 : 24) * 3_600_000];
}

function blackoutsOf(day: Day, blackouts: Blackout[]): Blackout[] {
  const [start, end] = boundsOf(day);
  return blackouts.filter((one) => Date.parse(one.from) < end && Date.parse(one.to) > start);
}

/** What a calendar takes from a day: of the past by the ledger, of the future by the calendars as they are now. */
function tellExcluded(day: Day, excluded: ExcludedDay | undefined): string {
  const past = day.skips["calendar"] ?? 0;
  const count = past + (excluded?.occurrences ?? 0);
  if (!count) return "";
  return `${counted(count, "occurrence")} excluded by a calendar${excluded ? `: ${excluded.names.join(", ")}` : ""}`;
}

export function tellDay(day: Day, blackouts: Blackout[], excluded?: ExcludedDay): string {
  const parts: [number, string][] = [
    [day.succeeded, "succeeded"],
    [day.failed, "failed"],
    [day.skipped, "skipped"],
    [day.cancelled, "cancelled"],
    [day.running, "running"],
    [day.waiting, "waiting"],
    [day.caught_up, "caught up"],
    [day.backfilled, "backfilled"],
    [day.planned ?? 0, "to come"],
  ];
  const said = parts.filter(([count]) => count).map(([count, word]) => `${number(count)} ${word}`);
  const clock = day.dst ? `clocks go ${day.dst}` : "";
  const dark = blackoutsOf(day, blackouts).map((one) => `blackout of ${concernedJobs(one)}${one.reason ? `: ${one.reason}` : ""}`);
  return [day.date, said.join(" · ") || "nothing", tellExcluded(day, excluded), clock, ...dark].filter(Boolean).join("\n");
}

export function concernedJobs(one: Blackout): string {
  return one.is_for_all ? "all jobs" : [...one.jobs, ...one.tags.map((tag) => `tag ${tag}`)].join(", ");
}

interface Props {
  days: Day[];
  blackouts: Blackout[];
  excluded: ExcludedDay[];
  today: string;
  chosen?: string | undefined;
  onPick: (day: Day) => void;
}

export function HeatMap({ days, blackouts, excluded, today, chosen, onPick }: Props) {
  const [box, room] = useWidth<HTMLDivElement>();
  // Where the year is wider than the screen, its end is what people came for.
  useEffect(() => box.current?.scrollTo({ left: box.current.scrollWidth }), [days.length, room]);
  const first = days[0];
  if (!first) return null;
  const most = Math.max(1, ...days.map((day) => day.count));
  const without = new Map(excluded.map((one) => [one.date, one]));
  const shift = (new Date(`${first.date}T00:00Z`).getUTCDay() + 6) % 7;
  const weeks = Math.ceil((days.length + shift) / 7);
  const [width, height] = [EDGE + weeks * (CELL + GAP), TOP + 7 * (CELL + GAP) + 2];
  const scale = Math.min(SCALE_MAX, Math.max(1, room / (LEFT + width)));
  return (
    <div ref={box} class="heat-scroll" tabIndex={0} role="region" aria-label="Days">
      <svg class="heat-weekdays" width={LEFT * scale} height={height * scale} viewBox={`0 0 ${LEFT} ${height}`} aria-hidden="true">
        {["Mon", "Wed", "Fri", "Sun"].map((name, index) => (
          <text key={name} x="0" y={TOP + index * 2 * (CELL + GAP) + 11} class="heat-label">
            {name}
          </text>
        ))}
      </svg>
      <svg class="heat" width={width * scale} height={height * scale} viewBox={`0 0 ${width} ${height}`} role="group" aria-label="Calendar of days" onKeyDown={moveFocus}>
        <defs>
          <pattern id="heat-hatch" width="4" height="4" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
            <rect width="1.5" height="4" class="heat-hatch-line" />
          </pattern>
        </defs>
        {days.map((day, index) => {
          const place = index + shift;
          const [x, y] = [EDGE + Math.floor(place / 7) * (CELL + GAP), TOP + (place % 7) * (CELL + GAP)];
          return (
            <g key={day.date}>
              {day.date.endsWith("-01") && (
                <text x={x} y="12" class="heat-label">
                  {MONTHS[Number(day.date.slice(5, 7)) - 1]}
                  {day.date.slice(5, 7) === "01" && ` ${day.date.slice(0, 4)}`}
                </text>
              )}
              <DayBox day={day} blackouts={blackouts} excluded={without.get(day.date)} x={x} y={y} most={most} isToday={day.date === today} isChosen={day.date === chosen} onPick={onPick} />
            </g>
          );
        })}
      </svg>
    </div>
  );
}

const STEPS: Record<string, number> = { ArrowUp: -1, ArrowDown: 1, ArrowLeft: -7, ArrowRight: 7 };

/** By arrows from day to day and from week to week. */
function moveFocus(event: KeyboardEvent): void {
  const step = STEPS[event.key];
  if (step === undefined || !(event.currentTarget instanceof Element)) return;
  const days = [...event.currentTarget.querySelectorAll<SVGGElement>(".heat-day")];
  const next = days[days.indexOf(event.target as SVGGElement) + step];
  event.preventDefault();
  next?.focus();
}

interface BoxProps {
  day: Day;
  blackouts: Blackout[];
  excluded: ExcludedDay | undefined;
  x: number;
  y: number;
  most: number;
  isToday: boolean;
  isChosen: boolean;
  onPick: (day: Day) => void;
}

function DayBox({ day, blackouts, excluded, x, y, most, isToday, isChosen, onPick }: BoxProps) {
  const { count: total, failed: bad, skipped } = day;
  const level = total ? Math.max(1, Math.ceil((4 * Math.log1p(total)) / Math.log1p(most))) : 0;
  const caught = day.caught_up + day.backfilled;
  const kind = total && skipped / total > 0.5 ? "heat-skipped" : `heat-${level}`;
  // From the bottom up, by their share: one failure among a thousand runs is seen, and does not paint the day red.
  const red = bad ? Math.min(CELL, Math.max(4, Math.round(CELL * Math.sqrt(bad / total)))) : 0;
  const told = tellDay(day, blackouts, excluded);
  const isExcluded = !!excluded || !!day.skips["calendar"];
  const isDark = blackoutsOf(day, blackouts).length > 0;
  const isFuture = !total && (day.planned ?? 0) > 0;
  return (
    <g
      class="heat-day"
      role="button"
      // In lower case: inside SVG the other spelling is an attribute that means nothing, and no day could be reached.
      tabindex={isToday || isChosen ? 0 : -1}
      aria-label={told.replaceAll("\n", ", ")}
      aria-pressed={isChosen}
      data-tip={told}
      onClick={() => onPick(day)}
      onKeyDown={(event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), onPick(day))}
    >
      <rect x={x} y={y} width={CELL} height={CELL} rx="3" class={isFuture ? "heat-future" : kind} />
      {caught > 0 && <rect x={x} y={y} width={CELL} height={CELL} rx="3" fill="url(#heat-hatch)" />}
      {red > 0 && <path d={`M${x} ${y + CELL - red}h${CELL}v${red - 3}q0 3 -3 3h${6 - CELL}q-3 0 -3 -3z`} class="heat-bad" />}
      {red > 8 && <path d={`M${x + 4.5} ${y + CELL - red / 2 - 2.5}l5 5m0 -5l-5 5`} class="heat-cross" />}
      {isExcluded && <path d={`M${x + 2.5} ${y + CELL - 2.5}L${x + CELL - 2.5} ${y + 2.5}`} class="heat-excluded" />}
      {isDark && <path d={`M${x} ${y}h7l-7 7z`} class="heat-blackout" />}
      {day.dst && <circle cx={x + CELL - 2} cy={y + 2} r="2.5" class="heat-dst" />}
      {(isToday || isChosen) && <rect x={x - 1.5} y={y - 1.5} width={CELL + 3} height={CELL + 3} rx="4" class="heat-today" />}
    </g>
  );
}
