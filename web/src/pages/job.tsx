/** One job: its status, what it does, what it did, and under which rules. */

import { path } from "../api/client";
import type { JobDetail } from "../api/types";
import { useApi } from "../api/use";
import { askedAction, type Action } from "../actions";
import { PageBody } from "../app";
import { may } from "../state/session";
import { JobBadge, JobLight, Tag } from "../ui/badges";
import { Button, Empty, Head, Loading, Problem } from "../ui/parts";
import { JobName } from "../ui/job-name";
import { Tabs } from "../ui/tabs";
import { Time } from "../ui/time";
import { JobCalendar } from "./job-calendar";
import { JobLedger } from "./job-ledger";
import { JobRules } from "./job-rules";
import { JobSummary } from "./job-summary";

const TABS = [
  { id: "summary", name: "Summary" },
  { id: "ledger", name: "Ledger" },
  { id: "calendar", name: "Calendar" },
  { id: "rules", name: "Definition" },
] as const;

export function JobPage({ id, query }: { id: string; query: URLSearchParams }) {
  const { data: job, error, reload } = useApi<JobDetail>(path`/jobs/${id}`, (event) => event.job === id);
  const wanted = query.get("tab");
  const tab = TABS.find((one) => one.id === wanted)?.id ?? "summary";
  if (!job) {
    return (
      <PageBody>
        {error ? <Problem error={error} onRetry={reload} /> : <Loading />}
        {error && (
          <Empty title={id} icon="jobs" isPage>
            <a href="/jobs">All jobs</a>
          </Empty>
        )}
      </PageBody>
    );
  }
  return (
    <PageBody>
      <Head title={<JobTitle job={job} />} about={job.description}>
        <Actions job={job} />
      </Head>
      <Notices job={job} />
      <Tabs label={`Parts of ${id}`} tabs={TABS} value={tab} />
      <div id="tab-panel" class="tab-panel" role="tabpanel" aria-labelledby={`tab-${tab}`} tabIndex={-1}>
        {tab === "summary" && <JobSummary job={job} />}
        {tab === "ledger" && <JobLedger job={job} query={query} />}
        {tab === "calendar" && <JobCalendar job={job} />}
        {tab === "rules" && <JobRules job={job} />}
      </div>
    </PageBody>
  );
}

function JobTitle({ job }: { job: JobDetail }) {
  return (
    <span class="row wrap">
      <span>
        <JobName job={job.job} name={job.name} />
      </span>
      <JobBadge job={job} /> <JobLight job={job} isLong />
      {job.tags.map((tag) => (
        <a key={tag} href={`/jobs?tag=${encodeURIComponent(tag)}`}>
          <Tag name={tag} />
        </a>
      ))}
    </span>
  );
}

function Actions({ job }: { job: JobDetail }) {
  const ask = (action: Action) => () => (askedAction.value = { action, job: job.job });
  const onTimeline = (
    <a class="button" href={`/?search=${encodeURIComponent(job.job)}`}>
      Show on timeline
    </a>
  );
  // A deleted job cannot be run or planned; its active runs can still be cancelled.
  if (!may("operator") || (job.retired_at && !job.active)) return onTimeline;
  if (job.retired_at) {
    return (
      <>
        {onTimeline}
        <Button onClick={ask("cancel")}>Cancel</Button>
      </>
    );
  }
  return (
    <>
      {onTimeline}
      {job.schedules.length > 0 && <Button onClick={ask("backfill")}>Backfill</Button>}
      {/* Always there: a button that comes with a run would move the page, and another button under the pointer. */}
      <Button onClick={ask("cancel")} isDisabled={job.active === 0}>
        Cancel
      </Button>
      {job.paused_at ? <Button onClick={ask("resume")}>Resume</Button> : <Button onClick={ask("pause")}>Pause</Button>}
      <Button kind="main" onClick={ask("trigger")}>
        Run now
      </Button>
    </>
  );
}

function Notices({ job }: { job: JobDetail }) {
  return (
    <>
      {job.paused_at && (
        <p class="note is-warning">
          Paused since <Time at={job.paused_at} zone={job.timezone} />
          {job.pause_note && `: ${job.pause_note}`}. Nothing is planned until it is resumed; what is due meanwhile is settled then.
        </p>
      )}
      {job.late_since && !job.paused_at && (
        <p class="note is-bad" role="alert">
          Past its deadline of <Time at={job.late_since} zone={job.timezone} />: the job has not succeeded since.
        </p>
      )}
      {job.error && (
        <p class="note is-bad" role="alert">
          {job.error}
        </p>
      )}
      {job.problems.map((problem) => (
        <p key={problem.text} class="note is-bad mono small" role="alert">
          {problem.text}
        </p>
      ))}
      {job.retired_at && (
        <p class="note is-warning">
          Deleted: its definition is gone since <Time at={job.retired_at} zone={job.timezone} />. Nothing of it runs any more; the history stays.
        </p>
      )}
      {!job.is_scheduler_running && <p class="note is-warning">No scheduler is running. Requests are queued and run when one starts.</p>}
    </>
  );
}
