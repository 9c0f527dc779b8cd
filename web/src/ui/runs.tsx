/** Entries of the ledger as a table. */

import type { Run } from "../api/types";
import { whyPath } from "../timeline/input";
import { jobPath, runPath } from "../state/route";
import { counted } from "../time/words";
import { StateBadge, TriggerBadge } from "./badges";
import { JobName } from "./job-name";
import { ACTIVE_STATES } from "./outcomes";
import { Select, SelectAll } from "./selection";
import { Counting, Span, Time } from "./time";

interface Props {
  runs: Run[];
  caption: string;
  /** Leave the job out where all lines are of one. */
  isOneJob?: boolean;
  /** Whether lines can be selected. */
  isSelectable?: boolean;
  zoneOf?: ((job: string) => string | undefined) | undefined;
}

export function RunTable({ runs, caption, isOneJob, isSelectable, zoneOf }: Props) {
  return (
    <div class="table-scroll" tabIndex={0} role="group" aria-label="Table">
      <table>
        <caption class="hidden-text">{caption}</caption>
        <thead>
          <tr>
            {isSelectable && <SelectAll ids={runs.map((run) => run.run)} what="runs" />}
            <th scope="col">Due</th>
            {!isOneJob && <th scope="col">Job</th>}
            <th scope="col">Outcome</th>
            <th scope="col">Trigger</th>
            <th scope="col" class="right">
              Late
            </th>
            <th scope="col" class="right">
              Took
            </th>
            <th scope="col" class="is-wide-only">
              Details
            </th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <RunRow key={run.run} run={run} isOneJob={!!isOneJob} isSelectable={!!isSelectable} zone={run.timezone ?? zoneOf?.(run.job)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function pathOf(run: Run): string {
  return run.state === "skipped" ? whyPath(run.job, Date.parse(run.scheduled_for)) : runPath(run.run);
}

function RunRow({ run, isOneJob, isSelectable, zone }: { run: Run; isOneJob: boolean; isSelectable: boolean; zone: string | undefined }) {
  return (
    <tr>
      {isSelectable && <Select id={run.run} />}
      <td class="nowrap">
        <a href={pathOf(run)}>
          <Time at={run.scheduled_for} zone={zone} isMixed={!isOneJob} />
        </a>
        {run.through && (
          <>
            {" "}
            to <Time at={run.through} zone={zone} isMixed={!isOneJob} />
          </>
        )}
      </td>
      {!isOneJob && (
        <td>
          <a href={jobPath(run.job)}>
            <JobName job={run.job} name={run.job_name} />
          </a>
        </td>
      )}
      <td class="nowrap">
        <StateBadge state={run.state} reason={run.reason} />
        {run.occurrences > 1 && <span class="small quiet"> {counted(run.occurrences, "time")}</span>}
        {run.attempt > 1 && <span class="small quiet"> attempt {run.attempt}</span>}
      </td>
      <td>
        <TriggerBadge trigger={run.trigger} />
      </td>
      <td class="right nowrap">
        <Span seconds={run.lateness_seconds} />
      </td>
      <td class="right nowrap">{ACTIVE_STATES.includes(run.state) ? <Counting since={run.started_at} /> : <Span seconds={run.duration_seconds} />}</td>
      <td class="quiet small said is-wide-only">
        <span class="cut" data-tip={run.detail.length > 60 ? run.detail : undefined}>
          {run.detail}
        </span>
      </td>
    </tr>
  );
}

/** The same, short: for cards. */
export function RunList({ runs, empty, isOneJob }: { runs: Run[]; empty: string; isOneJob?: boolean }) {
  if (!runs.length) return <p class="list-empty quiet">{empty}</p>;
  return (
    <ul class="list">
      {runs.map((run) => (
        <li key={run.run}>
          <a class="list-row" href={pathOf(run)}>
            <StateBadge state={run.state} reason={run.reason} />
            <span class="cut grow">{isOneJob ? <Time at={run.scheduled_for} zone={run.timezone} /> : <JobName job={run.job} name={run.job_name} />}</span>
            {run.trigger !== "scheduler" && <TriggerBadge trigger={run.trigger} />}
            <span class="quiet small nowrap">
              {ACTIVE_STATES.includes(run.state) ? <Counting since={run.started_at} /> : <Time at={run.scheduled_for} zone={run.timezone} as="ago" />}
            </span>
          </a>
        </li>
      ))}
    </ul>
  );
}

export function More({ hasMore, onMore }: { hasMore: boolean; onMore: () => void }) {
  if (!hasMore) return null;
  return (
    <div class="table-foot">
      <button type="button" class="button is-small" onClick={onMore}>
        Show more
      </button>
    </div>
  );
}
