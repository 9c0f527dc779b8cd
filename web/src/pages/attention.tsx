/** What an operator should look at now, each with the one button that helps. */

import type { ComponentChildren } from "preact";
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { path, send } from "../api/client";
import type { Attention, AttentionAction, AttentionItem, AttentionKind, RequestStatus } from "../api/types";
import { useApi } from "../api/use";
import { askedAction } from "../actions";
import { jobPath, runPath } from "../state/route";
import { may } from "../state/session";
import { counted, number, span } from "../time/words";
import { Glyph } from "../ui/icon";
import { JobName } from "../ui/job-name";
import { JOB_STATES, LIGHTS, REASONS, STATES, type Look } from "../ui/outcomes";
import { Button } from "../ui/parts";
import { Time } from "../ui/time";
import { attempt } from "../ui/toast";
import { isAtLeast } from "../ui/width";

/** More than these would push the timeline off the screen; on a narrow one each has three lines. */
const SHOWN = { wide: 4, narrow: 2 } as const;
const isWide = isAtLeast(641);

/** Whether the height of the list is known: what is below it is shown from then on, and does not move. */
export const isAttentionKnown = signal(false);
const PATIENCE_MS = 1_500;

export function NeedsAttention() {
  const { data, error } = useApi<Attention>("/attention", () => true);
  const [isAll, setAll] = useState(false);
  const [isOpened, setOpened] = useState(false);
  // What is below is shown already: a list that comes now is one line, as high as its place, until it is opened.
  const isLate = useRef(false);
  isLate.current ||= !data && isAttentionKnown.value;
  const isFolded = isLate.current && !isOpened;
  useEffect(() => {
    if (data || error) isAttentionKnown.value = true;
    const timer = window.setTimeout(() => (isAttentionKnown.value = true), PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [!data, !error]);
  if (!data) {
    return error ? (
      <div class="attention is-line" role="alert">
        Cannot load what needs attention. {error.message}
      </div>
    ) : (
      <div class="attention is-line is-loading" role="status" aria-label="Loading" />
    );
  }
  if (!data.items.length) {
    return (
      <section class="attention is-line is-well" aria-label="Needs attention">
        <Glyph look={STATES.succeeded} size={12} />
        <span class="nowrap">
          <strong>All is well</strong> ({counted(data.jobs, "job")}).
        </span>
        <span class="attention-well">The scheduler is running, and no job is failing, late, stuck or repeatedly skipped.</span>
      </section>
    );
  }
  const few = isWide.value ? SHOWN.wide : SHOWN.narrow;
  const shown = isAll ? data.items : data.items.slice(0, few);
  return (
    <section class="attention" aria-label="Needs attention">
      <h2 class="attention-head">
        Needs attention <span class="attention-count">{number(data.total)}</span>
        <span class="attention-kinds">{kinds(data.counts)}</span>
        {(isFolded || data.items.length > few) && (
          <Button kind="bare" isSmall onClick={() => (isFolded ? setOpened(true) : setAll(!isAll))}>
            {isFolded ? "Show" : isAll ? "Show fewer" : `Show ${data.items.length < data.total ? `${number(data.items.length)} of` : "all"} ${number(data.total)}`}
          </Button>
        )}
      </h2>
      <ul hidden={isFolded} class={isAll ? "attention-list is-all" : "attention-list"} tabIndex={isAll ? 0 : undefined}>
        {shown.map((item) => (
          <Row key={keyOf(item)} item={item} />
        ))}
      </ul>
    </section>
  );
}

const keyOf = (item: AttentionItem) => [item.kind, item.job, item.run, item.member, item.node, item.file].join(" ");

const NAMES: Record<AttentionKind, string> = {
  "no-scheduler": "no scheduler",
  lagging: "scheduler lags",
  "ledger-damaged": "ledger damaged",
  clock: "clock changed",
  failing: "failing",
  "past-deadline": "past deadline",
  stuck: "stuck",
  skipping: "skipped",
  "node-away": "node away",
  "member-away": "member away",
  "member-closed": "member closed",
  "invalid-file": "invalid file",
};

/** Those that are nouns. */
const MANY: Partial<Record<AttentionKind, string>> = {
  "node-away": "nodes away",
  "member-away": "members away",
  "member-closed": "members closed",
  "invalid-file": "invalid files",
};

function kinds(counts: Attention["counts"]): string {
  const found = Object.entries(counts) as [AttentionKind, number][];
  return found.map(([kind, count]) => `${number(count)} ${count > 1 ? (MANY[kind] ?? NAMES[kind]) : NAMES[kind]}`).join(" · ");
}

const MACHINE: Look = { word: "Machine", color: "timed-out", shape: "clock" };

function lookOf(item: AttentionItem): Look {
  if (item.kind === "failing") return STATES[item.state ?? "failed"];
  if (item.kind === "past-deadline") return LIGHTS[item.active ? "late" : "down"];
  if (item.kind === "stuck") return STATES.waiting;
  if (item.kind === "skipping") return STATES.skipped;
  if (item.kind === "no-scheduler" || item.kind === "ledger-damaged" || item.kind === "invalid-file") return JOB_STATES.error;
  return MACHINE;
}

function Row({ item }: { item: AttentionItem }) {
  return (
    <li class={`attention-row is-${item.kind}`}>
      <Glyph look={lookOf(item)} size={12} />
      <span class="attention-name cut">{subject(item)}</span>
      <span class="attention-what">{what(item)}</span>
      <span class="attention-text mono cut" data-tip={item.text || undefined}>
        {item.text}
      </span>
      <span class="attention-since quiet small nowrap">{item.since && <Time at={item.since} zone={item.timezone ?? undefined} as={item.kind === "clock" ? "ago" : "for"} />}</span>
      <span class="attention-do">
        <Help item={item} />
      </span>
    </li>
  );
}

function subject(item: AttentionItem): ComponentChildren {
  if (item.job) {
    return (
      <a class="strong" href={jobPath(item.job)}>
        <JobName job={item.job} name={item.job_name ?? item.job} />
      </a>
    );
  }
  if (item.member || item.executor) return <a href="/executors">{[item.executor, item.member].filter(Boolean).join(" · ")}</a>;
  if (item.file) return <code class="small">{item.line ? `${item.file}:${item.line}` : item.file}</code>;
  return <strong>{item.node ?? "Scheduler"}</strong>;
}

/** What is wrong, from the fields of the item. */
function what(item: AttentionItem): string {
  const times = item.count > 1 ? `, ${number(item.count)} in a row` : "";
  switch (item.kind) {
    case "no-scheduler":
      return "No scheduler is running. No job starts until one does";
    case "lagging":
      return `Planning lags by ${span((item.seconds ?? 0) * 1000)}`;
    case "ledger-damaged":
      return "The ledger is damaged. Restore a backup";
    case "clock":
      return `The clock went ${(item.seconds ?? 0) < 0 ? "back" : "forward"} by ${span(Math.abs(item.seconds ?? 0) * 1000)}`;
    case "failing":
      return STATES[item.state ?? "failed"].word + times + (item.active ? ", a run is in progress" : "");
    case "past-deadline":
      return `Past its deadline${item.active ? ", a run is in progress" : ", nothing is running"}`;
    case "stuck":
      return `${item.count > 1 ? `${number(item.count)} runs wait` : item.state === "launching" ? "Does not start" : "Waits"}${waitsFor(item)}`;
    case "skipping":
      return `Skipped ${counted(item.count, "time")} in a row: ${(item.reason && REASONS[item.reason]) ?? item.reason ?? ""}`;
    case "node-away":
      return `Away with ${counted(item.count, "run")}; the other nodes wait for its lease to end`;
    case "member-away":
      return "Does not respond";
    case "member-closed":
      return `Accepts no runs${item.closed ? `: ${item.closed}` : ""}`;
    case "invalid-file":
      return `${counted(item.count, "error")}${item.job ? "; the last valid version runs" : "; not loaded"}`;
  }
}

function waitsFor({ wait }: AttentionItem): string {
  switch (wait?.kind) {
    case "queue":
      return ` for a place in the queue ${wait.name}${wait.limit ? ` (${number(wait.limit)})` : ""}`;
    case "overlap":
      return " for another run of the job";
    case "after":
      return ` for ${wait.jobs.join(", ")}`;
    case "executor":
      return ` for a member of ${wait.name}`;
    default:
      return "";
  }
}

const LINKS: Partial<Record<AttentionAction, (item: AttentionItem) => [string, string]>> = {
  "show-run": (item) => [runPath(item.other_run ?? item.run ?? ""), item.other_run ? "Show the blocking run" : "Show run"],
  "show-job": (item) => [item.job ? `${jobPath(item.job)}?tab=rules` : "/jobs", "Show errors"],
  "show-executors": () => ["/executors", "Show executors"],
  "show-skipped": (item) => [`/runs?state=skipped${item.since ? `&from=${item.since}` : ""}`, "Show skipped runs"],
};

function Help({ item }: { item: AttentionItem }) {
  const link = item.action && LINKS[item.action]?.(item);
  if (link) {
    return (
      <a class="button is-small" href={link[0]}>
        {link[1]}
      </a>
    );
  }
  if (!item.action || !may("operator")) {
    if (!item.run) return null;
    return (
      <a class="button is-small" href={runPath(item.run)}>
        Show run
      </a>
    );
  }
  return (
    <>
      {item.kind === "failing" && item.run && (
        <a class="button is-small is-bare" href={runPath(item.run)}>
          Log
        </a>
      )}
      <Button isSmall isDisabled={item.kind === "failing" && !!item.active} onClick={() => act(item)} label={`${WORDS[item.action]} ${item.job ?? item.member ?? ""}`}>
        {WORDS[item.action]}
      </Button>
    </>
  );
}

const WORDS: Partial<Record<AttentionAction, string>> = {
  retry: "Retry",
  "retry-failed": "Retry from the failed step",
  run: "Run now",
  backfill: "Backfill",
  undrain: "Accept runs again",
};

function act(item: AttentionItem): void {
  if (item.action === "run" && item.job) askedAction.value = { action: "trigger", job: item.job };
  else if (item.action === "backfill" && item.job) askedAction.value = { action: "backfill", job: item.job };
  else if (item.action === "undrain") void attempt(() => undrain(item));
  else void attempt(() => retry(item));
}

async function undrain({ executor, member }: AttentionItem): Promise<string> {
  await send(path`/executors/${executor ?? ""}/members/${member ?? ""}/undrain`);
  return `${member} accepts runs again.`;
}

async function retry(item: AttentionItem): Promise<string> {
  const asked = await send<RequestStatus>(`${path`/runs/${item.run ?? ""}/retry`}?wait=5`, { from_failed: item.action === "retry-failed" });
  return asked.is_scheduler_running ? `Started a retry of ${item.job_name}.` : "No scheduler is running. The retry is queued and runs when one starts.";
}
