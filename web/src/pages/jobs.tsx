/** All jobs: found by name, tag and state. */

import { usePages } from "../api/pages";
import type { Job, JobPage } from "../api/types";
import { askedAction } from "../actions";
import { PageBody } from "../app";
import { jobPath, runPath, setQuery } from "../state/route";
import { may } from "../state/session";
import { counted, number } from "../time/words";
import { JobBadge, JobLight, NeverRan, Sparkline, StateBadge, Tag } from "../ui/badges";
import { JobName } from "../ui/job-name";
import { Icon } from "../ui/icon";
import { JOB_STATES } from "../ui/outcomes";
import { DefinitionProblems } from "../ui/definitions";
import { Card, Empty, Head, Loading, Problem } from "../ui/parts";
import { More } from "../ui/runs";
import { BulkBar, Select, SelectAll, useSelection } from "../ui/selection";
import { Search } from "../ui/search";
import { Time } from "../ui/time";

const TAGS_SHOWN = 3;

export function JobsPage({ query }: { query: URLSearchParams }) {
  const search = query.get("search") ?? "";
  const tag = query.get("tag") ?? "";
  const state = query.get("state") ?? "";
  const jobs = usePages<Job, JobPage>("/jobs", { search, tag, state, limit: 50, sparkline: 20 }, () => true);
  useSelection();
  const total = jobs.first?.total;
  return (
    <PageBody>
      <Head title="Jobs" about={total === undefined ? "…" : counted(total, "job")} />
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
        {(jobs.first?.tags ?? []).slice(0, 12).map((name) => (
            <Tag key={name} name={name} isOn={name === tag} onPick={(picked) => setQuery({ tag: picked === tag ? null : picked })} />
          ))}
      </div>
      {jobs.error && <Problem error={jobs.error} onRetry={jobs.reload} />}
      <DefinitionProblems problems={jobs.first?.problems ?? []} />
      <Card key={jobs.first ? "jobs" : "loading"}>
        {!jobs.first && jobs.isLoading && <Loading lines={8} />}
        {jobs.first && !jobs.items.length && (
          <Empty title="No jobs match" icon="search">
            {search || tag || state ? <a href="/jobs">Show all jobs</a> : "Add a YAML file to the jobs folder. It appears here within a second."}
          </Empty>
        )}
        <BulkBar what="job" actions={["run", "pause", "resume"]} />
        {jobs.items.length > 0 && <JobTable jobs={jobs.items} />}
        <More hasMore={jobs.hasMore} onMore={jobs.more} />
      </Card>
    </PageBody>
  );
}

function JobTable({ jobs }: { jobs: Job[] }) {
  return (
    <div class="table-scroll" tabIndex={0} role="group" aria-label="Table">
      <table>
        <caption class="hidden-text">Jobs by name</caption>
        <thead>
          <tr>
            <SelectAll ids={jobs.map((job) => job.job)} what="jobs" />
            <th scope="col">Job</th>
            <th scope="col">State</th>
            <th scope="col" class="is-wide-only">
              Schedule
            </th>
            <th scope="col">Next</th>
            <th scope="col" class="is-roomy-only">
              Last
            </th>
            <th scope="col" class="is-widest-only">
              Last 20 runs
            </th>
            <th scope="col" class="is-roomy-only">
              <span class="hidden-text">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {jobs.map((job) => (
            <JobRow key={job.job} job={job} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function JobRow({ job }: { job: Job }) {
  return (
    <tr>
      <Select id={job.job} />
      <td>
        <div class="job-name">
          <a class="strong" href={jobPath(job.job)}>
            <JobName job={job.job} name={job.name} />
          </a>
          {job.tags.slice(0, TAGS_SHOWN).map((tag) => (
            <span key={tag} class="row-tag">
              {tag}
            </span>
          ))}
          {job.tags.length > TAGS_SHOWN && (
            <span class="quiet small" data-tip={job.tags.slice(TAGS_SHOWN).join(", ")}>
              +{job.tags.length - TAGS_SHOWN}
            </span>
          )}
        </div>
        {job.description && <div class="quiet small cut about">{job.description}</div>}
      </td>
      <td>
        <span class="row">
          <JobBadge job={job} /> <JobLight job={job} />
        </span>
      </td>
      <td class="is-wide-only">
        <code class="small">{job.schedules[0] ?? "–"}</code>
        {job.schedules.length > 1 && <span class="quiet small"> and {job.schedules.length - 1} more</span>}
      </td>
      <td class="nowrap">{job.next_at ? <Time at={job.next_at} zone={job.timezone} as="ago" /> : <span class="quiet">–</span>}</td>
      <td class="is-roomy-only">
        {job.last ? (
          <a href={runPath(job.last.run)} class="row wrap">
            <StateBadge state={job.last.state} />
            <Time at={job.last.scheduled_for} zone={job.timezone} as="ago" />
          </a>
        ) : (
          <NeverRan job={job} />
        )}
      </td>
      <td class="is-widest-only">
        <Sparkline runs={job.recent ?? []} job={job} />
      </td>
      <td class="right nowrap is-roomy-only">
        {may("operator") && !job.retired_at && (
          <button type="button" class="button is-bare is-small" aria-label={`Run ${job.job} now`} data-tip="Run now" onClick={() => (askedAction.value = { action: "trigger", job: job.job })}>
            <Icon name="runs" />
          </button>
        )}
      </td>
    </tr>
  );
}
