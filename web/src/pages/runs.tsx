/** The ledger of all jobs: every run and every skip, newest first unless the address has another order. */

import { withQuery } from "../api/client";
import { usePages } from "../api/pages";
import { runsFilter, runsQuery } from "../api/questions";
import type { JobPage, Run, RunPage } from "../api/types";
import { useApi } from "../api/use";
import { PageBody } from "../app";
import { setQuery } from "../state/route";
import { LOCAL_ZONE } from "../state/zone";
import { instantOf, localMs } from "../time/zones";
import { BAD_STATES, REASONS, STATES, TRIGGERS } from "../ui/outcomes";
import { Tag } from "../ui/badges";
import { ColumnPicker } from "../ui/columns";
import { Card, Empty, Head, Loading, Problem } from "../ui/parts";
import { Compared, More, runColumns, RunTable } from "../ui/runs";
import { BulkBar, useSelection } from "../ui/selection";
import { Search } from "../ui/search";

const columns = runColumns();

export function RunsPage({ query }: { query: URLSearchParams }) {
  const filter = runsFilter(query);
  useSelection();
  const isFiltered = Object.values(filter).some(Boolean);
  const runs = usePages<Run, RunPage>("/runs", runsQuery(query), () => true, true);
  const jobs = useApi<JobPage>(filter.job ? withQuery("/jobs", { search: filter.job, gone: true, limit: 12 }) : null);
  const names = jobs.data?.items.map((job) => job.job) ?? [];
  // The ledger is asked for one job; until its name is whole, those that it may be are offered.
  const isHalfNamed = !!runs.error && names.length > 0 && !names.includes(filter.job);
  return (
    <PageBody>
      <Head title="Runs" about="Every run and every skip">
        <ColumnPicker columns={columns} query={query} />
      </Head>
      <div class="filters">
        <Search label="Job" value={filter.job} onSearch={(job) => setQuery({ job })} offers={names} />
        <Pick label="Outcome" value={filter.state} options={[[BAD_STATES.join(","), "Any failure"], ...Object.entries(STATES).map(([name, look]): [string, string] => [name, look.word])]} onPick={(state) => setQuery({ state })} />
        <Pick label="Trigger" value={filter.trigger} options={Object.entries(TRIGGERS)} onPick={(trigger) => setQuery({ trigger, triggerType: null })} />
        <Pick label="Reason" value={filter.reason} options={Object.keys(REASONS).map((name) => [name, name])} onPick={(reason) => setQuery({ reason })} />
        <Moment label="Due from" value={filter.from} onPick={(from) => setQuery({ from })} />
        <Moment label="Due until" value={filter.to} onPick={(to) => setQuery({ to })} />
        {isFiltered && <a href="/runs">Show all</a>}
      </div>
      {runs.error && !isHalfNamed && <Problem error={runs.error} onRetry={runs.reload} />}
      {isHalfNamed && (
        <p class="row wrap" role="status">
          Which job?
          {names.map((name) => (
            <Tag key={name} name={name} onPick={(job) => setQuery({ job })} />
          ))}
        </p>
      )}
      <Card>
        {!runs.first && runs.isLoading && <Loading lines={8} />}
        {runs.first && !runs.items.length && (
          <Empty title={isFiltered ? "No runs match" : "No runs yet"} icon="runs">
            {isFiltered ? <a href="/runs">Show all runs</a> : "The first occurrence appears here when it is due."}
          </Empty>
        )}
        <BulkBar what="run" actions={["retry", "retry-failed", "cancel"]} />
        {runs.items.length > 0 && <RunTable runs={runs.items} columns={columns} query={query} caption="Runs and skips" isOld={runs.isOld} isSelectable />}
        <More hasMore={runs.hasMore} onMore={runs.more} />
        <Compared first={runs.first} />
      </Card>
    </PageBody>
  );
}

interface PickProps {
  label: string;
  value: string;
  options: [string, string][];
  onPick: (value: string) => void;
}

function Pick({ label, value, options: known, onPick }: PickProps) {
  // An address may have several at once.
  const several = value.split(",").map((one) => known.find(([name]) => name === one)?.[1] ?? one);
  const options: [string, string][] = value && !known.some(([name]) => name === value) ? [...known, [value, several.join(" or ")]] : known;
  return (
    <select aria-label={label} value={value} onChange={(event) => onPick(event.currentTarget.value)}>
      <option value="">{label}: any</option>
      {options.map(([name, word]) => (
        <option key={name} value={name}>
          {word}
        </option>
      ))}
    </select>
  );
}

/** A moment on the reader's own clock, kept as an instant. */
export function Moment({ label, value, onPick }: { label: string; value: string; onPick: (value: string) => void }) {
  const ms = Date.parse(value);
  const shown = Number.isNaN(ms) ? "" : new Date(localMs(ms, LOCAL_ZONE)).toISOString().slice(0, 16);
  const pick = (text: string) => {
    const local = Date.parse(`${text}Z`);
    onPick(Number.isNaN(local) ? "" : new Date(instantOf(local, LOCAL_ZONE)).toISOString());
  };
  return (
    <label class="row small quiet nowrap">
      {label}
      <input type="datetime-local" value={shown} onChange={(event) => pick(event.currentTarget.value)} />
    </label>
  );
}
