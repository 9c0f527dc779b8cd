/** What is due in the next hours across all jobs, and when many of them are due at once. */

import { withQuery } from "../api/client";
import type { Fire, Load } from "../api/types";
import { useApi } from "../api/use";
import { PageBody } from "../app";
import { Pileup } from "../charts/pileup";
import { jobPath, setQuery } from "../state/route";
import { nowMs } from "../state/now";
import { counted, span } from "../time/words";
import { ActionTag, Start } from "../ui/fires";
import { JobName } from "../ui/job-name";
import { Card, Choice, Empty, Head, Loading, Problem } from "../ui/parts";
import { Time } from "../ui/time";

const HOUR = 3_600_000;
const SPANS = { "1": "1 h", "6": "6 h", "24": "24 h" } as const;
const COUNT_MAX = 1_000;
const ROWS = 100;

export function UpcomingPage({ query }: { query: URLSearchParams }) {
  const hours = (query.get("hours") ?? "6") in SPANS ? (query.get("hours") ?? "6") : "6";
  // To the minute, so that the address of the answer does not change with every look at it.
  const end = Math.ceil(nowMs() / 60_000) * 60_000 + Number(hours) * HOUR;
  const target = withQuery("/upcoming", { limit: COUNT_MAX, to: new Date(end).toISOString(), once: true });
  const { data, error, reload } = useApi<{ items: Fire[] }>(target);
  const load = useApi<Load>(withQuery("/load", { to: new Date(end).toISOString() }));
  const items = data?.items ?? [];
  const minutes = load.data?.minutes ?? [];
  // Both at once: the chart would push the table down.
  const isReady = !!data && (!!load.data || !!load.error);
  return (
    <PageBody>
      <Head title="Upcoming" about={load.data ? tellLoad(load.data, Number(hours)) : "…"}>
        <Choice
          label="How far ahead"
          value={hours as keyof typeof SPANS}
          options={Object.entries(SPANS).map(([value, text]) => ({ value: value as keyof typeof SPANS, text }))}
          onPick={(value) => setQuery({ hours: value === "6" ? null : value })}
        />
      </Head>
      {error && <Problem error={error} onRetry={reload} />}
      {!isReady && !error && <Loading lines={8} />}
      {isReady && minutes.some((minute) => minute.count) && (
        <Card title="Starts per minute">
          <Pileup minutes={minutes} />
        </Card>
      )}
      {isReady && data && (
        <Card title="Next start of each job">
          {!items.length && <Empty title="Nothing is scheduled" icon="upcoming" />}
          {items.length > 0 && <FireTable fires={items.slice(0, ROWS)} />}
          {items.length > ROWS && <p class="quiet small table-foot">The next {ROWS}.</p>}
        </Card>
      )}
    </PageBody>
  );
}

function tellLoad({ minutes, to }: Load, hours: number): string {
  const starts = counted(minutes.reduce((sum, minute) => sum + minute.count, 0), "start");
  const told = Date.parse(to) - nowMs();
  // Of very many jobs less far is counted than was asked for.
  return `${starts} in the next ${told < (hours - 0.5) * HOUR ? span(told) : counted(hours, "hour")}`;
}

function FireTable({ fires }: { fires: Fire[] }) {
  return (
    <div class="table-scroll" tabIndex={0} role="group" aria-label="Table">
      <table>
        <caption class="hidden-text">Next starts, soonest first</caption>
        <thead>
          <tr>
            <th scope="col">Due</th>
            <th scope="col">In</th>
            <th scope="col" class="due-job">
              Job
            </th>
            <th scope="col" class="from-roomy">
              In the job's zone
            </th>
          </tr>
        </thead>
        <tbody>
          {fires.map((fire) => (
            <tr key={`${fire.job} ${fire.action} ${fire.scheduled_for}`}>
              <td class="nowrap">
                <Time at={fire.scheduled_for} zone={fire.timezone} isMixed />
              </td>
              <td class="nowrap quiet">
                <Time at={fire.starts_at ?? fire.scheduled_for} zone={fire.timezone} as="ago" />
              </td>
              <td>
                <a href={jobPath(fire.job)}>
                  <JobName job={fire.job} name={fire.job_name} />
                </a>{" "}
                <ActionTag action={fire.action} />
                <Start fire={fire} />
              </td>
              <td class="quiet small nowrap from-roomy">
                {fire.local} {fire.timezone} {fire.offset}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
