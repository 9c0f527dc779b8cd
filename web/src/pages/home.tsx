/** The home page: what needs attention, the status in one strip, and the timeline. */

import { useApi } from "../api/use";
import type { Overview } from "../api/types";
import { PageBody } from "../app";
import { filterOf, GROUPS, periodOf, SORTS } from "../timeline/question";
import { TimelineView } from "../timeline/timeline";
import { setQuery } from "../state/route";
import { JOB_STATES } from "../ui/outcomes";
import { Search } from "../ui/search";
import { isAttentionKnown, NeedsAttention } from "./attention";
import { Strip } from "./strip";

export function Home({ query }: { query: URLSearchParams }) {
  const { data } = useApi<Overview>("/overview", () => true);
  const filter = filterOf(query);
  return (
    <PageBody isFull isUnsettled={!isAttentionKnown.value}>
      <h1 class="hidden-text">Timeline</h1>
      <NeedsAttention />
      <Strip overview={data} />
      <TimelineView filter={filter} {...periodOf(query)} view={query.get("view") === "table" ? "table" : "timeline"}>
        <Search label="Filter jobs" value={filter.search} onSearch={(search) => setQuery({ search })} />
        <select aria-label="State of jobs" value={filter.state} onChange={(event) => setQuery({ state: event.currentTarget.value })}>
          <option value="">All states</option>
          {Object.entries(JOB_STATES).map(([state, look]) => (
            <option key={state} value={state}>
              {look.word}
            </option>
          ))}
        </select>
        <select aria-label="Order of jobs" value={filter.sort} onChange={(event) => setQuery({ sort: event.currentTarget.value })}>
          {SORTS.map(([value, word]) => (
            <option key={value} value={value}>
              {word}
            </option>
          ))}
        </select>
        <select aria-label="Groups of jobs" value={filter.group} onChange={(event) => setQuery({ group: event.currentTarget.value, open: null })}>
          {GROUPS.map(([value, word]) => (
            <option key={value} value={value}>
              {word}
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
