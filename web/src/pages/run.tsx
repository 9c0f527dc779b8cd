/** One run: its steps in time, what they print, and what can be done about it. */

import { useEffect, useRef, useState } from "preact/hooks";
import { path, send } from "../api/client";
import type { Attempt, AttemptStep, Graph, LogFile, RequestStatus, LossReason, RunDetail, StepState } from "../api/types";
import { useApi } from "../api/use";
import { PageBody } from "../app";
import { Gantt, type Chosen } from "../charts/gantt";
import type { StepGraph } from "../charts/graph";
import { ALL_STEPS } from "../log/reader";
import { LogView } from "../log/view";
import { whyPath } from "../timeline/input";
import { DefinitionAtStart } from "./run-definition";
import { go, jobPath, runPath, setQuery } from "../state/route";
import { may } from "../state/session";
import { shownZone } from "../state/zone";
import { bytes, span } from "../time/words";
import { StateBadge, TriggerBadge } from "../ui/badges";
import { ACTIVE_STATES } from "../ui/outcomes";
import { JobName } from "../ui/job-name";
import { FormDialog } from "../ui/dialog";
import { Button, Card, Choice, Empty, Fact, Facts, Head, Loading, Problem } from "../ui/parts";
import { Counting, Span, Time } from "../ui/time";
import { attempt as tryTo } from "../ui/toast";

export function RunPage({ id, query }: { id: string; query: URLSearchParams }) {
  const job = useRef("");
  const { data: run, error, reload } = useApi<RunDetail>(path`/runs/${id}`, (event) => event.run === id || (!event.run && event.job === job.current));
  if (run) job.current = run.job;
  if (!run) {
    return (
      <PageBody>
        <h1>{id}</h1>
        {error ? <Problem error={error} onRetry={reload} /> : <Loading />}
      </PageBody>
    );
  }
  return (
    <PageBody isFull>
      <Head
        title={
          <span class="row wrap">
            <a href={jobPath(run.job)}>
              <span>
                <JobName job={run.job} name={run.job_name} />
              </span>
            </a>
            <StateBadge state={run.state} reason={run.reason} />
            <TriggerBadge trigger={run.trigger} />
          </span>
        }
        about={
          <>
            due <Time at={run.scheduled_for} zone={run.timezone} as="full" />
            {run.starts_at && (
              <>
                , starts <Time at={run.starts_at} zone={run.timezone} as="full" /> (jitter)
              </>
            )}{" "}
            <code class="small">{run.run}</code>
          </>
        }
      >
        <Actions run={run} />
      </Head>
      {run.detail && <p class={run.state === "succeeded" ? "note" : "note is-warning"}>{run.detail}</p>}
      {run.blocked_by.map((one) => (
        <p key={one.text} class="note is-warning">
          Blocked: {one.text}
          {one.policy && ` (rule: ${one.policy}, from ${one.policy_from})`}
        </p>
      ))}
      <Workspace run={run} query={query} />
    </PageBody>
  );
}

/** Each has its place whether it can be used or not: one that came when a run ends would come under the pointer. */
function Actions({ run }: { run: RunDetail }) {
  const [isAsking, setAsking] = useState(false);
  const retry = (fromFailed: boolean) =>
    tryTo(async () => {
      const asked = await send<RequestStatus>(`${path`/runs/${run.run}/retry`}?wait=5`, { from_failed: fromFailed });
      if (asked.run) go(runPath(asked.run));
      return asked.is_scheduler_running ? "Started a new run." : "No scheduler is running. The retry is queued and runs when one starts.";
    });
  // Of a single step without items it would be the same as a retry.
  const hasSteps = Object.keys(run.depends).length > 1 || run.steps.some((step) => step.item_of !== null);
  return (
    <>
      <a class="button" href={whyPath(run.job, Date.parse(run.scheduled_for))}>
        Why?
      </a>
      {may("operator") && run.occurrences === 1 && (
        <>
          {hasSteps && (
            <Button isDisabled={!run.can_retry || !run.can_retry_failed} onClick={() => retry(true)} tip={run.can_retry_failed ? undefined : "No step has failed"}>
              Retry from the failed step
            </Button>
          )}
          <Button isDisabled={!run.can_retry} onClick={() => retry(false)} tip={run.can_retry ? undefined : "Available when the run has ended"}>
            Retry
          </Button>
          <Button kind="dangerous" isDisabled={!run.can_cancel} onClick={() => setAsking(true)} tip={run.can_cancel ? undefined : "The run has ended"}>
            Cancel
          </Button>
        </>
      )}
      {isAsking && <CancelRunDialog run={run} onClose={() => setAsking(false)} />}
    </>
  );
}

