/** The steps of a run in time, attempt by attempt. */

import type { StepState } from "../api/types";
import { now } from "../state/now";
import { runPath } from "../state/route";
import { span } from "../time/words";
import { StateBadge } from "../ui/badges";
import { lookOf } from "../ui/outcomes";

export interface Chosen {
  attempt: number;
  step: string;
}

interface Props {
  steps: StepState[];
  began: number | null;
  /** null: it is still running. */
  ended: number | null;
  chosen: Chosen | null;
  onPick: (chosen: Chosen) => void;
}

export function Gantt({ steps, began, ended, chosen, onPick }: Props) {
  const times = steps.flatMap((step) => [step.started_at, step.finished_at]).flatMap((text) => (text ? [Date.parse(text)] : []));
  // A second attempt begins anew: the first one's steps lie before what the run calls its start.
  const first = Math.min(began ?? Infinity, ...times);
  // Only a run that goes on listens to the clock.
  const last = Math.max(ended ?? now.value, first + 1, ...times);
  const attempts = [...new Set(steps.map((step) => step.attempt))].sort((one, other) => one - other);
  return (
    <div class="gantt">
      {attempts.map((attempt) => (
        <div key={attempt} class="gantt-attempt">
          {attempts.length > 1 && <h3>Attempt {attempt}</h3>}
          {steps
            .filter((step) => step.attempt === attempt)
            .map((step) => (
              <GanttRow
                key={step.name}
                step={step}
                first={first}
                last={last}
                isChosen={chosen?.attempt === attempt && chosen.step === step.name}
                onPick={() => onPick({ attempt, step: step.name })}
              />
            ))}
        </div>
      ))}
      <div class="gantt-axis small quiet" aria-hidden="true">
        {[0, 0.25, 0.5, 0.75, 1].map((share) => (
          <span key={share} style={{ left: `${share * 100}%` }}>
            {share ? span((last - first) * share) : "0"}
          </span>
        ))}
      </div>
    </div>
  );
}

interface RowProps {
  step: StepState;
  first: number;
  last: number;
  isChosen: boolean;
  onPick: () => void;
}

function GanttRow({ step, first, last, isChosen, onPick }: RowProps) {
  const start = step.started_at ? Date.parse(step.started_at) : null;
  const end = step.finished_at ? Date.parse(step.finished_at) : last;
  const look = lookOf(step.state);
  const share = (at: number) => ((at - first) / (last - first)) * 100;
  const took = start === null ? "" : span(end - start);
  return (
    <div class={isChosen ? "gantt-row is-chosen" : "gantt-row"}>
      <button type="button" class="gantt-name" aria-pressed={isChosen} onClick={onPick} data-tip={step.detail || undefined}>
        <span class="cut grow">{step.name}</span>
        <StateBadge state={step.state} />
      </button>
      <div class="gantt-track" onClick={onPick}>
        {start !== null && (
          <span
            class={`gantt-bar is-${look.color}${step.reused_from ? " is-reused" : ""}`}
            style={{ left: `${share(start)}%`, width: `max(4px, ${share(end) - share(start)}%)` }}
          />
        )}
        <span class="gantt-took small" style={start === null ? {} : share(end) > 82 ? { right: `${100 - share(start)}%` } : { left: `${share(end)}%` }}>
          {took}
          {step.tries > 1 && ` · ${step.tries} tries`}
          {step.exit_code ? ` · exit code ${step.exit_code}` : ""}
          {step.reused_from && " · not repeated"}
          {step.sub_run && (
            <>
              {" "}
              · <a href={runPath(step.sub_run)}>its run</a>
            </>
          )}
        </span>
      </div>
    </div>
  );
}
