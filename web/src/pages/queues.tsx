/** Limits that jobs share: active and waiting runs, and for what. */

import type { Live, Overview, Queue } from "../api/types";
import { useApi } from "../api/use";
import { PageBody } from "../app";
import { jobPath } from "../state/route";
import { number } from "../time/words";
import { Card, Empty, Head, Loading, Problem } from "../ui/parts";
import { RunList, runColumns, RunTable } from "../ui/runs";

/** In the order in which they wait. */
const columns = runColumns().map(({ sort: _, ...column }) => column);
const NO_CHOICE = new URLSearchParams();

export function QueuesPage() {
  const { data, error, reload } = useApi<Live<Queue>>("/queues", (event) => event.type === "run");
  const overview = useApi<Overview>("/overview", (event) => event.type === "run");
  const blockers = new Map(data?.items.flatMap((queue) => queue.runs).map((run) => [run.run, run.blocked_by?.text]));
  const waiting = (overview.data?.waiting ?? []).map((run) => ({ ...run, detail: run.detail || (blockers.get(run.run) ?? "") }));
  // Both at once: the queues would push the waiting runs down.
  const isReady = !!data && (!!overview.data || !!overview.error);
  return (
    <PageBody>
      <Head title="Queues" about="Limits that jobs share: active and waiting runs" />
      {error && <Problem error={error} onRetry={reload} />}
      {!isReady && !error && <Loading lines={8} />}
      {isReady && !data.items.length && (
        <Card>
          <Empty title="No job uses a queue" icon="queues">
            Jobs with the same <code>queue</code> share a limit.
          </Empty>
        </Card>
      )}
      {isReady && data.items.map((queue) => (
        <QueueCard key={queue.queue} queue={queue} />
      ))}
      {isReady && waiting.length > 0 && (
        <Card title={`All waiting runs (${number(overview.data?.waiting_count ?? 0)})`}>
          <RunTable runs={waiting} columns={columns} query={NO_CHOICE} caption="Waiting runs and what they wait for" />
        </Card>
      )}
    </PageBody>
  );
}

function QueueCard({ queue }: { queue: Queue }) {
  const places = queue.limit ?? queue.active;
  return (
    <Card
      title={queue.queue}
      aside={
        <span class="row small">
          <span class="places" role="img" aria-label={`${queue.active} of ${queue.limit ?? "unlimited"} slots in use`}>
            {Array.from({ length: Math.min(places, 24) }, (_, index) => (
              <span key={index} class={index < queue.active ? "place is-taken" : "place"} />
            ))}
          </span>
          <span class="quiet">
            {number(queue.active)} of {queue.limit === null ? "unlimited" : number(queue.limit)} · {number(queue.waiting)} waiting
          </span>
        </span>
      }
    >
      <RunList runs={queue.runs} empty="No active or waiting runs." />
      {blocked(queue).map((words) => (
        <p key={words} class="card-body small quiet">
          {words}
        </p>
      ))}
      <p class="card-body small quiet">
        Used by{" "}
        {queue.jobs.slice(0, 12).map((job, index) => (
          <span key={job}>
            {index > 0 && ", "}
            <a href={jobPath(job)}>{job}</a>
          </span>
        ))}
        {queue.jobs.length > 12 && ` and ${number(queue.jobs.length - 12)} more`}
      </p>
    </Card>
  );
}

function blocked(queue: Queue): string[] {
  return [...new Set(queue.runs.flatMap((run) => (run.blocked_by ? [`${run.job_name}: ${run.blocked_by.text}`] : [])))].slice(0, 8);
}
