/** The ledger of one job: every occurrence, what became of it, and why. */

import { path, withQuery } from "../api/client";
import { usePages } from "../api/pages";
import type { JobDetail, Run, Why } from "../api/types";
import { useApi } from "../api/use";
import { runPath, setQuery } from "../state/route";
import { Card, Choice, Empty, Loading, Problem } from "../ui/parts";
import { More, RunTable } from "../ui/runs";
import { Time } from "../ui/time";
import { Moment } from "./runs";

const KINDS = {
  all: [],
  runs: ["waiting", "launching", "running", "retrying", "succeeded", "failed", "timed_out", "cancelled", "lost"],
  skips: ["skipped"],
  bad: ["failed", "timed_out", "lost"],
} as const;

type Kind = keyof typeof KINDS;

export function JobLedger({ job, query }: { job: JobDetail; query: URLSearchParams }) {
  const kind = ((query.get("show") ?? "all") in KINDS ? (query.get("show") ?? "all") : "all") as Kind;
  const at = query.get("at");
  const runs = usePages<Run>(
    "/runs",
    { job: job.job, state: [...KINDS[kind]], trigger: query.get("trigger") ?? "", limit: 50 },
    (event) => event.job === job.job,
  );
  return (
    <>
      {at && <WhyCard job={job} at={at} />}
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
      </div>
      {runs.error && <Problem error={runs.error} onRetry={runs.reload} />}
      <Card>
        {!runs.first && runs.isLoading && <Loading />}
        {runs.first && !runs.items.length && <Empty title="No occurrences yet">The first occurrence appears here when it is due.</Empty>}
        {runs.items.length > 0 && <RunTable runs={runs.items} caption={`Ledger of ${job.job}`} isOneJob zoneOf={() => job.timezone} />}
        <More hasMore={runs.hasMore} onMore={runs.more} />
      </Card>
    </>
  );
}

function WhyCard({ job, at }: { job: JobDetail; at: string }) {
  const { data, error } = useApi<Why>(withQuery(path`/jobs/${job.job}/why`, { at }), (event) => event.job === job.job);
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
        {data && <p class="why-verdict">{data.verdict}</p>}
        {data?.sentences.map((sentence) => <p key={sentence}>{sentence}</p>)}
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
