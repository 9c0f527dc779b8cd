/** What each page asks first: it is asked before the page's own code has arrived, and when a link is pressed. */

import { firstBlock, timelineName, timelineQuestion } from "../timeline/question";
import { path, withQuery, type Query } from "./address";

const PAGE = 50;

function orderOf(query: URLSearchParams): Query {
  return { sort: query.get("sort") ?? "", reverse: query.get("reverse") === "true" || null };
}

export function jobsQuery(query: URLSearchParams): Query {
  const given = (name: string) => query.get(name) ?? "";
  return { search: given("search"), tag: given("tag"), state: given("state"), ...orderOf(query), limit: PAGE, sparkline: 20 };
}

export function runsFilter(query: URLSearchParams) {
  const given = (name: string) => query.get(name) ?? "";
  return {
    job: given("job"),
    state: given("state"),
    trigger: query.get("trigger") ?? given("triggerType"),
    reason: given("reason"),
    tag: given("tag"),
    from: given("from"),
    to: given("to"),
    executor: given("executor"),
  };
}

export function runsQuery(query: URLSearchParams): Query {
  const filter = runsFilter(query);
  return { ...filter, state: filter.state.split(",").filter(Boolean), ...orderOf(query), limit: PAGE };
}

/** The questions of a tab of a job, beside the one about the job. */
export const jobQuestions = {
  durations: (job: string) => withQuery(path`/jobs/${job}/durations`, { limit: 200 }),
  recent: (job: string) => withQuery("/runs", { job, limit: 12 }),
  steps: (job: string) => withQuery(path`/jobs/${job}/steps`, { limit: 40 }),
  backfills: (job: string) => withQuery(path`/jobs/${job}/backfill`, { limit: 5 }),
  graph: (job: string) => path`/jobs/${job}/graph`,
  upcoming: (job: string) => withQuery(path`/jobs/${job}/upcoming`, { count: 12 }),
};

/** The others are refused for a job without a definition. */
const OF_ANY_JOB = ["durations", "recent", "steps", "backfills"] as const;

const OF_A_DEFINED_JOB = ["graph", "upcoming"] as const;

/** `stage`: how wide the timeline is, where that is known. `isDefined`: whether a job is known to have a definition. */
export function firstQuestions(pathname: string, query: URLSearchParams, now: number, stage: number | null, isDefined: (job: string) => boolean = () => false): string[] {
  const [page = "", ...rest] = pathname.split("/").filter(Boolean);
  const id = decode(rest.join("/"));
  if (page === "") return ["/attention", "/overview", ...(stage === null ? [] : [timelineQuestion(query, firstBlock(query, now, stage))])];
  if (page === "overview") return ["/overview"];
  if (page === "jobs" && id) {
    const names = query.get("tab") ? [] : [...OF_ANY_JOB, ...(isDefined(id) ? OF_A_DEFINED_JOB : [])];
    return [path`/jobs/${id}`, ...names.map((name) => jobQuestions[name](id))];
  }
  if (page === "jobs") return [withQuery("/jobs", jobsQuery(query))];
  if (page === "runs") return [id ? path`/runs/${id}` : withQuery("/runs", runsQuery(query))];
  return [];
}

/** Under which name the answer to one of them is kept. */
export function nameOfQuestion(target: string): string {
  return target.startsWith("/timeline?") ? timelineName(0) : target;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
