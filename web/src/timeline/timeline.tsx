/** The timeline: lanes of jobs, the past on the left, a line for now, the future on the right. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { isFeedOpen } from "../api/connection";
import { listen } from "../api/events";
import { isOutage } from "../api/problem";
import type { AttentionKind, LaneGroup } from "../api/types";
import { nowMs } from "../state/now";
import { jobPath, setQuery } from "../state/route";
import { paint } from "../state/theme";
import { zoneChoice } from "../state/zone";
import { counted } from "../time/words";
import { JOB_STATES, STATES, type Look } from "../ui/outcomes";
import { Glyph, Icon } from "../ui/icon";
import { JobName } from "../ui/job-name";
import { Empty, Problem } from "../ui/parts";
import { Time } from "../ui/time";
import { Engine } from "./engine";
import { listenToHands, toggleGroup, useKey } from "./input";
import type { DrawnLane } from "./items";
import type { Filter } from "./question";
import { TimelineTable } from "./table";
import { Toolbar } from "./toolbar";
import { tellShort } from "./words";

interface Props {
  filter: Filter;
  /** null: what fits. */
  span: number | null;
  at: number | null;
  view: "timeline" | "table";
  /** What else stands in the toolbar. */
  children: ComponentChildren;
}

const NARROW_PX = 640;
const POLL_MS = 10_000;

export function TimelineView({ filter, span, at, view, children }: Props) {
  const scroll = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const axis = useRef<HTMLCanvasElement>(null);
  const [engine, setEngine] = useState<Engine | null>(null);

  useLayoutEffect(() => {
    if (!scroll.current || !canvas.current || !axis.current) return;
    const parts = { scroll: scroll.current, canvas: canvas.current, axis: axis.current };
    const made = new Engine(parts, filter, span, at);
    const fit = () => {
      made.laneHeight = innerWidth < NARROW_PX ? 46 : 30;
      made.resize();
    };
    const watch = new ResizeObserver(fit);
    watch.observe(parts.scroll);
    watch.observe(parts.canvas);
    const release = listenToHands(made, parts);
    const unlisten = listen((events) => {
      const isAll = events.some((event) => event.type === "reset" || !event.job);
      made.lanes.touch(isAll ? null : new Set(events.map((event) => event.job as string)));
    });
    const poll = window.setInterval(() => !isFeedOpen.value && !document.hidden && made.lanes.touch(null), POLL_MS);
    setEngine(made);
    return () => {
      watch.disconnect();
      release();
      unlisten();
      clearInterval(poll);
      made.destroy();
    };
  }, []);

  useEffect(() => engine?.lanes.setFilter(filter), [engine, filter.search, filter.tag, filter.state, filter.sort, filter.group, filter.open.join("\n")]);
  useEffect(() => engine?.repaint(), [engine, paint.value, zoneChoice.value]);
  useEffect(() => (engine ? keepAddress(engine) : undefined), [engine]);

  return (
    <div class="timeline">
      <Toolbar engine={engine} view={view}>
        {children}
      </Toolbar>
      <div class={view === "table" ? "timeline-body is-hidden" : "timeline-body"}>
        <div class="timeline-axis">
          <div class="timeline-corner">{engine && <LaneCount engine={engine} />}</div>
          <canvas ref={axis} aria-hidden="true" />
        </div>
        <div class={engine?.isChoosing.value ? "timeline-scroll is-choosing" : "timeline-scroll"} ref={scroll}>
          <div class="timeline-lanes">
            {engine && <Names engine={engine} />}
            <div
              class="timeline-stage"
              role="application"
              aria-label="Timeline. Arrow keys go from run to run, plus and minus zoom, Enter opens a run. The table view shows the same data as text."
              tabIndex={0}
              onKeyDown={(event) => {
                if (engine && scroll.current && useKey(engine, scroll.current, event)) event.preventDefault();
              }}
            >
              <canvas ref={canvas} aria-hidden="true" />
            </div>
          </div>
        </div>
      </div>
      {engine && <Said engine={engine} />}
      {engine && view === "table" && <TimelineTable engine={engine} />}
      {engine && <State engine={engine} filter={filter} />}
    </div>
  );
}

