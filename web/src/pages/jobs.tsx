/** All jobs: found by name, tag and state, in the order and with the columns of the address. */

import { useState } from "preact/hooks";
import { usePages } from "../api/pages";
import { jobsQuery } from "../api/questions";
import type { Job, JobPage, RunPoint } from "../api/types";
import { askedAction } from "../actions";
import { PageBody } from "../app";
import { jobPath, runPath, setQuery } from "../state/route";
import { may } from "../state/session";
import { counted, number } from "../time/words";
import { JobBadge, JobLight, NeverRan, Sparkline, StateBadge, Tag } from "../ui/badges";
import { type Column, ColumnPicker, ColumnTable } from "../ui/columns";
import { JobName } from "../ui/job-name";
import { Icon } from "../ui/icon";
import { BAD_STATES, JOB_STATES } from "../ui/outcomes";
import { DefinitionProblems } from "../ui/definitions";
import { Card, Empty, Head, Loading, Problem } from "../ui/parts";
import { More } from "../ui/runs";
import { BulkBar, useSelection } from "../ui/selection";
import { Search } from "../ui/search";
import { Span, Time } from "../ui/time";

const TAGS_SHOWN = 3;
const TAGS_OFFERED = 10;

export function JobsPage({ query }: { query: URLSearchParams }) {
  const search = query.get("search") ?? "";
  const tag = query.get("tag") ?? "";
  const state = query.get("state") ?? "";
  const jobs = usePages<Job, JobPage>("/jobs", jobsQuery(query), () => true, true);
  useSelection();
  const total = jobs.first?.total;
  const isFiltered = search !== "" || tag !== "" || state !== "";
  return (
    <PageBody>
      <Head title="Jobs" about={total === undefined ? "…" : counted(total, "job")}>
        <ColumnPicker columns={columns} query={query} />
      </Head>
      <div class="filters">
        <Search label="Search jobs" value={search} onSearch={(text) => setQuery({ search: text })} />
        <select aria-label="State" value={state} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
          <option value="">All states</option>
          {Object.entries(JOB_STATES).map(([name, look]) => (
            <option key={name} value={name}>
              {look.word} {jobs.first?.statuses[name as keyof typeof JOB_STATES] ? `(${number(jobs.first.statuses[name as keyof typeof JOB_STATES] ?? 0)})` : ""}
            </option>
          ))}
        </select>
        <TagFilter tags={jobs.first?.tags ?? []} chosen={tag} />
      </div>
      {jobs.error && <Problem error={jobs.error} onRetry={jobs.reload} />}
      <DefinitionProblems problems={jobs.first?.problems ?? []} />
      <Card key={jobs.first ? "jobs" : "loading"}>
        {!jobs.first && jobs.isLoading && <Loading lines={8} />}
        {jobs.first && !jobs.items.length && (
          <Empty title={isFiltered ? "No jobs match" : "No jobs yet"} icon={isFiltered ? "search" : "jobs"}>
            {isFiltered ? <a href="/jobs">Show all jobs</a> : "Add a YAML file to the jobs folder. It appears here within a second."}
          </Empty>
        )}
        <BulkBar what="job" actions={["run", "pause", "resume"]} />
        {jobs.items.length > 0 && <ColumnTable items={unique(jobs.items)} columns={columns} query={query} caption="Jobs" idOf={(job) => job.job} order="job" isOld={jobs.isOld} selects="jobs" />}
        <More hasMore={jobs.hasMore} onMore={jobs.more} />
      </Card>
    </PageBody>
  );
}

/** The first tags, and the others on request; the chosen one is always there. */
function TagFilter({ tags, chosen }: { tags: readonly string[]; chosen: string }) {
  const [isAll, setAll] = useState(false);
  const more = tags.length - TAGS_OFFERED;
  const shown = isAll || more <= 1 ? tags : tags.filter((name, index) => index < TAGS_OFFERED || name === chosen);
  return (
    <>
      {shown.map((name) => (
        <Tag key={name} name={name} isOn={name === chosen} onPick={(picked) => setQuery({ tag: picked === chosen ? null : picked })} />
      ))}
      {more > 1 && (
        <button type="button" class="button is-bare is-small" aria-expanded={isAll} onClick={() => setAll(!isAll)}>
          {isAll ? "Fewer tags" : `${number(tags.length - shown.length)} more`}
        </button>
      )}
    </>
  );
}

/** A job that moved between two pages of a sorted list is on both. */
function unique(jobs: Job[]): Job[] {
  return [...new Map(jobs.map((job) => [job.job, job])).values()];
}

