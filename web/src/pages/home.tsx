/** The home page: what needs attention, the status in one strip, and the timeline. */

import { useApi } from "../api/use";
import type { Overview, TimelineGroup, TimelineSort } from "../api/types";
import { PageBody } from "../app";
import { TimelineView } from "../timeline/timeline";
import { setQuery } from "../state/route";
import { JOB_STATES } from "../ui/outcomes";
import { Search } from "../ui/search";
import { isAttentionKnown, NeedsAttention } from "./attention";
import { Strip } from "./strip";

const SORTS: readonly (readonly [TimelineSort, string])[] = [
  ["worst", "Worst first"],
  ["name", "By name"],
  ["next", "By next start"],
];
const GROUPS: readonly (readonly [TimelineGroup, string])[] = [
  ["none", "No groups"],
  ["health", "Fold healthy jobs"],
  ["tag", "Group by tag"],
];

/** What the address asks for; the first where it asks for nothing that there is. */
function pick<T extends string>(options: readonly (readonly [T, string])[], asked: string | null): T {
  return (options.find(([value]) => value === asked) ?? (options[0] as readonly [T, string]))[0];
}

export function Home({ query }: { query: URLSearchParams }) {
  const { data } = useApi<Overview>("/overview", () => true);
  const at = Date.parse(query.get("at") ?? "");
  const span = Number(query.get("span")) || null;
  const filter = { search: query.get("search") ?? "", tag: query.get("tag") ?? "", state: query.get("state") ?? "", sort: pick(SORTS, query.get("sort")), group: pick(GROUPS, query.get("group")), open: query.getAll("open") };
  return (
    <PageBody isFull isUnsettled={!isAttentionKnown.value}>
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