function CancelRunDialog({ run, onClose }: { run: RunDetail; onClose: () => void }) {
  const submit = async () => {
    await send<RequestStatus>(path`/runs/${run.run}/cancel`);
    return "The run is being cancelled.";
  };
  return (
    <FormDialog title={`Cancel this run of ${run.job_name}`} action="Cancel the run" isDangerous isReady={run.can_cancel} onClose={onClose} onSubmit={submit}>
      {run.can_cancel ? (
        <p>
          {run.started_at === null ? (
            "The run has not started and will not start."
          ) : (
            <>
              The scheduler terminates its processes, and kills them if they do not exit. It has been running for <Counting since={run.started_at} />.
            </>
          )}{" "}
          The run is recorded as cancelled and is not retried.
        </p>
      ) : (
        <p class="note">The run has already ended.</p>
      )}
    </FormDialog>
  );
}

const LOSSES: Record<LossReason, string> = {
  "node-gone": "the node that ran it is gone",
  "lease-expired": "its lease expired",
  "not-confirmed": "its start was not recorded in the ledger in time, so its keeper stopped it",
  "node-forgotten": "an operator marked its node as gone for good",
  "not-started": "its node never started it",
  keeper: "the keeper on its machine stopped it or did not find its process",
  "process-gone": "its process is gone and its exit status is unknown",
  "machine-restarted": "its machine restarted while it ran",
  "no-heartbeat": "its executor sent no heartbeat in time",
  "member-lost": "the fleet member that ran it was lost",
  executor: "the executor lost it",
};

function RunFacts({ run }: { run: RunDetail }) {
  const isActive = ACTIVE_STATES.includes(run.state);
  return (
    <Card>
      <div class="card-body">
        <Facts>
          <Fact name="Started">
            <Time at={run.started_at} zone={run.timezone} />
          </Fact>
          <Fact name="Finished">
            <Time at={run.finished_at} zone={run.timezone} />
          </Fact>
          <Fact name="Duration">{isActive ? <Counting since={run.started_at} /> : <Span seconds={run.duration_seconds} />}</Fact>
          <Fact name="Lateness">
            <Span seconds={run.lateness_seconds} />
          </Fact>
          <Fact name="Attempt">{run.attempt || "–"}</Fact>
          <Fact name="Exit code">{run.exit_code ?? "–"}</Fact>
          <Fact name="Executor">{run.executor || "–"}</Fact>
          {run.loss && <Fact name="Reason lost">{LOSSES[run.loss]}</Fact>}
          <Fact name="Decided">
            <Time at={run.decided_at} zone={run.timezone} /> {run.decided_by && `on ${run.decided_by}`}
          </Fact>
          {hasParams(run.params) && (
            <Fact name="Parameters" isWide>
              <span class="row wrap">
                {Object.entries(run.params).map(([name, value]) => (
                  <code key={name}>
                    {name}={typeof value === "string" ? value : JSON.stringify(value)}
                  </code>
                ))}
              </span>
            </Fact>
          )}
          {run.children.length > 0 && (
            <Fact name="Led to" isWide>
              {run.children.map((child) => (
                <div key={child.run} class="row">
                  <StateBadge state={child.state} /> <TriggerBadge trigger={child.trigger} />
                  <a class="cut" href={runPath(child.run)} data-tip={child.run}>
                    {child.job === run.job ? child.run : <JobName job={child.job} name={child.job_name} />}
                  </a>
                  {child.job !== run.job && (
                    <span class="small nowrap">
                      due <Time at={child.scheduled_for} zone={run.timezone} />
                    </span>
                  )}
                </div>
              ))}
            </Fact>
          )}
          {run.parents.length > 0 && (
            <Fact name={run.trigger === "retry" ? "Retry of" : "Started by"} isWide>
              {run.parents.map((parent) => (
                <div key={`${parent.run} ${parent.via ?? ""}`}>
                  <a href={runPath(parent.run)}>{parent.run}</a>
                  {parent.via && ` (${parent.via})`}
                </div>
              ))}
            </Fact>
          )}
        </Facts>
      </div>
    </Card>
  );
}

function hasParams(params: unknown): params is Record<string, unknown> {
  return typeof params === "object" && params !== null && Object.keys(params).length > 0;
}

const VIEWS = [
  { value: "time", text: "Timeline" },
  { value: "graph", text: "Graph", tip: "Steps by dependency" },
] as const;

