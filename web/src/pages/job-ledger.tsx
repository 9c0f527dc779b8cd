/** The ledger of one job: every occurrence, its outcome, and why. */

import { useMemo, useRef, useState } from "preact/hooks";
import { askedAction } from "../actions";
import { path, send, withQuery } from "../api/client";
import { usePages } from "../api/pages";
import type { Backfill, JobDetail, NextStepKind, RequestStatus, Run, RunPage, SkipReason, Why } from "../api/types";
import { useApi, type Loaded } from "../api/use";
import { go, runPath, setQuery } from "../state/route";
import { may } from "../state/session";
import { shownZone } from "../state/zone";
import { Button, Card, Choice, Empty, Loading, Problem } from "../ui/parts";
import { ColumnPicker, sortingOf } from "../ui/columns";
import { Compared, More, runColumns, RunTable } from "../ui/runs";
import { Time } from "../ui/time";
import { attempt } from "../ui/toast";
import { Moment } from "./runs";

const KINDS = {
  all: [],
  runs: ["waiting", "launching", "running", "retrying", "succeeded", "failed", "timed_out", "cancelled", "lost"],
  skips: ["skipped"],
  bad: ["failed", "timed_out", "lost"],
} as const;

type Kind = keyof typeof KINDS;

export function JobLedger({ job, query }: { job: JobDetail; query: URLSearchParams }) {
  const at = query.get("at");
  const why = useApi<Why>(at ? withQuery(path`/jobs/${job.job}/why`, { at }) : null, (event) => event.job === job.job);
  const wasShown = useRef(false);
  // The explanation is above the ledger and would push it down. What is shown stays.
  wasShown.current ||= !at || why.data !== undefined || why.error !== undefined;
  return (
    <>
      {at && <WhyCard job={job} at={at} why={why} />}
      <Entries job={job} query={query} at={at} isShown={wasShown.current} />
    </>
  );
}

interface EntriesProps {
  job: JobDetail;
  query: URLSearchParams;
  at: string | null;
  isShown: boolean;
}

function Entries({ job, query, at, isShown }: EntriesProps) {
  const kind = ((query.get("show") ?? "all") in KINDS ? (query.get("show") ?? "all") : "all") as Kind;
  const { sort, isReversed } = sortingOf(query);
  const columns = useMemo(() => runColumns(job.timezone), [job.timezone]);
  const runs = usePages<Run, RunPage>(
    "/runs",
    { job: job.job, state: [...KINDS[kind]], trigger: query.get("trigger") ?? "", sort, reverse: isReversed || null, limit: 50 },
    (event) => event.job === job.job,
  );
  if (!isShown) return null;
  return (
    <>
      <div class="filters">
        <Choice
          label="Show"
          value={kind}
          options={[
            { value: "all", text: "Everything" },
            { value: "runs", text: "Runs" },
            { value: "skips", text: "Skips" },
            { value: "bad", text: "Failures" },
          ]}
          onPick={(show) => setQuery({ show: show === "all" ? null : show })}
        />
        <Moment label="Explain the occurrence at" value={at ?? ""} onPick={(moment) => setQuery({ at: moment })} />
        <span class="grow" />
        <ColumnPicker columns={columns} query={query} />
      </div>
      {runs.error && <Problem error={runs.error} onRetry={runs.reload} />}
      <Card>
        {!runs.first && runs.isLoading && <Loading />}
        {runs.first && !runs.items.length && (
          <Empty title={kind === "all" ? "No occurrences yet" : "No entries match"}>
            {kind === "all" ? "The first occurrence appears here when it is due." : <button type="button" class="button is-small" onClick={() => setQuery({ show: null })}>Show everything</button>}
          </Empty>
        )}
        {runs.items.length > 0 && <RunTable runs={runs.items} columns={columns} query={query} caption={`Ledger of ${job.job}`} />}
        <More hasMore={runs.hasMore} onMore={runs.more} />
        <Compared first={runs.first} />
      </Card>
    </>
  );
}

