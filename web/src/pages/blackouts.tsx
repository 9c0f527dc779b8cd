/** Blackouts: those of the settings and those that were added; add one or remove one, each with a preview. */

import { useEffect, useState } from "preact/hooks";
import { path, send, withQuery } from "../api/client";
import type { Blackout, BlackoutChange, Blackouts } from "../api/types";
import { useApi } from "../api/use";
import { concernedJobs } from "../charts/heatmap";
import { nowMs } from "../state/now";
import { may } from "../state/session";
import { LOCAL_ZONE } from "../state/zone";
import { counted, fileName, number, short } from "../time/words";
import { instantOf, localMs } from "../time/zones";
import { FormDialog } from "../ui/dialog";
import { JobName } from "../ui/job-name";
import { Button, Card, Choice, Empty, Field, Loading, Problem } from "../ui/parts";
import { Time } from "../ui/time";

const HOUR = 3_600_000;


export function BlackoutsCard({ onChange }: { onChange: () => void }) {
  const { data, error, reload } = useApi<Blackouts>("/blackouts");
  const [isAdding, setAdding] = useState(false);
  const [removed, setRemoved] = useState<Blackout | null>(null);
  const isOperator = may("operator");
  const close = () => (setAdding(false), setRemoved(null), reload(), onChange());
  return (
    <Card title="Blackouts" aside={isOperator && <Button isSmall onClick={() => setAdding(true)}>Add blackout</Button>}>
      {error && <Problem error={error} onRetry={reload} />}
      {!data && !error && <Loading />}
      {data && !data.items.length && (
        <Empty title="No blackouts" icon="calendar">
          In a blackout, such as for maintenance, jobs do not start by their schedules.
        </Empty>
      )}
      {data && data.items.length > 0 && (
        <div class="table-scroll" tabIndex={0} role="group" aria-label="Table">
          <table>
            <caption class="hidden-text">Blackouts</caption>
            <thead>
              <tr>
                <th scope="col">From</th>
                <th scope="col">To</th>
                <th scope="col">Jobs</th>
                <th scope="col">Reason</th>
                <th scope="col">Added by</th>
                <th scope="col">
                  <span class="hidden-text">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {data.items.map((one) => (
                <tr key={one.id}>
                  <td class="nowrap">
                    <Time at={one.from} /> {one.state === "active" && <span class="strong">(active)</span>}
                  </td>
                  <td>
                    <Time at={one.to} />
                  </td>
                  <td class="blackout-cell">{concernedJobs(one)}</td>
                  <td class="blackout-cell">{one.reason}</td>
                  <td class="quiet nowrap" data-tip={one.file ?? undefined}>
                    {one.origin === "settings" ? fileName(one.file ?? "settings") : one.added_by}
                  </td>
                  <td>{isOperator && one.origin === "added" && <Button isSmall onClick={() => setRemoved(one)} label={`Remove the blackout ${one.id}`}>Remove</Button>}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {isAdding && <AddDialog onClose={close} />}
      {removed && <RemoveDialog blackout={removed} onClose={close} />}
    </Card>
  );
}

type Scope = "all" | "jobs" | "tags";

function AddDialog({ onClose }: { onClose: () => void }) {
  const local = (ms: number) => new Date(localMs(ms, LOCAL_ZONE)).toISOString().slice(0, 16);
  const [from, setFrom] = useState(local(nowMs()));
  const [to, setTo] = useState(local(nowMs() + 2 * HOUR));
  const [scope, setScope] = useState<Scope>("tags");
  const [names, setNames] = useState("");
  const [reason, setReason] = useState("");
  const [preview, setPreview] = useState<BlackoutChange | null>(null);
  const [problem, setProblem] = useState("");
  const instant = (text: string) => new Date(instantOf(Date.parse(`${text}Z`), LOCAL_ZONE)).toISOString();
  const isWhole = !Number.isNaN(Date.parse(`${from}Z`)) && !Number.isNaN(Date.parse(`${to}Z`)) && (scope === "all" || names.trim() !== "");
  const listed = names.split(",").map((name) => name.trim()).filter(Boolean);
  const body = () => ({
    from: instant(from),
    to: instant(to),
    all: scope === "all",
    jobs: scope === "jobs" ? listed : [],
    tags: scope === "tags" ? listed : [],
    reason,
  });

  useEffect(() => {
    if (!isWhole) return setPreview(null);
    let isOld = false;
    const timer = window.setTimeout(() => {
      send<BlackoutChange>("/blackouts", { ...body(), preview: true }).then(
        (found) => !isOld && (setPreview(found), setProblem("")),
        (error: Error) => !isOld && (setPreview(null), setProblem(error.message)),
      );
    }, 250);
    return () => ((isOld = true), clearTimeout(timer));
  }, [from, to, scope, names]);

  async function submit(): Promise<string> {
    const added = await send<BlackoutChange>("/blackouts", body());
    return `Added a blackout of ${concernedJobs(added.blackout)}.`;
  }
  return (
    <FormDialog title="Add blackout" action="Add blackout" isWide isReady={!!preview} onClose={onClose} onSubmit={submit}>
      <p class="quiet">Jobs do not start by their schedules in it. Active runs continue, and manual runs start. At its end each job settles what was due by its catch-up rule.</p>
      <div class="two">
        <Field label="From" hint={LOCAL_ZONE}>
          <input type="datetime-local" required value={from} onInput={(event) => setFrom(event.currentTarget.value)} />
        </Field>
        <Field label="To (exclusive)" hint={LOCAL_ZONE}>
          <input type="datetime-local" required value={to} onInput={(event) => setTo(event.currentTarget.value)} />
        </Field>
      </div>
      <Choice
        label="Jobs"
        value={scope}
        options={[
          { value: "tags", text: "By tag" },
          { value: "jobs", text: "By job" },
          { value: "all", text: "All jobs" },
        ]}
        onPick={setScope}
      />
      {scope !== "all" && (
        <Field label={scope === "tags" ? "Tags" : "Job ids"} hint="separated by commas">
          <input type="text" maxLength={1000} value={names} onInput={(event) => setNames(event.currentTarget.value)} />
        </Field>
      )}
      <Field label="Reason" hint="The ledger repeats it">
        <input type="text" maxLength={500} value={reason} onInput={(event) => setReason(event.currentTarget.value)} placeholder="Database upgrade" />
      </Field>
      <Preview preview={preview} problem={problem} isAsked={isWhole} />
    </FormDialog>
  );
}

function RemoveDialog({ blackout, onClose }: { blackout: Blackout; onClose: () => void }) {
  const [preview, setPreview] = useState<BlackoutChange | null>(null);
  const [problem, setProblem] = useState("");
  const target = path`/blackouts/${blackout.id}`;
  useEffect(() => {
    send<BlackoutChange>(withQuery(target, { preview: true }), {}, "DELETE").then(setPreview, (error: Error) => setProblem(error.message));
  }, [target]);
  async function submit(): Promise<string> {
    await send<BlackoutChange>(target, {}, "DELETE");
    return `Removed the blackout of ${concernedJobs(blackout)}.`;
  }
  return (
    <FormDialog title="Remove blackout" action="Remove blackout" isDangerous isWide isReady={!!preview} onClose={onClose} onSubmit={submit}>
      <p>
        {blackout.state === "active"
          ? "The blackout ends now. Each job settles what was due in it by its catch-up rule."
          : "The blackout has not begun; it will have no effect."}
      </p>
      <Preview preview={preview} problem={problem} isAsked />
    </FormDialog>
  );
}

function Preview({ preview, problem, isAsked }: { preview: BlackoutChange | null; problem: string; isAsked: boolean }) {
  return (
    <div class="preview" role="status">
      {problem && <p class="note is-bad">{problem}</p>}
      {!preview && !problem && isAsked && <Loading lines={2} />}
      {preview && (
        <>
          <p class="strong">
            {counted(preview.occurrences, "occurrence")} of {counted(preview.jobs, "job")} from now on
          </p>
          <ul class="preview-list" tabIndex={0}>
            {preview.affected.map((one) => (
              <li key={one.job} class="row">
                <JobName job={one.job} name={one.job_name} />
                <span class="quiet small">
                  {number(one.occurrences)}: {one.times.map((at) => short(Date.parse(at), LOCAL_ZONE, nowMs())).join(", ")}
                  {one.occurrences > one.times.length && ", …"}
                </span>
              </li>
            ))}
            {preview.jobs > preview.affected.length && <li class="quiet small">and {number(preview.jobs - preview.affected.length)} more jobs</li>}
          </ul>
        </>
      )}
    </div>
  );
}
