/** The home page: what needs attention, the status in one strip, and the timeline. */

import { useApi } from "../api/use";
import type { Overview } from "../api/types";
import { PageBody } from "../app";
import { TimelineView } from "../timeline/timeline";
import { setQuery } from "../state/route";
import { JOB_STATES } from "../ui/outcomes";
import { Search } from "../ui/search";
import { NeedsAttention } from "./attention";
import { Strip } from "./strip";

export function Home({ query }: { query: URLSearchParams }) {
  const { data } = useApi<Overview>("/overview", () => true);
  const at = Date.parse(query.get("at") ?? "");
  const span = Number(query.get("span")) || null;
  const filter = { search: query.get("search") ?? "", tag: query.get("tag") ?? "", state: query.get("state") ?? "" };
  return (
    <PageBody isFull>
      <h1 class="hidden-text">Timeline</h1>
      <NeedsAttention />
      <Strip overview={data} />
      <TimelineView filter={filter} span={span} at={Number.isNaN(at) ? null : at} view={query.get("view") === "table" ? "table" : "timeline"}>
        <Search label="Filter jobs" value={filter.search} onSearch={(search) => setQuery({ search })} />
        <select aria-label="State of jobs" value={filter.state} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
          <option value="">All states</option>
          {Object.entries(JOB_STATES).map(([state, look]) => (
            <option key={state} value={state}>
              {look.word}
            </option>
          ))}
        </select>
        {filter.tag && (
          <button type="button" class="tag is-on" onClick={() => setQuery({ tag: null })}>
            {filter.tag} ×
          </button>
        )}
      </TimelineView>
    </PageBody>
  );
}
