/** The same period as text: for screen readers, for keyboards, and for copying. */

import { nowMs } from "../state/now";
import { jobPath, runPath } from "../state/route";
import { counted } from "../time/words";
import { StateBadge, TriggerBadge } from "../ui/badges";
import { JobName } from "../ui/job-name";
import { Empty, Loading } from "../ui/parts";
import { Span, Time } from "../ui/time";
import type { Engine } from "./engine";
import { whyPath } from "./input";
import { walkable, type DrawnLane, type Item } from "./items";

const ROWS_MAX = 200;

export function TimelineTable({ engine }: { engine: Engine }) {
  engine.version.value;
  const { from, to } = engine.window;
  const rows: { lane: DrawnLane; item: Item }[] = [];
  for (const [, lane] of engine.lanes.known()) {
    for (const item of walkable(lane)) {
      const through = "through" in item ? item.through : item.at;
      if (through >= from && item.at <= to) rows.push({ lane, item });
    }
  }
  // What has been comes first, newest on top; what is to come follows, soonest on top.
  const now = nowMs();
  const order = ({ at }: Item) => (at > now ? at - now : (now - at) / 1e15 - 1);
  rows.sort((one, other) => order(one.item) - order(other.item));
  if (!rows.length && (engine.lanes.total === null || engine.lanes.isLoading)) return <Loading lines={8} />;
  if (!rows.length) return <Empty title="No runs in this time range">Zoom out or move to another time.</Empty>;
  return (
    <div class="table-scroll timeline-table" tabIndex={0} role="region" aria-label="Occurrences in this time range">
      <table>
        <caption class="hidden-text">Occurrences in this time range, newest first</caption>
        <thead>
          <tr>
            <th scope="col">Due</th>
            <th scope="col">Job</th>
            <th scope="col">Outcome</th>
            <th scope="col" class="from-roomy">
              Trigger
            </th>
            <th scope="col" class="right from-roomy">
              Late
            </th>
            <th scope="col" class="right">
              Took
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, ROWS_MAX).map(({ lane, item }) => (
            <Row key={`${lane.job} ${item.kind} ${item.at} ${"run" in item ? item.run : ""}`} lane={lane} item={item} />
          ))}
        </tbody>
      </table>
      {rows.length > ROWS_MAX && <p class="quiet small table-foot">The newest {ROWS_MAX} of {counted(rows.length, "line")}. Zoom in to see the others.</p>}
    </div>
  );
}

function Row({ lane, item }: { lane: DrawnLane; item: Item }) {
  const at = new Date(item.at).toISOString();
  const target = item.kind === "mark" && item.state !== "skipped" ? runPath(item.run) : whyPath(lane.job, item.at);
  return (
    <tr>
      <td>
        <a href={target}>
          <Time at={at} zone={lane.timezone} isMixed />
        </a>
      </td>
      <td class="job-cell">
        <a class="cut" href={jobPath(lane.job)}>
          <JobName job={lane.job} name={lane.name} />
        </a>
      </td>
      <td>
        <Outcome item={item} />
      </td>
      <td class="from-roomy">{item.kind === "mark" ? <TriggerBadge trigger={item.trigger} /> : null}</td>
      <td class="right nowrap from-roomy">{item.kind === "mark" ? <Span seconds={item.lateness} /> : null}</td>
      <td class="right nowrap">
        {item.kind === "mark" && item.start !== null && item.end !== null ? <Span seconds={(item.end - item.start) / 1000} /> : null}
      </td>
    </tr>
  );
}

function Outcome({ item }: { item: Item }) {
  switch (item.kind) {
    case "mark":
      return <StateBadge state={item.state} reason={item.reason} />;
    case "gap":
      return (
        <>
          <StateBadge state="skipped" reason={item.reason} /> {counted(item.occurrences, "occurrence")}
        </>
      );
    case "future":
      return (
        <>
          <StateBadge state="planned" /> {item.count > 1 ? counted(item.count, "occurrence") : ""}
        </>
      );
    case "cell":
      return (
        <span>
          {counted(item.cell.count, "occurrence")}: {item.cell.succeeded} succeeded, {item.cell.failed} failed, {item.cell.skipped} skipped
        </span>
      );
  }
}
