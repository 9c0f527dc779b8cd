/** The backfills of a job: their progress, and a button to cancel them. */

import { useState } from "preact/hooks";
import { path, send } from "../api/client";
import type { BackfillProgress, CancelledBackfill, JobDetail } from "../api/types";
import { may } from "../state/session";
import { counted, number } from "../time/words";
import { lookOf } from "../ui/outcomes";
import { Glyph } from "../ui/icon";
import { FormDialog } from "../ui/dialog";
import { Button, Card } from "../ui/parts";
import { Time } from "../ui/time";

export function JobBackfills({ job, backfills, onChange }: { job: JobDetail; backfills: readonly BackfillProgress[]; onChange: () => void }) {
  if (!backfills.length) return null;
  return (
    <Card title="Backfills">
      <ul class="backfills">
        {backfills.map((one) => (
          <Progress key={one.request} job={job} one={one} onChange={onChange} />
        ))}
      </ul>
    </Card>
  );
}

function Progress({ job, one, onChange }: { job: JobDetail; one: BackfillProgress; onChange: () => void }) {
  const [isAsking, setAsking] = useState(false);
  const cancel = async () => {
    const done = await send<CancelledBackfill>(`${path`/jobs/${job.job}/backfill/${one.request}`}?wait=5`, {}, "DELETE");
    onChange();
    return done.cancelled ? `Cancelled ${counted(done.cancelled, "run")}.` : "Nothing left to cancel.";
  };
  return (
    <li class="backfill">
      <div class="grow">
        <div class="row wrap">
          <span class="strong">
            <Time at={one.first} zone={job.timezone} as="full" /> – <Time at={one.last} zone={job.timezone} as="full" />
          </span>
          <span class="quiet small">
            requested <Time at={one.submitted_at} zone={job.timezone} as="ago" /> {one.submitted_by && `by ${one.submitted_by}`}
          </span>
        </div>
        <div
          class="backfill-bar"
          role="progressbar"
          aria-label={`Backfill of ${counted(one.total, "occurrence")}`}
          aria-valuemin={0}
          aria-valuemax={one.total}
          aria-valuenow={one.ended}
        >
          {ORDER.filter((state) => one.states[state]).map((state) => (
            <span key={state} class={`is-${lookOf(state).color}`} style={{ width: `${(100 * (one.states[state] ?? 0)) / Math.max(one.total, 1)}%` }} />
          ))}
        </div>
        <div class="row wrap small quiet">
          {number(one.ended)} of {number(one.total)} finished
          {Object.entries(one.states).map(([state, count]) => (
            <span key={state} class="row backfill-state">
              <Glyph look={lookOf(state)} size={9} /> {number(count)} {lookOf(state).word.toLowerCase()}
            </span>
          ))}
        </div>
      </div>
      {!one.is_over && may("operator") && (
        <Button isSmall label={`Cancel the backfill requested at ${one.submitted_at}`} onClick={() => setAsking(true)}>
          Cancel the rest
        </Button>
      )}
      {isAsking && (
        <FormDialog title="Cancel the backfill" action={`Cancel ${counted(one.total - one.ended, "run")}`} isDangerous onClose={() => setAsking(false)} onSubmit={cancel}>
          <p>Cancels its active and waiting runs. Finished runs stay in the ledger.</p>
        </FormDialog>
      )}
    </li>
  );
}

/** Only ended runs fill the bar. */
const ORDER = ["succeeded", "failed", "timed_out", "lost", "cancelled", "skipped"];
