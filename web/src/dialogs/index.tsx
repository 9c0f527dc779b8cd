/** The open dialog. */

import { path } from "../api/client";
import type { JobDetail } from "../api/types";
import { useApi } from "../api/use";
import { askedAction, askedBulk } from "../actions";
import { Dialog } from "../ui/dialog";
import { Loading, Problem } from "../ui/parts";
import { BackfillDialog } from "./backfill";
import { BulkDialog } from "./bulk";
import { CancelDialog, PauseDialog } from "./pause";
import { ResumeDialog } from "./resume";
import { TriggerDialog } from "./trigger";

export interface DialogProps {
  job: JobDetail;
  onClose: () => void;
}

const DIALOGS = { trigger: TriggerDialog, pause: PauseDialog, resume: ResumeDialog, backfill: BackfillDialog, cancel: CancelDialog };

export function AskedDialog() {
  if (askedBulk.value) return <BulkDialog asked={askedBulk.value} />;
  return <AskedJobDialog />;
}

function AskedJobDialog() {
  const asked = askedAction.value;
  const { data, error } = useApi<JobDetail>(asked ? path`/jobs/${asked.job}` : null);
  if (!asked) return null;
  const close = () => (askedAction.value = null);
  if (!data) {
    return (
      <Dialog title={asked.job} onClose={close}>
        {error ? <Problem error={error} /> : <Loading lines={3} />}
      </Dialog>
    );
  }
  const Chosen = DIALOGS[asked.action];
  return <Chosen key={`${asked.action} ${asked.job}`} job={data} onClose={close} />;
}
