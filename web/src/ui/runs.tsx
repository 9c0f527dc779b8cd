/** Entries of the ledger as a table. */

import type { Run, RunPage } from "../api/types";
import { whyPath } from "../timeline/input";
import { jobPath, runPath } from "../state/route";
import { counted } from "../time/words";
import { StateBadge, TriggerBadge } from "./badges";
import { type Column, ColumnTable } from "./columns";
import { JobName } from "./job-name";
import { ACTIVE_STATES } from "./outcomes";
import { Counting, Span, Time } from "./time";

interface Props {
  runs: Run[];
  caption: string;
  query: URLSearchParams;
  columns: readonly Column<Run>[];
  isSelectable?: boolean;
  isOld?: boolean;
}

export function RunTable({ runs, caption, query, columns, isSelectable, isOld }: Props) {
  return <ColumnTable items={runs} columns={columns} query={query} caption={caption} idOf={(run) => run.run} order="due" isOld={isOld ?? false} {...(isSelectable ? { selects: "runs" } : {})} />;
}

export function pathOf(run: Run): string {
  return run.state === "skipped" ? whyPath(run.job, Date.parse(run.scheduled_for)) : runPath(run.run);
}

/** `zone`: of the job whose ledger it is; without it the lines are of many jobs. */
export function runColumns(zone?: string): readonly Column<Run>[] {
  const isMixed = zone === undefined;
  const when = (run: Run, at: string | null | undefined) => <Time at={at} zone={run.timezone ?? zone} isMixed={isMixed} />;
  const job: Column<Run> = {
    id: "job",
    name: "Job",
    class: "job-cell",
    cell: (run) => (
      <a href={jobPath(run.job)} class="cut">
        <JobName job={run.job} name={run.job_name} />
      </a>
    ),
  };
  return [
    {
      id: "due",
      name: "Due",
      sort: "due",
      isDescending: true,
      class: "nowrap due-at",
      cell: (run) => (
        <>
          <a href={pathOf(run)}>{when(run, run.scheduled_for)}</a>
          {run.through && <> to {when(run, run.through)}</>}
        </>
      ),
    },
    ...(isMixed ? [job] : []),
    {
      id: "outcome",
      name: "Outcome",
      class: "nowrap outcome-cell",
      cell: (run) => (
        <>
          <StateBadge state={run.state} reason={run.reason} />
          {run.occurrences > 1 && <span class="small quiet"> {counted(run.occurrences, "time")}</span>}
          {run.attempt > 1 && <span class="small quiet"> attempt {run.attempt}</span>}
        </>
      ),
    },
    { id: "trigger", name: "Trigger", from: "roomy", cell: (run) => <TriggerBadge trigger={run.trigger} /> },
    { id: "started", name: "Started", from: "huge", class: "nowrap", cell: (run) => when(run, run.started_at) },
    { id: "late", name: "Late", sort: "lateness", isDescending: true, isRight: true, from: "roomy", class: "nowrap", cell: (run) => <Span seconds={run.lateness_seconds} /> },
    {
      id: "took",
      name: "Took",
      sort: "duration",
      isDescending: true,
      isRight: true,
      from: "roomy",
      class: "nowrap",
      cell: (run) => (ACTIVE_STATES.includes(run.state) ? <Counting since={run.started_at} /> : <Span seconds={run.duration_seconds} />),
    },
    { id: "exit", name: "Exit code", isRight: true, from: "huge", cell: (run) => run.exit_code ?? <span class="quiet">–</span> },
    { id: "executor", name: "Executor", from: "huge", class: "nowrap", cell: (run) => run.executor || <span class="quiet">–</span> },
    { id: "decided", name: "Decided", from: "never", class: "nowrap", cell: (run) => when(run, run.decided_at) },
    { id: "node", name: "Node", from: "never", class: "nowrap", cell: (run) => run.decided_by || <span class="quiet">–</span> },
    { id: "run", name: "Run id", from: "never", class: "nowrap", cell: (run) => <code class="small">{run.run}</code> },
    {
      id: "details",
      name: "Details",
      from: "wide",
      class: "quiet small said",
      cell: (run) => (
        <span class="cut" data-tip={run.detail.length > 60 ? run.detail : undefined}>
          {run.detail}
        </span>
      ),
    },
  ];
}

/** What a list by duration or lateness leaves out. */
export function Compared({ first }: { first: RunPage | undefined }) {
  if (!first?.compared) return null;
  return (
    <p class="table-foot quiet small">
      Compared: the newest {counted(first.compared, "entry", "entries")} that match. Choose a job or a period to compare others.
    </p>
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
