/** Small labels: what state something is in, and why a run exists. */

import { counted, number } from "../time/words";
import type { JobStatus, Light, RunPoint, Trigger } from "../api/types";
import { Glyph } from "./icon";
import { JOB_STATES, LIGHTS, lookOf, REASONS, TRIGGERS, type Look } from "./outcomes";

function Label({ look, tip, extra }: { look: Look; tip?: string | undefined; extra?: string | undefined }) {
  return (
    <span class={`badge on-${look.color}`} data-tip={tip}>
      <Glyph look={look} size={10} />
      {look.word}
      {extra && <span class="badge-extra">{extra}</span>}
    </span>
  );
}

export function StateBadge({ state, reason }: { state: string; reason?: string | null }) {
  return <Label look={lookOf(state)} extra={reason ?? undefined} tip={reason ? REASONS[reason] : undefined} />;
}

const DELETED: Look = { word: "Deleted", color: "cancelled", shape: "slash" };

type Standing = { status: JobStatus; retired_at?: string | null; active?: number; error?: string; pause_note?: string };

export function JobBadge({ job }: { job: Standing }) {
  if (job.retired_at) return <Label look={DELETED} tip="The job was deleted. Its history is kept." />;
  const isLaunching = !!job.active && job.status !== "running" ? "A run was sent to an executor that has not started it yet" : "";
  return <Label look={JOB_STATES[job.status]} tip={job.error || job.pause_note || isLaunching || undefined} />;
}

/** Whether the job can be relied on: in a list, the word is written out only where it cannot. */
export function JobLight({ job, isLong }: { job: { light: Light | null; late_since: string | null }; isLong?: boolean }) {
  if (!job.light) return null;
  const look = LIGHTS[job.light];
  if (job.light !== "on time") return <Label look={look} tip={job.late_since ? "A deadline has passed, and the job has not succeeded since" : "The last run failed"} />;
  if (isLong) return <Label look={look} />;
  return (
    <span class={`badge on-${look.color}`} role="img" aria-label={look.word} data-tip={look.word}>
      <Glyph look={look} size={10} />
    </span>
  );
}

export function TriggerBadge({ trigger }: { trigger: Trigger }) {
  return <span class={`trigger trigger-${trigger}`}>{TRIGGERS[trigger] ?? trigger}</span>;
}

export function Tag({ name, isOn, onPick }: { name: string; isOn?: boolean; onPick?: (name: string) => void }) {
  if (!onPick) return <span class="tag">{name}</span>;
  return (
    <button type="button" class={isOn ? "tag is-on" : "tag"} aria-pressed={!!isOn} onClick={() => onPick(name)}>
      {name}
    </button>
  );
}

/** The label of a job without an ended run. */
export function NeverRan({ job }: { job: { skips: Record<string, number>; active: number } }) {
  const reasons = Object.entries(job.skips);
  if (job.active) return <span class="quiet small">first run in progress</span>;
  if (!reasons.length) return <span class="quiet small">no runs yet</span>;
  const total = reasons.reduce((sum, [, count]) => sum + count, 0);
  const tip = reasons.map(([reason, count]) => `${number(count)} ${reason}: ${REASONS[reason] ?? reason}`).join("\n");
  return (
    <span class="small" data-tip={tip}>
      skipped {counted(total, "time")}, never ran
    </span>
  );
}

/** The latest outcomes of a job, oldest first, as a row of shapes whose heights are durations. */
export function Sparkline({ runs, job }: { runs: RunPoint[]; job: { skips: Record<string, number>; active: number } }) {
  if (!runs.length) return <NeverRan job={job} />;
  const longest = Math.max(...runs.map((run) => run.duration_seconds ?? 0), 0.001);
  const words = `The last ${runs.length} runs: ${runs.map((run) => lookOf(run.state).word.toLowerCase()).join(", ")}`;
  // One path for each look: a page of fifty jobs has a thousand bars.
  const bars = new Map<string, string>();
  let marks = "";
  for (const [index, run] of runs.entries()) {
    const height = 4 + 15 * Math.sqrt((run.duration_seconds ?? 0) / longest);
    const look = lookOf(run.state);
    const isHollow = run.state === "skipped" || run.state === "planned" || run.state === "waiting";
    const name = `is-${look.color} ${isHollow ? "hollow" : "solid"}`;
    const x = index * 6 + 0.5;
    bars.set(name, `${bars.get(name) ?? ""}M${x} 21v${-height.toFixed(1)}h4v${height.toFixed(1)}z`);
    if (look.color === "failed") marks += `M${x} 1.5h4m-2 -1.5v3.5`;
  }
  return (
    <svg class="sparkline" width={runs.length * 6} height="22" role="img" aria-label={words}>
      {[...bars].map(([name, data]) => (
        <path key={name} class={name} d={data} />
      ))}
      {marks && <path class="mark is-failed" d={marks} />}
    </svg>
  );
}
