/** The definition of a job when its run was launched, compared with the current one. */

import { useState } from "preact/hooks";
import { path } from "../api/client";
import type { DefinitionChange, RunDefinition, RunDetail } from "../api/types";
import { useApi } from "../api/use";
import { jobPath } from "../state/route";
import { Card, Loading, Problem } from "../ui/parts";
import { isAtLeast } from "../ui/width";

/** Beside the output there is room for it. Above the output it would be in the way, and push it down when it arrives. */
const hasRoom = isAtLeast(1_001);

export function DefinitionAtStart({ run }: { run: RunDetail }) {
  const [isOpen, setOpen] = useState(false);
  const isShown = hasRoom.value || isOpen;
  // Read again when the next attempt begins, or the job changes: both may change it.
  const { data, error, reload } = useApi<RunDefinition>(isShown ? `${path`/runs/${run.run}/definition`}?attempt=${run.attempt}` : null, (event) => event.type === "job" && event.job === run.job);
  const hasChanged = data?.is_current === false && data.changes.some((one) => one.side !== "both");
  return (
    <Card
      title="Definition at start"
      aside={
        <span class="row small">
          {run.is_definition_current === true && <span class="quiet">unchanged since</span>}
          {run.is_definition_current === false && <span class="row-tag is-changed">changed since</span>}
          {run.is_definition_current === null && <span class="quiet">job deleted</span>}
          <a href={`${jobPath(run.job)}?tab=rules`}>Current definition</a>
          {!hasRoom.value && (
            <button type="button" class="button is-bare is-small" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
              {isOpen ? "Hide" : "Show"}
            </button>
          )}
        </span>
      }
    >
      {isShown && error && !data && <Problem error={error} onRetry={reload} />}
      {isShown && !data && !error && <Loading />}
      {isShown && data && (
        <>
          {hasChanged && (
            <p class="definition-legend small">
              <span class="is-before">− at this run</span> <span class="is-after">+ now</span>
            </p>
          )}
          <pre class="code definition" tabIndex={0} role="region" aria-label="Definition at start">
            {hasChanged ? data.changes.map((one, index) => <Line key={index} line={one} />) : data.text}
          </pre>
        </>
      )}
    </Card>
  );
}

const MARKS = { both: " ", before: "−", after: "+" };
const WORDS = { both: "", before: "removed: ", after: "added: " };

function Line({ line }: { line: DefinitionChange }) {
  return (
    <span class={`definition-line is-${line.side}`}>
      <span aria-hidden="true">{MARKS[line.side]} </span>
      {line.side !== "both" && <span class="hidden-text">{WORDS[line.side]}</span>}
      {line.text}
      {"\n"}
    </span>
  );
}
