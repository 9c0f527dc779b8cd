/** Summary, at a glance: one number each, and where to read more. */

import type { ComponentChildren } from "preact";
import type { Hour, Overview } from "../api/types";
import { jobPath } from "../state/route";
import { counted, number, span } from "../time/words";
import { Glyph } from "../ui/icon";
import { BAD_STATES, STATES } from "../ui/outcomes";
import { Time } from "../ui/time";

const DAY = 86_400_000;

/** Tiles without text, exactly as high as those with it: what is below does not move. */
function LoadingStrip() {
  return (
    <div class="strip is-loading" role="status" aria-label="Loading">
      {Array.from({ length: 6 }, (_, index) => (
        <div key={index} class="strip-tile" aria-hidden="true">
          <span class="strip-name">–</span>
          <span class="strip-value">–</span>
          <span class="strip-note">–</span>
        </div>
      ))}
    </div>
  );
}

/** `hasDetails`: no list of what needs attention is beside it. */
export function Strip({ overview, hasDetails }: { overview: Overview | undefined; hasDetails?: boolean }) {
  if (!overview) return <LoadingStrip />;
  const { day, next, jobs } = overview;
  const bad = BAD_STATES.reduce((sum, state) => sum + day[state], 0);
  const { lateness } = overview;
  // What stops a run is no start.
  const first = next.find((fire) => fire.action !== "stop");
  const since = `from=${new Date(Date.parse(overview.now) - DAY).toISOString()}`;
  return (
    <section class="strip" aria-label="Summary">
      {!overview.scheduler.alive && hasDetails && (
        <div class="strip-tile is-bad" role="alert">
          <span class="strip-name">No scheduler is running</span>
          <span class="strip-value small">No job runs until one starts.</span>
        </div>
      )}
      <Tile
        name="Running"
        href="/runs?state=running"
        glyph={<Glyph look={STATES.running} size={11} />}
        value={number(overview.running_count)}
        note={overview.waiting_count ? `${number(overview.waiting_count)} waiting` : `of ${counted(jobs.total, "job")}`}
      />
      <Tile
        name="Failed, 24 h"
        href={`/runs?state=${BAD_STATES.join(",")}&${since}`}
        glyph={<Glyph look={STATES.failed} size={11} />}
        value={number(bad)}
        note={jobs.error ? `${counted(jobs.error, "job")} in error` : "no jobs in error"}
        isBad={bad > 0}
      />
      <Tile
        name="Success, 24 h"
        href="/overview"
        value={day.success_rate === null ? "–" : percent(day.success_rate)}
        note={`${number(day.succeeded)} of ${number(day.succeeded + bad)}`}
        tip="Succeeded runs as a share of succeeded, failed, timed-out and lost runs. Cancelled runs are not counted."
      >
        <Hours hours={overview.hours} />
      </Tile>
      <Tile
        name="Skipped, 24 h"
        href={`/runs?state=skipped&${since}`}
        glyph={<Glyph look={STATES.skipped} size={11} />}
        value={number(day.skipped)}
        note={day.caught_up ? `${number(day.caught_up)} caught up` : (mostOf(day.skips) ?? "each with a reason")}
      />
      <Tile
        name="Lateness, p99"
        href="/overview"
        value={lateness.p99 === null ? "–" : span(lateness.p99 * 1000)}
        note={lateness.p50 === null ? "" : `p50 ${span(lateness.p50 * 1000)}`}
        tip="Scheduled runs only. Runs that were caught up or had to wait are not counted."
      />
      <Tile
        name="Next"
        href={first ? jobPath(first.job) : "/upcoming"}
        value={first ? <Time at={first.starts_at ?? first.scheduled_for} zone={first.timezone} as="ago" /> : "–"}
        note={first?.job_name ?? "nothing scheduled"}
      />
    </section>
  );
}

function mostOf(skips: Overview["day"]["skips"]): string | null {
  const [most] = Object.entries(skips).sort(([, one], [, other]) => (other ?? 0) - (one ?? 0));
  return most ? `mostly ${most[0]}` : null;
}

export function percent(share: number): string {
  // 99.96 % is not 100 %: one failed.
  return share === 1 ? "100 %" : `${(Math.floor(share * 1000) / 10).toFixed(1)} %`;
}

interface TileProps {
  name: string;
  href: string;
  value: ComponentChildren;
  note: ComponentChildren;
  glyph?: ComponentChildren;
  isBad?: boolean;
  tip?: string;
  children?: ComponentChildren;
}

function Tile({ name, href, value, note, glyph, isBad, tip, children }: TileProps) {
  return (
    <a class={isBad ? "strip-tile has-bad" : "strip-tile"} href={href} data-tip={tip}>
      <span class="strip-name">
        {glyph}
        {name}
      </span>
      <span class="strip-value">{value}</span>
      <span class="strip-note cut">{note}</span>
      {children}
    </a>
  );
}

/** The last 24 hours, an hour a bar. */
function Hours({ hours }: { hours: Hour[] }) {
  const shown = hours.slice(-24).map(({ at, succeeded, failed }) => ({ at, good: succeeded, bad: failed }));
  const most = Math.max(1, ...shown.map((hour) => hour.good + hour.bad));
  return (
    <svg class="strip-hours" viewBox="0 0 96 26" preserveAspectRatio="none" aria-hidden="true">
      {shown.map((hour, index) => {
        const good = (22 * hour.good) / most;
        const bad = hour.bad ? Math.max((22 * hour.bad) / most, 2) : 0;
        return (
          <g key={hour.at}>
            <rect class="fill-succeeded" x={index * 4} y={26 - good} width="3" height={good} />
            <rect class="fill-failed" x={index * 4} y={26 - good - bad} width="3" height={bad} />
          </g>
        );
      })}
    </svg>
  );
}
