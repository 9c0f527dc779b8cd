/** Pause a job; cancel its active runs. */

import { useState } from "preact/hooks";
import { path, send } from "../api/client";
import type { RequestStatus } from "../api/types";
import { counted } from "../time/words";
import { FormDialog } from "../ui/dialog";
import { Field } from "../ui/parts";
import type { DialogProps } from ".";

export function PauseDialog({ job, onClose }: DialogProps) {
  const [note, setNote] = useState("");
  async function submit(): Promise<string> {
    await send<RequestStatus>(path`/jobs/${job.job}/pause`, { note });
    return `Paused ${job.name}.`;
  }
  return (
    <FormDialog title={`Pause ${job.name}`} action="Pause" onClose={onClose} onSubmit={submit}>
      <p class="quiet">The scheduler plans no new runs until you resume the job. Active runs continue. When you resume, you choose what happens to the occurrences that were missed.</p>
      <Field label="Reason" hint="Shown next to the job">
        <input type="text" maxLength={500} value={note} onInput={(event) => setNote(event.currentTarget.value)} placeholder="database migration" />
      </Field>
    </FormDialog>
  );
}

export function CancelDialog({ job, onClose }: DialogProps) {
  async function submit(): Promise<string> {
    await send<RequestStatus>(path`/jobs/${job.job}/cancel`);
    return `Cancelling the runs of ${job.name}.`;
  }
  return (
    <FormDialog title={`Cancel ${job.name}`} action="Cancel runs" isDangerous onClose={onClose} onSubmit={submit}>
      <p>
        Cancels {counted(job.active, "active run")} and {counted(job.waiting, "waiting run")}. The schedule stays active.
      </p>
    </FormDialog>
  );
}
