/** The rules of a job, where each is set, and its file. */

import { useEffect, useState } from "preact/hooks";
import { getText, path } from "../api/client";
import type { JobDetail, Rule } from "../api/types";
import { useApi } from "../api/use";
import { may } from "../state/session";
import { fileName } from "../time/words";
import { Card, Empty, Loading, Problem } from "../ui/parts";

const MEANINGS: Record<string, string> = {
  missed: "which missed occurrences run late",
  catchupWindow: "how far back missed occurrences are caught up",
  overlap: "what an occurrence does while another run is active",
  grace: "how late an occurrence may start and still count as on time",
  jitter: "up to how much later than its time an occurrence starts",
  window: "occurrences later than this are skipped",
  skipIfSuccessful: "skip an occurrence when a run has succeeded since the previous one",
  expectBy: "when the last occurrence before must have succeeded",
  expectWithin: "how long after its time an occurrence must have succeeded",
  "retryPolicy.maxRetries": "attempts after the first",
  onExecutorLost: "what happens when a run is lost with its executor",
  "jobs.backlog": "how many missed occurrences may wait; older ones become one gap entry",
};

export function JobRules({ job }: { job: JobDetail }) {
  const { data, error, reload } = useApi<{ items: Rule[] }>(job.is_defined ? path`/jobs/${job.job}/explain` : null, (event) => event.job === job.job && event.type === "job");
  const text = useDefinition(job);
  if (!job.is_defined) return <Empty title="The job was deleted">The ledger keeps its history.</Empty>;
  // Both at once: on a narrow screen the rules are above the file, and would push it down.
  if (!error && (!data || text === undefined)) return <Loading lines={8} />;
  return (
    <div class="columns">
      <Card title="Rules">
        {error && <Problem error={error} onRetry={reload} />}
        {data && (
          <div class="table-scroll" tabIndex={0} role="group" aria-label="Table">
            <table>
              <caption class="hidden-text">Rules, their values and where they are set</caption>
              <thead>
                <tr>
                  <th scope="col">Rule</th>
                  <th scope="col">Value</th>
                  <th scope="col" class="from-roomy">
                    From
                  </th>
                </tr>
              </thead>
              <tbody>
                {data.items.map((rule) => (
                  <tr key={rule.name}>
                    <td>
                      <code>{rule.name}</code>
                      {MEANINGS[rule.name] && <div class="quiet small">{MEANINGS[rule.name]}</div>}
                    </td>
                    <td class="strong said-value">
                      {rule.value}
                      <div class="quiet small to-roomy">{fileName(rule.origin)}</div>
                    </td>
                    <td class="quiet small nowrap from-roomy" data-tip={rule.origin}>
                      {fileName(rule.origin)}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Card>
      <Card title={job.file ?? "Definition"}>
        <pre class="code" tabIndex={0} role="region" aria-label="Definition">
          {text ?? JSON.stringify(job.definition, null, 2)}
        </pre>
      </Card>
    </div>
  );
}

/** The file as it was written, for those who may see it; null: what it says must do. */
function useDefinition(job: JobDetail): string | null | undefined {
  const [text, setText] = useState<string | null | undefined>(may("operator") ? undefined : null);
  useEffect(() => {
    const abort = new AbortController();
    if (may("operator")) getText(path`/jobs/${job.job}/definition`, abort.signal).then(setText, () => setText((known) => known ?? null));
    return () => abort.abort();
  }, [job]);
  return text;
}
