/** What is running, what failed, what is next, what was missed and why. */

import type { Fire, Hour, Overview } from "../api/types";
import { useApi } from "../api/use";
import { PageBody } from "../app";
import { jobPath } from "../state/route";
import { number } from "../time/words";
import { Glyph } from "../ui/icon";
import { BAD_STATES, REASONS, STATES } from "../ui/outcomes";
import { DefinitionProblems } from "../ui/definitions";
import { Card, Head, Loading, Problem } from "../ui/parts";
import { ActionTag, Start } from "../ui/fires";
import { JobName } from "../ui/job-name";
import { RunList } from "../ui/runs";
import { Time } from "../ui/time";
import { clock, everywhere } from "../time/words";
import { LOCAL_ZONE, shownZone } from "../state/zone";
import { Strip } from "./strip";

export function OverviewPage() {
  const { data, error, reload } = useApi<Overview>("/overview", () => true);
  return (
    <PageBody>
      <Head title="Overview" about="The last 24 hours and the next runs" />
      {error && <Problem error={error} onRetry={reload} />}
      {data ? <Cards overview={data} /> : !error && <Loading />}
    </PageBody>
  );
}

function Cards({ overview }: { overview: Overview }) {
  return (
    <>
      <Strip overview={overview} hasDetails />
      <DefinitionProblems problems={overview.problems} />
      <Card title="By hour" aside={<HourLegend />}>
        <HourChart hours={overview.hours} />
      </Card>
      <div class="columns">
        <Card title={`Running (${number(overview.running_count)})`} aside={<a href="/runs?state=running">All</a>}>
          <RunList runs={overview.running} empty="No runs are active." />
        </Card>
        <Card title="Failed" aside={<a href={`/runs?state=${BAD_STATES.join(",")}`}>All</a>}>
          <RunList runs={overview.failed} empty="No failures in the last 24 hours." />
        </Card>
        <Card title="Next" aside={<a href="/upcoming">All</a>}>
          <NextList fires={overview.next} />
        </Card>
        <Card title="Skipped, by reason" aside={<a href="/runs?state=skipped">All</a>}>
          <Skips skips={overview.day.skips} />
          <RunList runs={overview.missed} empty="No skips in the last 24 hours." />
        </Card>
        {overview.waiting_count > 0 && (
          <Card title={`Waiting (${number(overview.waiting_count)})`} aside={<a href="/queues">Queues</a>}>
            <RunList runs={overview.waiting} empty="" />
          </Card>
        )}
      </div>
    </>
  );
}

function NextList({ fires }: { fires: Fire[] }) {
  if (!fires.length) return <p class="list-empty quiet">Nothing is scheduled.</p>;
  return (
    <ul class="list">
      {fires.map((fire) => (
        <li key={`${fire.job} ${fire.action} ${fire.scheduled_for}`}>
          <a class="list-row" href={jobPath(fire.job)}>
            <Glyph look={STATES.planned} size={11} />
            <span class="cut grow">
              <JobName job={fire.job} name={fire.job_name} />
            </span>
            <ActionTag action={fire.action} />
            <Start fire={fire} />
            <span class="small nowrap">
              <Time at={fire.scheduled_for} zone={fire.timezone} isMixed />
            </span>
            <span class="quiet small nowrap list-when">
              <Time at={fire.starts_at ?? fire.scheduled_for} zone={fire.timezone} as="ago" />
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

function Skips({ skips }: { skips: Overview["day"]["skips"] }) {
  const found = Object.entries(skips).filter(([, count]) => count);
  if (!found.length) return null;
  return (
    <ul class="skips">
      {found.map(([reason, count]) => (
        <li key={reason}>
          <strong>{number(count ?? 0)}</strong> {reason} <span class="quiet small">{REASONS[reason]}</span>
        </li>
      ))}
    </ul>
  );
}

function HourLegend() {
  return (
    <span class="row small quiet">
      <Glyph look={STATES.succeeded} size={10} /> succeeded <Glyph look={STATES.failed} size={10} /> failed <Glyph look={STATES.skipped} size={10} />{" "}
      skipped <Glyph look={STATES.cancelled} size={10} /> cancelled
    </span>
  );
}

function HourChart({ hours }: { hours: Hour[] }) {
  const shown = hours.map(({ at, succeeded, failed, skipped, cancelled }) => ({ at, good: succeeded, bad: failed, skipped, cancelled }));
  const most = Math.max(1, ...shown.map((hour) => hour.good + hour.bad + hour.skipped + hour.cancelled));
  const zone = shownZone();
  return (
    <>
    <div class="hour-chart" role="img" aria-label={shown.map((hour) => `${hour.at.slice(11, 16)} UTC: ${hour.good} succeeded, ${hour.bad} failed, ${hour.skipped} skipped, ${hour.cancelled} cancelled`).join("; ")}>
      {shown.map((hour) => (
        <div
          key={hour.at}
          class="hour"
          data-tip={`${number(hour.good)} succeeded · ${number(hour.bad)} failed · ${number(hour.skipped)} skipped · ${number(hour.cancelled)} cancelled\n${everywhere(Date.parse(hour.at), LOCAL_ZONE).join("\n")}`}
        >
          <span class="hour-skipped" style={{ height: `${(100 * hour.skipped) / most}%` }} />
          <span class="hour-cancelled" style={{ height: `${(100 * hour.cancelled) / most}%` }} />
          <span class="hour-bad" style={{ height: hour.bad ? `max(3px, ${(100 * hour.bad) / most}%)` : "0" }} />
          <span class="hour-good" style={{ height: `${(100 * hour.good) / most}%` }} />
        </div>
      ))}
    </div>
    <div class="hour-axis small quiet" aria-hidden="true">
      {shown.map((hour) => {
        const label = clock(Date.parse(hour.at), zone).slice(0, 5);
        return <span key={hour.at}>{Number(label.slice(0, 2)) % 6 === 0 && label}</span>;
      })}
    </div>
    </>
  );
}
