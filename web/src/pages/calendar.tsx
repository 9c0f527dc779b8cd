/** How the days were: a heat map of a year, of one job or of all. */

import { useEffect, useState } from "preact/hooks";
import { withQuery } from "../api/client";
import type { Blackout, Calendar, Day, ExcludedDay } from "../api/types";
import { useApi } from "../api/use";
import { PageBody } from "../app";
import { boundsOf, HeatMap, tellDay } from "../charts/heatmap";
import { nowMs } from "../state/now";
import { shownZone } from "../state/zone";
import { date, number } from "../time/words";
import { Card, Empty, Head, Loading, Problem } from "../ui/parts";
import { BlackoutsCard } from "./blackouts";

const DAY = 86_400_000;

export function CalendarPage() {
  return (
    <PageBody>
      <Head title="Calendar" about="Each day of the last year and the next four weeks" />
      <CalendarAndBlackouts />
    </PageBody>
  );
}

function CalendarAndBlackouts() {
  const [changes, setChanges] = useState(0);
  // The days above it would push it down.
  const [isKnown, setKnown] = useState(false);
  return (
    <>
      <CalendarCard target="/calendar" changes={changes} onKnown={() => setKnown(true)} />
      {isKnown && <BlackoutsCard onChange={() => setChanges((count) => count + 1)} />}
    </>
  );
}

interface Props {
  target: string;
  job?: string;
  jobZone?: string;
  /** Grows when something changed that no event tells. */
  changes?: number;
  /** Called when the days are there, or cannot be. */
  onKnown?: () => void;
}

export function CalendarCard({ target, job, jobZone, changes = 0, onKnown }: Props) {
  const zone = shownZone(jobZone);
  const now = nowMs();
  const today = date(now, zone);
  const address = withQuery(target, { from: date(now - 364 * DAY, zone), to: date(now + 28 * DAY, zone), zone });
  const { data, error, reload } = useApi<Calendar>(address);
  const [chosen, setChosen] = useState<Day | null>(null);
  const isKnown = !!data || !!error;
  useEffect(() => (isKnown ? onKnown?.() : undefined), [isKnown]);
  useEffect(() => (changes ? reload() : undefined), [changes]);
  return (
    <Card title={zone} aside={<HeatLegend />}>
      {error && <Problem error={error} onRetry={reload} />}
      {!data && !error && <Loading />}
      {data && (
        <div class="card-body">
          <HeatMap days={data.days} blackouts={data.blackouts} excluded={data.excluded} today={today} chosen={chosen?.date} onPick={setChosen} />
          {chosen ? <ChosenDay day={chosen} blackouts={data.blackouts} excluded={data.excluded.find((one) => one.date === chosen.date)} job={job} /> : <Year days={data.days} />}
        </div>
      )}
      {data && !data.days.length && <Empty title="No days" icon="calendar" />}
    </Card>
  );
}

function ChosenDay({ day, blackouts, excluded, job }: { day: Day; blackouts: Blackout[]; excluded: ExcludedDay | undefined; job: string | undefined }) {
  const [start, end] = boundsOf(day);
  const range = `from=${new Date(start).toISOString()}&to=${new Date(end).toISOString()}`;
  const middle = new Date((start + end) / 2).toISOString();
  return (
    <p class="row wrap heat-said" role="status">
      <span class="grow">{tellDay(day, blackouts, excluded).replaceAll("\n", " · ")}</span>
      <a class="button is-small" href={`/runs?${job ? `job=${encodeURIComponent(job)}&` : ""}${range}`}>
        Show runs
      </a>
      <a class="button is-small" href={`/?${job ? `search=${encodeURIComponent(job)}&` : ""}at=${middle}&span=${end - start}`}>
        Show on timeline
      </a>
    </p>
  );
}

function Year({ days }: { days: Day[] }) {
  const sum = (of: (day: Day) => number) => days.reduce((total, day) => total + of(day), 0);
  return (
    <p class="quiet small heat-said">
      In this year: {number(sum((day) => day.succeeded))} succeeded, {number(sum((day) => day.failed))} failed,{" "}
      {number(sum((day) => day.skipped))} skipped. Pick a day to look into it.
    </p>
  );
}

function HeatLegend() {
  return (
    <span class="row small quiet heat-legend" aria-hidden="true">
      <span class="row">
        few
        {[1, 2, 3, 4].map((level) => (
          <span key={level} class={`heat-key heat-key-${level}`} />
        ))}
        many
      </span>
      {KEYS.map(([kind, word]) => (
        <span key={kind} class="row">
          <span class={`heat-key heat-key-${kind}`} /> {word}
        </span>
      ))}
    </span>
  );
}

const KEYS = [
  ["bad", "failures"],
  ["future", "to come"],
  ["excluded", "excluded by a calendar"],
  ["blackout", "blackout"],
] as const;