/** The visible period goes into the address, a moment after it stopped moving. */
function keepAddress(engine: Engine): () => void {
  let timer = 0;
  const stop = engine.version.subscribe(() => {
    clearTimeout(timer);
    timer = window.setTimeout(() => {
      const middle = (engine.window.from + engine.window.to) / 2;
      setQuery({
        span: String(Math.round(engine.span)),
        at: engine.isFollowing.value ? null : new Date(middle).toISOString(),
      });
    }, 400);
  });
  return () => (stop(), clearTimeout(timer));
}

function LaneCount({ engine }: { engine: Engine }) {
  engine.version.value;
  return <span>{engine.lanes.total === null ? "…" : counted(engine.lanes.jobs, "job")}</span>;
}

function Names({ engine }: { engine: Engine }) {
  engine.version.value;
  const total = engine.lanes.total ?? 0;
  const rows = [];
  for (let index = Math.max(0, engine.first - 4); index < Math.min(total, engine.last + 4); index++) {
    const lane = engine.lanes.lane(index);
    const place = { transform: `translateY(${index * engine.laneHeight}px)`, height: `${engine.laneHeight}px` };
    rows.push(
      lane?.group ? (
        <GroupName key={index} lane={lane} group={lane.group} isByTag={engine.lanes.isByTag} place={place} />
      ) : lane ? (
        <a key={index} class={lane.trouble ? "lane-name is-troubled" : "lane-name"} href={jobPath(lane.job)} style={place} data-tip={[lane.name === lane.job ? "" : `${lane.name} (${lane.job})`, lane.description].filter(Boolean).join("\n") || undefined}>
          <Glyph look={lane.trouble ? TROUBLES[lane.trouble] ?? JOB_STATES.error : JOB_STATES[lane.status]} size={9} />
          <span class="cut grow">
            <JobName job={lane.job} name={lane.name} />
          </span>
          <span class="hidden-text">{lane.trouble ?? JOB_STATES[lane.status].word}</span>
          {lane.nextAt && (
            <span class="lane-next">
              <Time at={lane.nextAt} zone={lane.timezone} as="ago" />
            </span>
          )}
        </a>
      ) : (
        <span key={index} class="lane-name is-loading" style={place}>
          <span class="bone" />
        </span>
      ),
    );
  }
  return (
    <nav class="lane-names" aria-label="Jobs" style={{ height: `${total * engine.laneHeight}px` }}>
      {rows}
    </nav>
  );
}

const TROUBLES: Partial<Record<AttentionKind, Look>> = { failing: STATES.failed, stuck: STATES.waiting, skipping: STATES.skipped };

function GroupName({ lane, group, isByTag, place }: { lane: DrawnLane; group: LaneGroup; isByTag: boolean; place: JSX.CSSProperties }) {
  const name = group.name || (isByTag ? "no tag" : "healthy");
  return (
    <button type="button" class={group.troubled ? "lane-name is-group is-troubled" : "lane-name is-group"} style={place} aria-expanded={group.is_open} onClick={() => toggleGroup(group.name)}>
      <Icon name={group.is_open ? "down" : "right"} size={12} />
      <span class="cut grow">
        {name} <span class="quiet">{counted(group.jobs, "job")}</span>
      </span>
      {group.troubled > 0 && (
        <span class="lane-troubled">
          <Glyph look={(lane.trouble && TROUBLES[lane.trouble]) ?? JOB_STATES.error} size={9} /> {group.troubled}
          <span class="hidden-text"> need attention</span>
        </span>
      )}
    </button>
  );
}

function Said({ engine }: { engine: Engine }) {
  const spot = engine.spot.value;
  const lane = spot && engine.lanes.lane(spot.lane);
  const text = spot && lane ? tellShort(lane, spot.item, nowMs()) : "";
  return (
    <p class={spot ? "timeline-said" : "timeline-said is-empty"} role="status" aria-live="polite">
      {text}
    </p>
  );
}

function State({ engine, filter }: { engine: Engine; filter: Filter }) {
  engine.version.value;
  const { total, error } = engine.lanes;
  if (error && (total === null || !isOutage(error))) return <Problem error={error} onRetry={() => engine.lanes.touch(null)} />;
  if (total !== 0) return null;
  const isFiltered = filter.search || filter.tag || filter.state;
  return isFiltered ? (
    <Empty title="No jobs match" icon="search">
      No job matches these filters. <a href="/">Show all jobs</a>
    </Empty>
  ) : (
    <Empty title="No jobs yet">
      Add a YAML file to the jobs folder. It appears here within a second.
    </Empty>
  );
}
