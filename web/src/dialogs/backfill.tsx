/** Run past occurrences: first a preview, then the request. */

import { useEffect, useState } from "preact/hooks";
import { path, send } from "../api/client";
import type { Backfill } from "../api/types";
import { nowMs } from "../state/now";
import { LOCAL_ZONE } from "../state/zone";
import { counted, everywhere, full, number } from "../time/words";
import { instantOf, localMs } from "../time/zones";
import { FormDialog } from "../ui/dialog";
import { Glyph } from "../ui/icon";
import { STATES } from "../ui/outcomes";
import { Field, Loading } from "../ui/parts";
import type { DialogProps } from ".";

const DAY = 86_400_000;

export function BackfillDialog({ job, onClose }: DialogProps) {
  const zone = job.timezone;
  const local = (ms: number) => new Date(localMs(ms, zone)).toISOString().slice(0, 16);
  const [from, setFrom] = useState(local(nowMs() - DAY));
  const [to, setTo] = useState(local(nowMs()));
  const [onlyMissing, setOnlyMissing] = useState(true);
  const [abreast, setAbreast] = useState(1);
  const [rate, setRate] = useState(0);
  const [preview, setPreview] = useState<Backfill | null>(null);
  const [problem, setProblem] = useState("");
  const target = path`/jobs/${job.job}/backfill`;
  const instant = (text: string) => new Date(instantOf(Date.parse(`${text}Z`), zone)).toISOString();
  const isWhole = !Number.isNaN(Date.parse(`${from}Z`)) && !Number.isNaN(Date.parse(`${to}Z`));
  const body = () => ({
    from: instant(from),
    to: instant(to),
    only_missing: onlyMissing,
    overlap: abreast > 1 ? `parallel(${abreast})` : "wait",
    gap_seconds: rate,
  });

  useEffect(() => {
    if (!isWhole) return setPreview(null);
    let isOld = false;
    const timer = window.setTimeout(() => {
      send<Backfill>(target, { ...body(), preview: true }).then(
        (found) => !isOld && (setPreview(found), setProblem("")),
        (error: Error) => !isOld && (setPreview(null), setProblem(error.message)),
      );
    }, 250);
    return () => ((isOld = true), clearTimeout(timer));
  }, [from, to, onlyMissing, abreast, rate]);

  async function submit(): Promise<string> {
    const asked = await send<Backfill>(target, { ...body(), preview: false });
    return `Queued ${counted(asked.chosen, "run")}.`;
  }
  return (
    <FormDialog
      title={`Backfill ${job.name}`}
      action={preview?.chosen ? `Run ${counted(preview.chosen, "occurrence")}` : "Nothing to run"}
      isWide
      isReady={!!preview?.chosen}
      onClose={onClose}
      onSubmit={submit}
    >
      <div class="two">
        <Field label="From" hint={zone}>
          <input type="datetime-local" required value={from} onInput={(event) => setFrom(event.currentTarget.value)} />
        </Field>
        <Field label="To (exclusive)" hint={zone}>
          <input type="datetime-local" required value={to} onInput={(event) => setTo(event.currentTarget.value)} />
        </Field>
        <Field label="Parallel runs" hint="how many may run at once">
          <input type="number" min={1} max={1000} value={abreast} onInput={(event) => setAbreast(Number(event.currentTarget.value) || 1)} />
        </Field>
        <Field label="Seconds between starts">
          <input type="number" min={0} max={86400} value={rate} onInput={(event) => setRate(Number(event.currentTarget.value) || 0)} />
        </Field>
      </div>
      <label class="row">
        <input type="checkbox" checked={onlyMissing} onChange={(event) => setOnlyMissing(event.currentTarget.checked)} /> Only occurrences that have not succeeded
      </label>
      <div class="preview" role="status">
        {problem && <p class="note is-bad">{problem}</p>}
        {!preview && !problem && isWhole && <Loading lines={2} />}
        {preview && <Candidates preview={preview} />}
      </div>
    </FormDialog>
  );
}

type ExcludedRange = NonNullable<Backfill["excluded"]>;
type Candidate = NonNullable<Backfill["candidates"]>[number];
const SHOWN = 200;

/** What would run comes first: among a year of successes it would not be found. */
function Candidates({ preview }: { preview: Backfill }) {
  const candidates = preview.candidates ?? [];
  const chosen = candidates.filter((one) => one.is_chosen);
  const others = candidates.filter((one) => !one.is_chosen);
  if (preview.excluded) return <p class="note is-warning">{excludedText(preview.excluded, preview.timezone ?? "UTC")}</p>;
  return (
    <>
      <p class="strong">
        {preview.chosen.toLocaleString("en")} of {counted(preview.total ?? 0, "occurrence")} will run.
      </p>
      <CandidateList candidates={chosen} zone={preview.timezone ?? undefined} />
      {others.length > 0 && (
        <details>
          <summary class="quiet small">{counted(others.length, "occurrence")} not selected</summary>
          <CandidateList candidates={others} zone={preview.timezone ?? undefined} />
        </details>
      )}
    </>
  );
}

function excludedText({ calendars, occurrences, moved_to }: ExcludedRange, zone: string): string {
  const isOne = calendars.length === 1;
  const names = `${isOne ? "calendar" : "calendars"} ${calendars.join(", ")}`;
  const all = occurrences === 1 ? "the only occurrence" : `all ${counted(occurrences, "occurrence")}`;
  if (moved_to) {
    const first = `${occurrences === 1 ? "" : ", the first"} to ${full(Date.parse(moved_to), zone)}`;
    return `The ${names} ${isOne ? "moves" : "move"} ${all} in that range${first}. Choose a range with that time.`;
  }
  return `The ${names} ${isOne ? "excludes" : "exclude"} ${all} in that range. Choose other days, correct the ${names}, or run the job now.`;
}

function CandidateList({ candidates, zone }: { candidates: Candidate[]; zone: string | undefined }) {
  return (
    <ul class="preview-list" tabIndex={0}>
      {candidates.slice(0, SHOWN).map((one) => (
        <li key={one.scheduled_for} class="row">
          <Glyph look={one.is_chosen ? STATES.planned : STATES.skipped} size={11} />
          <time dateTime={one.scheduled_for} data-tip={everywhere(Date.parse(one.scheduled_for), LOCAL_ZONE, zone).join("\n")}>
            {one.local}
          </time>
          <span class="quiet small preview-about">{one.why}</span>
        </li>
      ))}
      {candidates.length > SHOWN && <li class="quiet small">and {number(candidates.length - SHOWN)} more</li>}
    </ul>
  );
}
