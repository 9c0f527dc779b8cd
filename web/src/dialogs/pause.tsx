/** Stop planning a job for a while; end what is active of it. */

import { useState } from "preact/hooks";
import { path, send } from "../api/client";
import type { Asked } from "../api/types";
import { counted } from "../time/words";
import { FormDialog } from "../ui/dialog";
import { Field } from "../ui/parts";
import type { DialogProps } from ".";

export function PauseDialog({ job, onClose }: DialogProps) {
  const [note, setNote] = useState("");
  async function submit(): Promise<string> {
    await send<Asked>(path`/jobs/${job.job}/pause`, { note });
    return `${job.name} is paused.`;
  }
  return (
    <FormDialog title={`Pause ${job.name}`} action="Pause" onClose={onClose} onSubmit={submit}>
      <p class="quiet">Nothing new is planned until you resume it. Runs that are active go on. What falls due meanwhile is not lost: you choose on resume.</p>
      <Field label="Why, for the others" hint="Shown wherever the job is">
        <input type="text" maxLength={500} value={note} onInput={(event) => setNote(event.currentTarget.value)} placeholder="until the migration is done" />
      </Field>
    </FormDialog>
  );
}

export function CancelDialog({ job, onClose }: DialogProps) {
  async function submit(): Promise<string> {
    await send<Asked>(path`/jobs/${job.job}/cancel`);
    return `The runs of ${job.name} are being ended.`;
  }
  return (
    <FormDialog title={`Cancel ${job.name}`} action="End its runs" isDangerous onClose={onClose} onSubmit={submit}>
      <p>
        Ends {counted(job.active, "active run")} and {job.waiting ? `${counted(job.waiting, "waiting one")}` : "none that wait"}. Its schedule goes on.
      </p>
    </FormDialog>
  );
}