/** Steps and facts on one side, the log of the chosen step on the other, each with its own scroll. */
function Workspace({ run, query }: { run: RunDetail; query: URLSearchParams }) {
  const chosen: Chosen | null = choose(run, query.get("step"), Number(query.get("attempt")) || null);
  const pick = ({ attempt, step }: Chosen) => setQuery({ step, attempt: String(attempt), line: null });
  const view = query.get("steps") === "graph" ? "graph" : "time";
  const graph = useGraph(run, view === "graph");
  const wasShown = useRef(false);
  // The graph is above other parts and would push them down. What is shown stays.
  wasShown.current ||= view !== "graph" || graph.isReady;
  if (run.started_at === null && !run.logs.length && !run.steps.length) {
    return (
      <>
        <RunFacts run={run} />
        <Card>
          <Empty title={run.state === "skipped" ? "Skipped" : "Not started yet"} icon="runs">
            <a href={whyPath(run.job, Date.parse(run.scheduled_for))}>Why?</a>
          </Empty>
        </Card>
      </>
    );
  }
  if (!wasShown.current) return <Loading lines={8} />;
  const attempts = withPending(run);
  const hasSteps = attempts.some((one) => one.steps.length > 0);
  return (
    <div class={hasSteps ? "workspace" : "workspace is-log-only"}>
      <div class="workspace-side" tabIndex={0} role="group" aria-label="Steps and facts">
        <RunFacts run={run} />
        {hasSteps && (
          <Card title="Steps" aside={Object.keys(run.depends).length > 1 && <Choice label="Show steps as" value={view} options={VIEWS} onPick={(value) => setQuery({ steps: value === "graph" ? value : null })} />}>
            {view === "graph" ? (
              <RunGraph run={run} {...graph} chosen={chosen} onPick={(step) => pick({ attempt: run.attempt, step })} />
            ) : (
              <Gantt attempts={attempts} ended={run.finished_at ? Date.parse(run.finished_at) : null} chosen={chosen} onPick={pick} />
            )}
          </Card>
        )}
        {run.definition && <DefinitionAtStart run={run} />}
      </div>
      <Output run={run} chosen={chosen} onPick={pick} line={Number(query.get("line")) || null} />
    </div>
  );
}

/** Steps of the newest attempt that have not begun are shown too: they are what is still to come, or what never came. */
function withPending(run: RunDetail): Attempt[] {
  return run.attempts.map((attempt) => {
    if (attempt.attempt !== run.attempt || Object.keys(run.depends).length < 2) return attempt;
    const known = new Set(attempt.steps.map((step) => step.name));
    const missing = Object.keys(run.depends).filter((name) => !known.has(name));
    return { ...attempt, steps: [...attempt.steps, ...missing.map((name) => ({ ...NO_STEP, name, attempt: attempt.attempt }))] };
  });
}

const NO_STEP: AttemptStep = {
  name: "",
  item_of: null,
  item: null,
  attempt: 0,
  tries: 0,
  started_at: null,
  finished_at: null,
  duration_seconds: null,
  exit_code: null,
  detail: "",
  output: null,
  is_output_cut: false,
  sub_run: null,
  executor: null,
  reused_from: null,
  has_log: false,
  cpu_seconds: 0,
  max_rss_bytes: null,
  state: "pending",
  log_bytes: null,
};

/** The steps of the newest attempt, as far as they have begun. */
function latestSteps(run: RunDetail): (AttemptStep & { state: StepState["state"] })[] {
  const steps = run.attempts.find((one) => one.attempt === run.attempt)?.steps ?? [];
  return steps.filter((step): step is AttemptStep & { state: StepState["state"] } => step.state !== null);
}

interface RunGraphData {
  graph: Graph | undefined;
  error: Error | undefined;
  Drawn: typeof StepGraph | null;
  isReady: boolean;
}

function useGraph(run: RunDetail, isWanted: boolean): RunGraphData {
  const { data: graph, error } = useApi<Graph>(isWanted ? path`/jobs/${run.job}/graph` : null);
  const [Drawn, setDrawn] = useState<typeof StepGraph | null>(null);
  // The layout of graphs is a third of the page's code: only who looks at one loads it.
  useEffect(() => {
    if (isWanted) void import("../charts/graph").then((part) => setDrawn(() => part.StepGraph));
  }, [isWanted]);
  return { graph, error, Drawn, isReady: error !== undefined || (graph !== undefined && Drawn !== null) };
}

interface RunGraphProps extends RunGraphData {
  run: RunDetail;
  chosen: Chosen | null;
  onPick: (step: string) => void;
}

function RunGraph({ run, graph, error, Drawn, chosen, onPick }: RunGraphProps) {
  if (error) return <Problem error={error} />;
  if (!graph || !Drawn) return <Loading lines={3} />;
  return <Drawn graph={graph} steps={latestSteps(run)} chosen={chosen?.step} onPick={onPick} />;
}

interface OutputProps {
  run: RunDetail;
  chosen: Chosen | null;
  onPick: (chosen: Chosen) => void;
  line: number | null;
}

