/** The steps of a run in time, attempt by attempt. */

import { Fragment } from "preact";
import { useState } from "preact/hooks";
import type { Attempt, AttemptStep } from "../api/types";
import { now } from "../state/now";
import { runPath } from "../state/route";
import { spanTicks } from "../time/axis";
import { bytes, roundSpan, span } from "../time/words";
import { StateBadge } from "../ui/badges";
import { lookOf } from "../ui/outcomes";
import { isAtLeast } from "../ui/width";
import { ItemField } from "./items";

export interface Chosen {
  attempt: number;
  step: string;
}

interface Props {
  attempts: Attempt[];
  /** null: it is still running. */
  ended: number | null;
  chosen: Chosen | null;
  onPick: (chosen: Chosen) => void;
}

const isRoomy = isAtLeast(1_800);

/** With more steps than this, those that need no look are folded. */
const STEPS_MAX = 24;

/** Attempts with recorded steps. */
const told = (attempt: Attempt) => attempt.started_at !== null || attempt.steps.length > 0;

const itemsOf = (attempts: Attempt[], step: AttemptStep) => attempts.flatMap((one) => one.steps).filter((item) => item.item_of === step.name && item.attempt === step.attempt);

export function Gantt({ attempts: all, ended, chosen, onPick }: Props) {
  const attempts = all.filter(told);
  const steps = attempts.flatMap((one) => one.steps).filter((step) => step.item_of === null);
  const isFoldable = (step: AttemptStep) => (step.state === "succeeded" || step.state === "pending") && step.name !== chosen?.step && !itemsOf(attempts, step).some((item) => item.name === chosen?.step);
  const others = steps.filter((step) => !isFoldable(step)).length;
  const foldable = steps.length > STEPS_MAX && others > 0 ? steps.length - others : 0;
  const [wantsFold, setFolded] = useState(true);
  const isFolded = wantsFold && foldable > 0;
  // Steps kept from an earlier run ended before this one began: they are not on its axis.
  const times = attempts.flatMap((one) => [one, ...one.steps.filter((step) => !step.reused_from)]).flatMap((one) => [one.started_at, one.finished_at]).flatMap((text) => (text ? [Date.parse(text)] : []));
  const first = times.length ? Math.min(...times) : (ended ?? now.value);
  // Only an active run follows the clock.
  const last = Math.max(ended ?? now.value, first + 1, ...times);
  // Five labels side by side do not fit below the bars of a narrow screen.
  const lines = spanTicks(last - first, isRoomy.value ? 5 : 3).map((at) => ({ at, left: `${(100 * at) / (last - first)}%` }));
  const isAtEnd = (at: number) => at > 0.9 * (last - first);
  return (
    <div class="gantt">
      <div class="gantt-head small quiet" aria-hidden="true">
        <span class="gantt-fact">Took</span>
        <span class="gantt-fact is-cpu">CPU</span>
        <span class="gantt-fact is-memory">Memory</span>
      </div>
      {attempts.length < all.length && <p class="small quiet">Of {all.length - attempts.length} earlier attempts the ledger keeps only that they were.</p>}
      {attempts.map((attempt) => (
        <div key={attempt.attempt} class="gantt-attempt">
          {all.length > 1 && <AttemptHead attempt={attempt} />}
          {attempt.steps.filter((step) => step.item_of === null && (!isFolded || !isFoldable(step))).map((step) => {
            const items = itemsOf([attempt], step);
            const pick = (name: string) => onPick({ attempt: attempt.attempt, step: name });
            const own = chosen?.attempt === attempt.attempt ? chosen.step : undefined;
            return (
              <Fragment key={step.name}>
                <GanttRow step={step} first={first} last={last} lines={lines} isChosen={own === step.name} onPick={() => pick(step.name)} />
                {items.length > 0 && <ItemField items={items} chosen={own} onPick={pick} />}
              </Fragment>
            );
          })}
        </div>
      ))}
      {foldable > 0 && (
        <button type="button" class="gantt-fold small" aria-expanded={!isFolded} onClick={() => setFolded(!isFolded)}>
          {isFolded ? `Show ${foldable} more steps that succeeded or have not started` : "Show only steps that failed, were skipped or run"}
        </button>
      )}
      <div class="gantt-foot small quiet" aria-hidden="true">
        <div class="gantt-axis">
          {lines.map(({ at, left }) => (
            <span key={at} class={isAtEnd(at) ? "is-at-end" : undefined} style={{ left }}>
              {roundSpan(at)}
            </span>
          ))}
        </div>
      </div>
    </div>
  );
}

function AttemptHead({ attempt }: { attempt: Attempt }) {
  // A step may have begun a moment before the recorded start of its attempt.
  const starts = [attempt, ...attempt.steps.filter((step) => !step.reused_from)].flatMap((one) => (one.started_at ? [Date.parse(one.started_at)] : []));
  const took = attempt.finished_at && starts.length ? span(Date.parse(attempt.finished_at) - Math.min(...starts)) : "";
  const code = attempt.exit_code ? `exit code ${attempt.exit_code}` : "";
  return (
    <h3 class="row">
      Attempt {attempt.attempt}
      <StateBadge state={attempt.state} />
      <span class="small quiet cut">
        {[took, code, attempt.state === "succeeded" || attempt.detail === code ? "" : attempt.detail].filter(Boolean).join(" · ")}
      </span>
    </h3>
  );
}

interface RowProps {
  step: AttemptStep;
  first: number;
  last: number;
  /** Where the axis has its lines. */
  lines: { at: number; left: string }[];
  isChosen: boolean;
  onPick: () => void;
}

function GanttRow({ step, first, last, lines, isChosen, onPick }: RowProps) {
  const start = step.started_at && !step.reused_from && step.state !== "skipped" ? Date.parse(step.started_at) : null;
  const end = step.finished_at ? Date.parse(step.finished_at) : last;
  const look = lookOf(step.state ?? "unknown");
  const share = (at: number) => ((at - first) / (last - first)) * 100;
  const note = [step.exit_code ? `exit ${step.exit_code}` : "", step.tries > 1 ? `${step.tries} tries` : ""].filter(Boolean).join(" · ");
  return (
    <div class={isChosen ? "gantt-row is-chosen" : "gantt-row"}>
      <button type="button" class="gantt-name" aria-pressed={isChosen} onClick={onPick} data-tip={step.detail || undefined}>
        <span class="cut grow">{step.name}</span>
        {step.state && <StateBadge state={step.state} />}
        {note && <span class="gantt-note small quiet nowrap">{note}</span>}
      </button>
      <div class="gantt-track" onClick={onPick}>
        {lines.map(({ at, left }) => (
          <span key={at} class="gantt-line" style={{ left }} />
        ))}
        {start !== null && <span class={`gantt-bar is-${look.color}`} style={{ left: `min(${share(start)}%, 100% - 4px)`, width: `max(4px, ${share(end) - share(start)}%)` }} />}
        {step.reused_from && (
          <span class="gantt-text small">
            not repeated, taken from <a href={runPath(step.reused_from)}>earlier run</a>
          </span>
        )}
      </div>
      <span class="gantt-fact small">{start !== null && span(end - start)}</span>
      <span class="gantt-fact is-cpu small">{step.cpu_seconds > 0.05 && span(step.cpu_seconds * 1000)}</span>
      <span class="gantt-fact is-memory small">{step.max_rss_bytes ? bytes(step.max_rss_bytes) : ""}</span>
    </div>
  );
}