const columns: readonly Column<Job>[] = [
  {
    id: "job",
    name: "Job",
    sort: "job",
    class: "job-cell",
    cell: (job) => (
      <div class="cut" data-tip={job.description || undefined}>
        <a class="strong" href={jobPath(job.job)}>
          <JobName job={job.job} name={job.name} />
        </a>
      </div>
    ),
  },
  {
    id: "state",
    name: "State",
    sort: "state",
    class: "outcome-cell",
    cell: (job) => (
      <span class="row">
        <JobBadge job={job} /> <JobLight job={job} />
      </span>
    ),
  },
  { id: "tags", name: "Tags", from: "huge", class: "nowrap", cell: (job) => <Tags tags={job.tags} /> },
  { id: "description", name: "Description", from: "huge", class: "quiet small about", cell: (job) => <div class="cut">{job.description}</div> },
  {
    id: "schedule",
    name: "Schedule",
    from: "wide",
    class: "nowrap",
    cell: (job) => (
      <>
        <code class="small schedule-cell" data-tip={job.schedules[0]}>
          {job.schedules[0] ?? "–"}
        </code>
        {job.schedules.length > 1 && (
          <span class="quiet small" data-tip={job.schedules.slice(1).join("\n")}>
            {" "}
            +{job.schedules.length - 1}
          </span>
        )}
      </>
    ),
  },
  { id: "next", name: "Next", sort: "next", class: "nowrap", cell: (job) => (job.next_at ? <Time at={job.next_at} zone={job.timezone} as="ago" /> : <span class="quiet">–</span>) },
  {
    id: "last",
    name: "Last",
    sort: "last",
    isDescending: true,
    from: "roomy",
    class: "nowrap",
    cell: (job) =>
      job.last ? (
        <a href={runPath(job.last.run)} class="row">
          <StateBadge state={job.last.state} />
          <Time at={job.last.scheduled_for} zone={job.timezone} as="ago" />
        </a>
      ) : (
        <NeverRan job={job} />
      ),
  },
  { id: "took", name: "Took", sort: "duration", isDescending: true, isRight: true, from: "widest", class: "nowrap", cell: (job) => <Span seconds={job.last?.duration_seconds} /> },
  { id: "success", name: "Success", isRight: true, from: "huge", class: "nowrap", cell: (job) => <Success runs={job.recent ?? []} /> },
  { id: "recent", name: "Last 20 runs", from: "widest", cell: (job) => <Sparkline runs={job.recent ?? []} job={job} /> },
  { id: "last-success", name: "Last success", from: "huge", class: "nowrap", cell: (job) => <Time at={job.last_success_for} zone={job.timezone} as="ago" /> },
  { id: "queue", name: "Queue", from: "never", cell: (job) => job.queue ?? <span class="quiet">–</span> },
  { id: "zone", name: "Time zone", from: "never", class: "nowrap", cell: (job) => job.timezone },
  { id: "file", name: "File", from: "never", class: "quiet small said", cell: (job) => <span class="cut">{job.file ?? "–"}</span> },
  {
    id: "run",
    name: "Run now",
    isNameless: true,
    from: "roomy",
    class: "right nowrap",
    cell: (job) =>
      may("operator") &&
      !job.retired_at && (
        <button type="button" class="button is-bare is-small" aria-label={`Run ${job.job} now`} data-tip="Run now" onClick={() => (askedAction.value = { action: "trigger", job: job.job })}>
          <Icon name="runs" />
        </button>
      ),
  },
];

function Tags({ tags }: { tags: readonly string[] }) {
  return (
    <>
      {tags.slice(0, TAGS_SHOWN).map((tag) => (
        <span key={tag} class="row-tag">
          {tag}
        </span>
      ))}
      {tags.length > TAGS_SHOWN && (
        <span class="quiet small" data-tip={tags.slice(TAGS_SHOWN).join(", ")}>
          {" "}
          +{tags.length - TAGS_SHOWN}
        </span>
      )}
    </>
  );
}

/** The share of the last runs that succeeded; cancelled runs and skips do not count. */
function Success({ runs }: { runs: readonly RunPoint[] }) {
  const succeeded = runs.filter((run) => run.state === "succeeded").length;
  const counted = succeeded + runs.filter((run) => BAD_STATES.includes(run.state)).length;
  if (!counted) return <span class="quiet">–</span>;
  return <span class={succeeded < counted ? undefined : "quiet"}>{Math.floor((100 * succeeded) / counted)} %</span>;
}
