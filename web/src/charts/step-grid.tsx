/** Which step keeps failing: steps by recent runs, and results by weekday. */

import type { StepHistory, StepRow, WeekdayFigures } from "../api/types";
import { runPath } from "../state/route";
import { shownZone } from "../state/zone";
import { counted, full, span } from "../time/words";
import { lookOf } from "../ui/outcomes";
import { SHAPES } from "../ui/shapes";

const CELL = 16;
/** With more steps than fit, those that failed come first. */
const STEPS_SEEN = 16;

export function StepGrid({ history }: { history: StepHistory }) {
  const { runs } = history;
  const steps = history.steps.length > STEPS_SEEN ? [...history.steps].sort((one, other) => other.failures - one.failures) : history.steps;
  const zone = shownZone(history.timezone);
  const longest = Math.max(...runs.map((run) => run.duration_seconds ?? 0), 0.001);
  return (
    <div class="step-grid" tabIndex={0} role="region" aria-label="Steps in the last runs">
      <table>
        <caption class="hidden-text">Steps in the last {counted(runs.length, "run")}, oldest first</caption>
        <thead>
          <tr>
            <th scope="col">Step</th>
            {runs.map((run) => (
              <th key={run.run} scope="col" class="step-grid-run">
                <a href={runPath(run.run)} data-tip={`${full(Date.parse(run.scheduled_for), zone)}\n${lookOf(run.state).word}, took ${span((run.duration_seconds ?? 0) * 1000)}`}>
                  <span class={`step-grid-bar is-${lookOf(run.state).color}`} style={{ height: `${4 + 26 * ((run.duration_seconds ?? 0) / longest)}px` }} />
                  <span class="hidden-text">{full(Date.parse(run.scheduled_for), zone)}</span>
                </a>
              </th>
            ))}
            <th scope="col" class="right">
              Failed
            </th>
          </tr>
        </thead>
        <tbody>
          {steps.map((step) => (
            <Row key={step.name} step={step} runs={runs.map((run) => run.run)} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Row({ step, runs }: { step: StepRow; runs: string[] }) {
  return (
    <tr class={step.failures ? "has-failures" : undefined}>
      <th scope="row" class="cut">
        {step.name}
      </th>
      {step.states.map((state, index) => (
        <td key={runs[index]} class="step-grid-cell">
          {state && (
            <a href={`${runPath(runs[index] ?? "")}?step=${encodeURIComponent(step.name)}`} aria-label={`${step.name}: ${lookOf(state).word}`}>
              <Cell state={state} />
            </a>
          )}
        </td>
      ))}
      <td class="right nowrap small">
        {step.failures ? `${step.failures} of ${step.states.filter(Boolean).length}` : ""}
        {step.retries ? ` · ${counted(step.retries, "retry", "retries")}` : ""}
      </td>
    </tr>
  );
}

function Cell({ state }: { state: string }) {
  const look = lookOf(state);
  const { body, line } = SHAPES[look.shape];
  return (
    <svg class={`glyph is-${look.color}`} width={CELL - 4} height={CELL - 4} viewBox="0 0 16 16" aria-hidden="true">
      {body && <path class="body" d={body} />}
      {line && <path class={body ? "line over" : "line"} d={line} />}
    </svg>
  );
}

/** Below this percentage a weekday fails often; single failures are red in its bar. */
const OFTEN_BELOW = 90;
const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

export function Weekdays({ days }: { days: WeekdayFigures[] }) {
  const most = Math.max(1, ...days.map((day) => day.succeeded + day.failed));
  return (
    <ol class="weekdays" aria-label="Success by weekday">
      {days.map((day) => {
        const total = day.succeeded + day.failed;
        const share = total ? Math.floor((100 * day.succeeded) / total) : null;
        return (
          <li key={day.weekday} data-tip={`${counted(day.succeeded, "run")} succeeded, ${day.failed} failed`}>
            <span class="weekday-bars" aria-hidden="true">
              <span class="is-failed" style={{ height: `${(100 * day.failed) / most}%` }} />
              <span class="is-succeeded" style={{ height: `${(100 * day.succeeded) / most}%` }} />
            </span>
            <span>{DAYS[day.weekday]}</span>
            <span class={share !== null && share < OFTEN_BELOW ? "small weekday-bad" : "small quiet"}>{share === null ? "–" : `${share} %`}</span>
          </li>
        );
      })}
    </ol>
  );
}
