/** One action on many jobs or runs: first what it will do to each, then the request. */

import { useEffect, useState } from "preact/hooks";
import { askedBulk, type BulkAction, type BulkRequest } from "../actions";
import { send } from "../api/client";
import type { Bulk, BulkItem, BulkObstacle } from "../api/types";
import { LOCAL_ZONE } from "../state/zone";
import { counted, number, short } from "../time/words";
import { nowMs } from "../state/now";
import { FormDialog } from "../ui/dialog";
import { Glyph } from "../ui/icon";
import { JobName } from "../ui/job-name";
import { ACTIVE_STATES, STATES } from "../ui/outcomes";
import { Choice, Field, Loading } from "../ui/parts";
import { selection } from "../ui/selection";
import { Time } from "../ui/time";

const TITLES: Record<BulkAction, string> = {
  run: "Run jobs now",
  pause: "Pause jobs",
  resume: "Resume jobs",
  backfill: "Backfill",
  retry: "Retry failed runs",
  "retry-failed": "Retry from the failed step",
  cancel: "Cancel waiting runs",
};

const OBSTACLES: Record<BulkObstacle, string> = {
  unknown: "unknown",
  deleted: "the job was deleted",
  "paused-already": "already paused",
  "not-paused": "not paused",
  "not-ended": "has not ended",
  "no-failed-step": "no step has failed; use Retry",
  ended: "has ended",
  "is-gap": "several occurrences skipped together; use Backfill",
  "nothing-to-run": "every occurrence has succeeded",
  refused: "refused",
};

const IN_RANGE: readonly BulkAction[] = ["retry", "retry-failed", "backfill", "cancel"];
const SHOWN = 100;

export function BulkDialog({ asked }: { asked: BulkRequest }) {
  const [action, setAction] = useState<BulkAction>(asked.action);
  const [note, setNote] = useState("");
  const [preview, setPreview] = useState<Bulk | null>(null);
  const [problem, setProblem] = useState("");
  const close = () => (askedBulk.value = null);
  const body = { action, jobs: asked.jobs ?? [], runs: asked.runs ?? [], from: asked.from ?? null, to: asked.to ?? null };

  useEffect(() => {
    let isOld = false;
    setPreview(null);
    send<Bulk>("/bulk", { ...body, preview: true }).then(
      (found) => !isOld && (setPreview(found), setProblem("")),
      (error: Error) => !isOld && setProblem(error.message),
    );
    return () => {
      isOld = true;
    };
  }, [action]);

  async function submit(): Promise<string> {
    const done = await send<Bulk>("/bulk", { ...body, note });
    const refused = done.items.filter((item) => item.obstacle === "refused").length;
    selection.value = new Set();
    const queued = done.is_scheduler_running ? "" : " No scheduler is running: the requests run when one starts.";
    return `${TITLES[action]}: ${counted(done.chosen, "request")} sent${refused ? `, ${number(refused)} refused` : ""}.${queued}`;
  }
  return (
    <FormDialog
      title={action === "cancel" && !asked.from ? "Cancel runs" : TITLES[action]}
      action={preview?.chosen ? words(preview) : "Nothing to do"}
      isDangerous={action === "cancel"}
      isWide
      isReady={!!preview?.chosen}
      onClose={close}
      onSubmit={submit}
    >
      {asked.from && asked.to && (
        <>
          <p>
            {counted(asked.jobs?.length ?? 0, "job")}, {short(Date.parse(asked.from), LOCAL_ZONE, nowMs())} to {short(Date.parse(asked.to), LOCAL_ZONE, nowMs())} ({LOCAL_ZONE})
          </p>
          <Choice label="Action" value={action} options={IN_RANGE.map((value) => ({ value, text: TITLES[value] }))} onPick={setAction} />
        </>
      )}
      {action === "pause" && (
        <Field label="Reason" hint="Shown next to each job">
          <input type="text" maxLength={500} value={note} onInput={(event) => setNote(event.currentTarget.value)} />
        </Field>
      )}
      <div class="preview" role="status">
        {problem && <p class="note is-bad">{problem}</p>}
        {!preview && !problem && <Loading lines={2} />}
        {preview && <Items preview={preview} />}
      </div>
    </FormDialog>
  );
}

function words({ action, chosen, runs }: Bulk): string {
  switch (action) {
    case "run":
      return `Run ${counted(chosen, "job")}`;
    case "pause":
      return `Pause ${counted(chosen, "job")}`;
    case "resume":
      return `Resume ${counted(chosen, "job")}`;
    case "backfill":
      return `Run ${counted(runs, "occurrence")}`;
    case "retry":
    case "retry-failed":
      return `Retry ${counted(runs, "run")}`;
    case "cancel":
      return `Cancel ${counted(runs, "run")}`;
  }
}

/** What the action applies to comes first. */
function Items({ preview }: { preview: Bulk }) {
  const items = [...preview.items].sort((one, other) => Number(!!one.obstacle) - Number(!!other.obstacle));
  if (!items.length) return <p class="quiet">Nothing in this selection needs this action.</p>;
  return (
    <>
      <p class="strong">{scope(preview)}</p>
      <ul class="preview-list" tabIndex={0}>
        {items.slice(0, SHOWN).map((item) => (
          <li key={item.run ?? item.job} class="row">
            <Glyph look={item.obstacle ? STATES.skipped : STATES[item.state ?? "planned"]} size={11} />
            <span class="cut">
              <JobName job={item.job} name={item.job_name} />
            </span>
            {item.scheduled_for && <Time at={item.scheduled_for} />}
            <span class="quiet small preview-about" data-tip={about(preview.action, item) || undefined}>
              {about(preview.action, item)}
            </span>
          </li>
        ))}
        {items.length > SHOWN && <li class="quiet small">and {number(items.length - SHOWN)} more</li>}
      </ul>
    </>
  );
}

/** How much of what was chosen the action applies to. */
function scope({ items, chosen, runs }: Bulk): string {
  const isOnRuns = items.some((item) => item.run !== null);
  const told = `${number(chosen)} of ${counted(items.length, isOnRuns ? "run" : "job")}`;
  return runs > chosen ? `${told}, ${counted(runs, "occurrence")}` : told;
}

/** What happens to one of them. */
function about(action: BulkAction, item: BulkItem): string {
  if (item.obstacle) return item.obstacle === "refused" || item.obstacle === "unknown" ? item.detail : OBSTACLES[item.obstacle];
  switch (action) {
    case "run":
      return item.active ? `${counted(item.active, "run")} active: the job's overlap rule decides` : "starts now";
    case "pause":
      return item.active ? `${counted(item.active, "active run")} ${item.active > 1 ? "continue" : "continues"}` : "nothing is running";
    case "resume":
      return item.count ? `catches up ${counted(item.count, "occurrence")}` : "no occurrence to catch up";
    case "backfill":
      return `runs ${counted(item.count, "occurrence")}`;
    case "cancel":
      return item.state && ACTIVE_STATES.includes(item.state) ? "is active: its processes are terminated" : "does not start";
    default:
      return item.detail;
  }
}
