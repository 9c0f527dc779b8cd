/** Resume a paused job, and choose which missed occurrences run. */

import { useState } from "preact/hooks";
import { path, send, withQuery } from "../api/client";
import type { RequestStatus, CatchupPreview } from "../api/types";
import { useApi } from "../api/use";
import { counted } from "../time/words";
import { FormDialog } from "../ui/dialog";
import { Glyph } from "../ui/icon";
import { STATES } from "../ui/outcomes";
import { Loading } from "../ui/parts";
import { Time } from "../ui/time";
import type { DialogProps } from ".";

const CHOICES = [
  { keep: "", name: "Use the job's rule", about: "what the job file says about missed occurrences" },
  { keep: "all", name: "Run all", about: "one after another, oldest first" },
  { keep: "latest", name: "Run the latest", about: "one run for all missed occurrences" },
  { keep: "none", name: "Run none", about: "record each as skipped, reason paused" },
] as const;

export function ResumeDialog({ job, onClose }: DialogProps) {
  const [keep, setKeep] = useState("");
  const { data, error } = useApi<CatchupPreview>(withQuery(path`/jobs/${job.job}/catchup`, { keep }));
  async function submit(): Promise<string> {
    await send<RequestStatus>(path`/jobs/${job.job}/resume`, keep ? { catchup: keep } : {});
    return `Resumed ${job.name}.`;
  }
  return (
    <FormDialog title={`Resume ${job.name}`} action="Resume" onClose={onClose} onSubmit={submit}>
      <p>
        Paused since <Time at={job.paused_at} zone={job.timezone} />. What should happen to the occurrences that were missed?
      </p>
      <div class="options" role="radiogroup" aria-label="Missed occurrences">
        {CHOICES.map((choice) => (
          <label key={choice.keep} class="option">
            <input type="radio" name="keep" checked={keep === choice.keep} onChange={() => setKeep(choice.keep)} />
            <span class="strong">{choice.name}</span>
            <span class="option-about">{choice.about}</span>
          </label>
        ))}
      </div>
      <div class="preview" role="status">
        {error ? <p class="quiet small">{error.message}</p> : data ? <Preview preview={data} zone={job.timezone} /> : <Loading lines={2} />}
      </div>
    </FormDialog>
  );
}

function Preview({ preview, zone }: { preview: CatchupPreview; zone: string }) {
  if (!preview.fates.length) return <p class="quiet">No occurrences were missed.</p>;
  return (
    <>
      {preview.blackout_until && (
        <p class="quiet">
          It is in a blackout until <Time at={preview.blackout_until} zone={zone} />, which decides then:
        </p>
      )}
      <p class="strong">
        {counted(preview.kept, "run")} will start, {counted(preview.skipped, "occurrence")} will be skipped.
      </p>
      <ul class="preview-list" tabIndex={0}>
        {preview.fates.slice(0, 100).map((fate) => (
          <li key={fate.scheduled_for} class="row">
            <Glyph look={fate.runs ? STATES.planned : STATES.skipped} size={11} />
            <Time at={fate.scheduled_for} zone={zone} as="full" />
            <span class="quiet small">
              {fate.what}
              {fate.occurrences > 1 && `, ${counted(fate.occurrences, "occurrence")}`}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