function WhyCard({ job, at, why: { data, error } }: { job: JobDetail; at: string; why: Loaded<Why> }) {
  return (
    <Card
      title={
        <>
          Why, at <Time at={data?.scheduled_for ?? at} zone={job.timezone} as="full" />
        </>
      }
      aside={
        <button type="button" class="button is-bare is-small" onClick={() => setQuery({ at: null })}>
          Close
        </button>
      }
    >
      <div class="card-body why">
        {error && <Problem error={error} />}
        {!data && !error && <Loading lines={2} />}
        {data && <p class="why-verdict">{capital(data.verdict)}</p>}
        {data?.sentences.map((text) => <p key={text}>{sentenceOf(text)}</p>)}
        {data && shownZone(job.timezone) !== data.timezone && data.sentences.length > 0 && <p class="quiet small">Times in these sentences are in {data.timezone}.</p>}
        {data && <WhyActions job={job} why={data} />}
        {data?.run && data.run.state !== "skipped" && (
          <p>
            <a href={runPath(data.run.run)}>Open the run</a>
          </p>
        )}
        {data?.other_run && (
          <p>
            <a href={runPath(data.other_run.run)}>Open the run that blocked it</a>
          </p>
        )}
        {data && !data.run && (data.nearest_before || data.nearest_after) && (
          <p class="row wrap">
            Nearest:
            {[data.nearest_before, data.nearest_after].map(
              (moment) =>
                moment && (
                  <button key={moment} type="button" class="button is-small" onClick={() => setQuery({ at: moment })}>
                    <Time at={moment} zone={job.timezone} as="full" />
                  </button>
                ),
            )}
          </p>
        )}
      </div>
    </Card>
  );
}

/** The command line writes them without a capital and a full stop. */
function sentenceOf(text: string): string {
  return capital(text) + (/[.:!?]$/.test(text) ? "" : ".");
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const CHANGES: Partial<Record<SkipReason, string>> = {
  overlap: "Queue instead of skipping",
  superseded: "Queue instead of skipping",
  missed: "Run missed occurrences",
  paused: "Run missed occurrences",
  "already-succeeded": "Run even after a success",
  disabled: "Enable the job",
};

function WhyActions({ job, why }: { job: JobDetail; why: Why }) {
  const [isShown, setShown] = useState(false);
  const run = () =>
    attempt(async () => {
      const at = Date.parse(why.scheduled_for);
      const asked = await send<Backfill>(path`/jobs/${job.job}/backfill`, { from: why.scheduled_for, to: new Date(at + 1000).toISOString(), only_missing: false });
      return asked.chosen ? "The occurrence is queued." : "The schedule has no occurrence at this time.";
    });
  const retry = () =>
    attempt(async () => {
      const asked = await send<RequestStatus>(`${path`/runs/${why.run?.run ?? ""}/retry`}?wait=5`, { from_failed: false });
      if (asked.run) go(runPath(asked.run));
      return asked.is_scheduler_running ? "Started a new run." : "No scheduler is running. The retry is queued and runs when one starts.";
    });
  const has = (kind: NextStepKind) => why.next_steps.some((step) => step.kind === kind);
  const canAct = may("operator") && job.is_defined;
  const canRun = canAct && has("run-occurrence");
  const canRetry = canAct && has("retry");
  const canResume = canAct && has("resume") && job.paused_at !== null;
  return (
    <>
      {has("verify") && <p>An administrator must copy the ledger and then verify it.</p>}
      <p class="row wrap">
        {canRun && (
          <Button isSmall kind="main" onClick={run}>
            Run this occurrence
          </Button>
        )}
        {canRetry && (
          <Button isSmall kind="main" onClick={retry}>
            Retry this run
          </Button>
        )}
        {canResume && (
          <Button isSmall onClick={() => (askedAction.value = { action: "resume", job: job.job })}>
            Resume the job
          </Button>
        )}
        {has("forget-node") && (
          <a class="button is-small" href="/executors">
            Show the nodes
          </a>
        )}
        {why.lines.length > 0 && (
          <Button isSmall onClick={() => setShown(!isShown)}>
            {(why.reason && CHANGES[why.reason]) ?? "Change the rule"}
          </Button>
        )}
      </p>
      {isShown && (
        <>
          <p>
            Write in <code>{why.policy_from && why.policy_from !== "default" ? why.policy_from : (job.file ?? "the job file")}</code>
            {why.policy && (
              <>
                {" "}
                instead of <code>{why.policy}</code>
              </>
            )}
            :
          </p>
          <pre class="code">{why.lines.join("\n")}</pre>
        </>
      )}
    </>
  );
}
