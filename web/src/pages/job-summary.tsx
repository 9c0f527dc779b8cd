/** What a job does, how it went lately, and when it is due next. */

import { path } from "../api/client";
import { jobQuestions } from "../api/questions";
import type { BackfillProgress, Durations, Graph, JobDetail, JobUpcoming, Page, Run, RunDetail, StepHistory } from "../api/types";
import { useApi } from "../api/use";
import { DurationChart, LatenessChart } from "../charts/run-chart";
import { StepGraph } from "../charts/graph";
import { StepGrid, Weekdays } from "../charts/step-grid";
import { runPath } from "../state/route";
import { NeverRan, StateBadge } from "../ui/badges";
import { Card, Empty, Fact, Facts, Loading } from "../ui/parts";
import { Fires } from "../ui/fires";
import { RunList } from "../ui/runs";
import { Span, Time } from "../ui/time";
import { JobBackfills } from "./job-backfills";
import { percent } from "./strip";

export function JobSummary({ job }: { job: JobDetail }) {
  const isOwn = (event: { job?: string }) => event.job === job.job;
  const durations = useApi<Durations>(jobQuestions.durations(job.job), isOwn);
  const recent = useApi<Page<Run>>(jobQuestions.recent(job.job), isOwn);
  const history = useApi<StepHistory>(jobQuestions.steps(job.job), isOwn);
  const graph = useApi<Graph>(job.is_defined ? jobQuestions.graph(job.job) : null);
  const backfills = useApi<{ items: BackfillProgress[] }>(jobQuestions.backfills(job.job), isOwn);
  const upcoming = useApi<JobUpcoming>(job.is_defined ? jobQuestions.upcoming(job.job) : null, isOwn);
  const { data: stats } = durations;
  // All at once: a card that came late would push down what is being read.
  const isReady = [history, graph, durations, recent, backfills, upcoming].every((one) => one.data !== undefined || one.error !== undefined || !one.isLoading);
  return (
    <>
      <Card>
        <div class="card-body">
          <Facts>
            <Fact name="Next">
              {job.next_at ? (
                <>
                  <Time at={job.next_at} zone={job.timezone} /> <span class="quiet">(</span>
                  <Time at={job.next_at} zone={job.timezone} as="ago" />
                  <span class="quiet">)</span>
                  {job.next_starts_at && (
                    <>
                      , starts <Time at={job.next_starts_at} zone={job.timezone} /> (jitter)
                    </>
                  )}
                </>
              ) : (
                "–"
              )}
            </Fact>
            <Fact name="Last">
              {job.last ? (
                <a href={runPath(job.last.run)} class="row wrap">
                  <StateBadge state={job.last.state} /> <Time at={job.last.scheduled_for} zone={job.timezone} />
                </a>
              ) : (
                <NeverRan job={job} />
              )}
            </Fact>
            <Fact name="Schedule">
              {job.schedules.map((schedule) => (
                <div key={schedule}>
                  <code>{schedule}</code>
                </div>
              ))}
              {!job.schedules.length && "none"}
            </Fact>
            <Fact name="Success rate">{stats?.success_rate === null || !stats ? "–" : percent(stats.success_rate)}</Fact>
            <Fact name="Usual duration">
              <Span seconds={stats?.percentiles.p50} />
            </Fact>
            <Fact name="Lateness, p99">
              <Span seconds={stats?.lateness.p99} />
            </Fact>
            {job.queue && <Fact name="Queue">{job.queue}</Fact>}
          </Facts>
        </div>
      </Card>
      {isReady && <JobBackfills job={job} backfills={backfills.data?.items ?? []} onChange={backfills.reload} />}
      {isReady ? (
        <div class="job-cards">
          <Card title="Run durations" class="card-durations">
            {stats ? <DurationChart durations={stats} zone={job.timezone} /> : <Loading />}
          </Card>
          <Card title="Lateness" class="card-lateness">
            {stats ? <LatenessChart durations={stats} zone={job.timezone} /> : <Loading />}
          </Card>
          {history.data && history.data.runs.length > 0 && (
            <Card title="By weekday" aside={<span class="quiet small">{history.data.timezone}</span>} class="card-weekdays">
              <Weekdays days={history.data.weekdays} />
            </Card>
          )}
          <Card title="Latest" aside={<a href="?tab=ledger">Ledger</a>} class="span-some">
            {recent.data ? <RunList runs={recent.data.items.map((run) => ({ ...run, timezone: job.timezone }))} empty="No runs yet." isOneJob /> : <Loading />}
          </Card>
          <NextFires job={job} upcoming={upcoming.data} />
          {hasSteps(history.data) && (
            <Card title="Steps in the last runs" class="span-half">
              <StepGrid history={history.data} />
            </Card>
          )}
          <Steps job={job} graph={graph.data} />
        </div>
      ) : (
        <Loading lines={8} />
      )}
    </>
  );
}

/** The grid of a job with one step would say again what the runs say. */
function hasSteps(history: StepHistory | undefined): history is StepHistory {
  return history !== undefined && history.runs.length > 0 && history.steps.length > 1;
}

/** Steps that can be read beside another card. */
const GRAPH_HALF_MAX = 12;

function Steps({ job, graph }: { job: JobDetail; graph: Graph | undefined }) {
  const shown = job.active_runs[0] ?? job.last;
  const isDrawn = graph !== undefined && graph.nodes.length > 0 && (graph.nodes.length > 1 || graph.after.length > 0 || graph.before.length > 0);
  const run = useApi<RunDetail>(shown && isDrawn ? path`/runs/${shown.run}` : null, (event) => event.job === job.job);
  if (!isDrawn) return null;
  const { after, before } = graph;
  return (
    <Card
      title="Steps"
      class={graph.nodes.length > GRAPH_HALF_MAX ? "card-graph" : "span-half"}
      aside={
        shown && (
          <a href={runPath(shown.run)} class="small">
            as in the run of <Time at={shown.scheduled_for} zone={job.timezone} />
          </a>
        )
      }
    >
      <StepGraph graph={graph} steps={(run.data?.steps ?? []).filter((step) => step.attempt === run.data?.attempt)} />
      {(after.length > 0 || before.length > 0) && (
        <p class="card-body quiet small">
          {after.length > 0 && <>Starts after {links(after)}. </>}
          {before.length > 0 && <>When it ends, it can start {links(before)}.</>}
        </p>
      )}
    </Card>
  );
}

function links(jobs: string[]) {
  return jobs.map((job, index) => (
    <>
      {index > 0 && ", "}
      <a key={job} href={`/jobs/${encodeURIComponent(job)}`}>
        {job}
      </a>
    </>
  ));
}

function NextFires({ job, upcoming: data }: { job: JobDetail; upcoming: JobUpcoming | undefined }) {
  return (
    <Card title="Next starts" aside={<span class="quiet small">{job.timezone}</span>} class="span-some">
      {data?.meaning.map((words) => (
        <p key={words} class="card-body meaning">
          {words}
        </p>
      ))}
      {data?.items.length ? <Fires fires={data.items} /> : <Empty title={job.paused_at ? "Paused" : "Nothing is scheduled"} icon="upcoming" />}
      {data?.dst_notes.slice(0, 3).map((note) => (
        <p key={note.at} class="note is-warning fires-dst">
          <strong>{note.local}</strong> {note.text}
        </p>
      ))}
    </Card>
  );
}
