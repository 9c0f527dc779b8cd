/** Run a job now, with the parameters it takes. */

import { useState } from "preact/hooks";
import { path, send } from "../api/client";
import type { RequestStatus, ParamSchema } from "../api/types";
import { go, runPath } from "../state/route";
import { FormDialog } from "../ui/dialog";
import { Field } from "../ui/parts";
import type { DialogProps } from ".";

interface Param {
  name: string;
  schema: ParamSchema;
  isRequired: boolean;
}

export function TriggerDialog({ job, onClose }: DialogProps) {
  const params: Param[] = Object.entries(job.definition?.params.properties ?? {}).map(([name, schema]) => ({ name, schema, isRequired: job.definition?.params.required.includes(name) ?? false }));
  // Most people run a job again with the same parameters: those of the last requested run are filled in.
  const last = given(job.last?.params);
  const [values, setValues] = useState<Record<string, string>>(() =>
    Object.fromEntries(params.map((param) => [param.name, last[param.name] ?? String(param.schema.default ?? "")])),
  );
  const missing = params.filter((param) => param.isRequired && !values[param.name]);
  async function submit(): Promise<string> {
    const chosen = Object.fromEntries(Object.entries(values).filter(([name, value]) => value !== String(params.find((one) => one.name === name)?.schema.default ?? "")));
    const asked = await send<RequestStatus>(`${path`/jobs/${job.job}/trigger`}?wait=5`, { params: chosen });
    if (asked.run) go(runPath(asked.run));
    return asked.is_scheduler_running ? `Started ${job.name}.` : `No scheduler is running. ${job.name} is queued and runs when one starts.`;
  }
  return (
    <FormDialog title={`Run ${job.name} now`} action="Run now" isReady={!missing.length} onClose={onClose} onSubmit={submit}>
      {!params.length && <p class="quiet">This job has no parameters.</p>}
      {params.map((param) => (
        <ParamField key={param.name} param={param} value={values[param.name] ?? ""} onChange={(value) => setValues((old) => ({ ...old, [param.name]: value }))} />
      ))}
      {job.active > 0 && <p class="note is-warning">A run is active. The job's overlap rule decides what happens to this one.</p>}
    </FormDialog>
  );
}

function given(params: unknown): Record<string, string> {
  if (typeof params !== "object" || params === null) return {};
  return Object.fromEntries(Object.entries(params).filter((pair): pair is [string, string] => typeof pair[1] === "string"));
}

interface FieldProps {
  param: Param;
  value: string;
  onChange: (value: string) => void;
}

function ParamField({ param, value, onChange }: FieldProps) {
  const { schema, isRequired } = param;
  if (schema.enum || schema.type === "boolean") {
    const options = schema.enum?.map(String) ?? ["true", "false"];
    return (
      <Field label={param.name} hint={schema.description}>
        <select value={value} onChange={(event) => onChange(event.currentTarget.value)} required={isRequired}>
          {isRequired && <option value="">Choose</option>}
          {options.map((option) => (
            <option key={option}>{option}</option>
          ))}
        </select>
      </Field>
    );
  }
  const isNumber = schema.type === "integer" || schema.type === "number";
  const bounds = [schema.minimum !== undefined && `from ${schema.minimum}`, schema.maximum !== undefined && `up to ${schema.maximum}`].filter(Boolean).join(" ");
  return (
    <Field label={param.name} hint={[schema.description, bounds].filter(Boolean).join(", ")}>
      <input
        type={isNumber ? "number" : "text"}
        step={schema.type === "integer" ? 1 : "any"}
        min={schema.minimum}
        max={schema.maximum}
        pattern={schema.pattern}
        required={isRequired}
        value={value}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
    </Field>
  );
}