function Output({ run, chosen, onPick, line }: OutputProps) {
  const merged = mergedLogs(run);
  const log = chosen && [...run.logs, ...merged].find((one) => one.attempt === chosen.attempt && one.step === chosen.step);
  const absent = run.absent_logs.find((one) => one.attempt === (chosen?.attempt ?? run.attempt))?.text;
  const step = run.steps.find((one) => one.name === chosen?.step && one.attempt === chosen.attempt);
  return (
    <Card
      class="workspace-log"
      title={chosen ? `Output of ${chosen.step === ALL_STEPS ? "all steps" : chosen.step}` : "Output"}
      aside={
        run.logs.length > 1 && (
          <select
            aria-label="Step and attempt"
            value={chosen ? `${chosen.attempt} ${chosen.step}` : ""}
            onChange={(event) => {
              const [attempt = "1", ...name] = event.currentTarget.value.split(" ");
              onPick({ attempt: Number(attempt), step: name.join(" ") });
            }}
          >
            {chosen && !log && <option value={`${chosen.attempt} ${chosen.step}`}>{chosen.step} (nothing)</option>}
            {merged.map((one) => (
              <option key={`${one.attempt} ${one.step}`} value={`${one.attempt} ${one.step}`}>
                All steps by time{run.attempt > 1 ? `, attempt ${one.attempt}` : ""}
              </option>
            ))}
            {run.logs.map((one) => (
              <option key={`${one.attempt} ${one.step}`} value={`${one.attempt} ${one.step}`}>
                {one.step}
                {run.attempt > 1 ? `, attempt ${one.attempt}` : ""} ({bytes(one.size)})
              </option>
            ))}
          </select>
        )
      }
    >
      {log && absent && <p class="note" role="note">{absent}</p>}
      {step && <StepFacts step={step} />}
      {log ? (
        <LogView key={`${log.attempt} ${log.step}`} run={run.run} attempt={log.attempt} step={log.step} size={log.size} zone={shownZone(run.timezone)} line={line} onLine={(picked) => setQuery({ step: log.step, attempt: String(log.attempt), line: String(picked) })} />
      ) : (
        <Empty title={absent ?? (run.can_cancel ? "No output yet" : "No output")} icon="audit" />
      )}
    </Card>
  );
}

/** The server merges at most this much, in bytes. */
const MERGED_MAX = 12 * 1024 * 1024;

/** One log of all steps for each attempt that has several; its size is a guess, which the reader corrects. */
function mergedLogs(run: RunDetail): LogFile[] {
  const attempts = [...new Set(run.logs.map((one) => one.attempt))];
  return attempts.flatMap((attempt) => {
    const logs = run.logs.filter((one) => one.attempt === attempt);
    if (logs.length < 2 || logs.some((one) => one.step === ALL_STEPS)) return [];
    const size = Math.min(logs.reduce((sum, one) => sum + one.size, 0), MERGED_MAX);
    return [{ attempt, step: ALL_STEPS, size, is_complete: false }];
  });
}

/** What a step cost and handed on. */
function StepFacts({ step }: { step: StepState }) {
  const facts = [
    step.item !== null && `item ${step.item || "(hidden: it holds a secret)"}`,
    step.executor && `on ${step.executor}`,
    step.detail,
    step.tries > 1 && `${step.tries} tries`,
    step.cpu_seconds >= 0.001 && `CPU ${span(step.cpu_seconds * 1000)}`,
    step.max_rss_bytes && `memory ${bytes(step.max_rss_bytes)}`,
  ].filter(Boolean);
  if (!facts.length && step.output === null && !step.sub_run) return null;
  return (
    <p class="step-facts small">
      {facts.join(" · ")}
      {step.sub_run && (
        <>
          {facts.length > 0 && " · "}
          <a href={runPath(step.sub_run)}>{step.item === null ? "sub-run" : "run of this item"}</a>
        </>
      )}
      {step.output !== null && (
        <>
          {(facts.length > 0 || step.sub_run) && " · "}output <code>{step.output}</code>
          {step.is_output_cut && "…"}
        </>
      )}
    </p>
  );
}

/** The step in the address; else a failed one; else a running one; else the last. */
function choose(run: RunDetail, step: string | null, attempt: number | null): Chosen | null {
  if (step) return { step, attempt: attempt ?? (run.attempt || 1) };
  const hasLog = (name: string) => run.logs.some((one) => one.step === name && one.attempt === run.attempt);
  const steps = latestSteps(run);
  const logged = steps.filter((one) => hasLog(one.name));
  // A failed step that printed nothing says so: the output of another one would be taken for its own.
  const found = logged.find((one) => one.state === "failed") ?? steps.find((one) => one.state === "failed") ?? logged.find((one) => one.state === "running");
  if (found) return { step: found.name, attempt: found.attempt };
  const log = run.logs.at(-1);
  return log ? { step: log.step, attempt: log.attempt } : null;
}
