/** A year of one job. */

import type { JobDetail } from "../api/types";
import { path } from "../api/client";
import { CalendarCard } from "./calendar";

export function JobCalendar({ job }: { job: JobDetail }) {
  return <CalendarCard target={path`/jobs/${job.job}/calendar`} job={job.job} jobZone={job.timezone} />;
}
