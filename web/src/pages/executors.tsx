/** Where runs go, and who schedules them. */

import { path, send } from "../api/client";
import type { Executor, Live, Member, Node } from "../api/types";
import { useApi } from "../api/use";
import { PageBody } from "../app";
import { may } from "../state/session";
import { number } from "../time/words";
import { Button, Card, Empty, Head, Loading, Problem } from "../ui/parts";
import { RunList } from "../ui/runs";
import { Span, Time } from "../ui/time";
import { attempt } from "../ui/toast";

export function ExecutorsPage() {
  const executors = useApi<Live<Executor>>("/executors", (event) => event.type === "run" || event.type === "node");
  const nodes = useApi<Live<Node>>("/nodes", (event) => event.type === "node");
  const problem = executors.error ?? nodes.error;
  return (
    <PageBody>
      <Head title="Executors and nodes" about="Where runs go, and who schedules them" />
      {problem && <Problem error={problem} onRetry={() => (executors.reload(), nodes.reload())} />}
      {executors.data && !executors.data.is_scheduler_running && (
        <p class="note is-warning">No scheduler answers: what is shown comes from the ledger alone.</p>
      )}
      {!executors.data && !problem && <Loading />}
      {executors.data?.items.map((executor) => (
        <ExecutorCard key={executor.executor} executor={executor} onChange={executors.reload} />
      ))}
      {executors.data && !executors.data.items.length && (
        <Card>
          <Empty title="No executor is known" icon="executors">
            It appears with the first run.
          </Empty>
        </Card>
      )}
      {nodes.data && <Nodes nodes={nodes.data.items} />}
    </PageBody>
  );
}

function ExecutorCard({ executor, onChange }: { executor: Executor; onChange: () => void }) {
  const told = executor.members ?? [];
  const members: Member[] = Array.isArray(told) ? told : Object.entries(told).map(([name, one]) => ({ name, ...one }));
  return (
    <Card title={executor.executor} aside={
        <span class="row small quiet">
          {executor.is_healthy !== undefined && <span class={`state-lamp ${executor.is_healthy ? "is-succeeded" : "is-failed"}`}>{executor.is_healthy ? "healthy" : "in trouble"}</span>}
          {number(executor.active)} running
        </span>
      }>
      {members.length > 0 && (
        <div class="table-scroll" tabIndex={0} role="group" aria-label="Table">
          <table>
            <caption class="hidden-text">Members of {executor.executor}</caption>
            <thead>
              <tr>
                <th scope="col">Member</th>
                <th scope="col">State</th>
                <th scope="col">Load</th>
                <th scope="col">Labels</th>
                <th scope="col">
                  <span class="hidden-text">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {members.map((member) => (
                <MemberRow key={member.name} executor={executor.executor} member={member} onChange={onChange} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <Lanes lanes={executor.lanes} />
      <RunList runs={executor.runs} empty="Nothing runs here now." />
    </Card>
  );
}

/** How much of its room a place has in use. */
function Lanes({ lanes }: { lanes: Executor["lanes"] | undefined }) {
  if (!lanes) return null;
  return (
    <ul class="lanes">
      {Object.entries(lanes).map(([name, lane]) => (
        <li key={name} class="row">
          <span class="lanes-name">{name}</span>
          <Load load={lane.under_way} capacity={lane.size} />
          {lane.waiting > 0 && <span class="quiet small">{number(lane.waiting)} waiting</span>}
        </li>
      ))}
    </ul>
  );
}

const LAMPS: Record<string, string> = { alive: "is-succeeded", draining: "is-timed-out", lost: "is-failed", dead: "is-failed" };

function MemberRow({ executor, member, onChange }: { executor: string; member: Member; onChange: () => void }) {
  const state = member.is_draining ? "draining" : (member.state ?? "alive");
  const labels = Array.isArray(member.labels) ? member.labels : Object.entries(member.labels ?? {}).map(([name, value]) => `${name}=${value}`);
  const load = member.load ?? member.running ?? null;
  const change = (verb: "drain" | "undrain") =>
    attempt(async () => {
      await send(path`/executors/${executor}/members/${member.name}/${verb}`);
      onChange();
      return verb === "drain" ? `${member.name} takes no more runs.` : `${member.name} takes runs again.`;
    });
  return (
    <tr>
      <td>
        <span class="strong">{member.name}</span>
        {member.address && <div class="quiet small">{member.address}</div>}
      </td>
      <td>
        <span class={`state-lamp ${LAMPS[state] ?? "is-planned"}`}>{state}</span>
      </td>
      <td>{load === null ? "–" : <Load load={load} capacity={member.capacity ?? null} />}</td>
      <td>
        {labels.map((label) => (
          <span key={label} class="row-tag">
            {label}
          </span>
        ))}
      </td>
      <td class="right">
        {may("operator") && state !== "lost" && (
          <Button isSmall onClick={() => change(state === "draining" ? "undrain" : "drain")}>
            {state === "draining" ? "Take back" : "Drain"}
          </Button>
        )}
      </td>
    </tr>
  );
}

function Load({ load, capacity }: { load: number; capacity: number | null }) {
  return (
    <span class="row">
      {capacity !== null && (
        <span class="load" aria-hidden="true">
          <span style={{ width: `${Math.min(100, (100 * load) / Math.max(capacity, 1))}%` }} />
        </span>
      )}
      {number(load)}
      {capacity !== null && ` of ${number(capacity)}`}
    </span>
  );
}

function Nodes({ nodes }: { nodes: Node[] }) {
  return (
    <Card title="Nodes that schedule">
      {!nodes.length && (
        <Empty title="No node has given a sign of life" icon="executors">
          Start one with <code>evertick serve</code>.
        </Empty>
      )}
      {nodes.length > 0 && (
        <div class="table-scroll" tabIndex={0} role="group" aria-label="Table">
          <table>
            <caption class="hidden-text">Nodes</caption>
            <thead>
              <tr>
                <th scope="col">Node</th>
                <th scope="col">State</th>
                <th scope="col">Share of all jobs</th>
                <th scope="col">Jobs</th>
                <th scope="col">Behind by</th>
                <th scope="col">Since</th>
              </tr>
            </thead>
            <tbody>
              {nodes.map((node) => (
                <tr key={node.node}>
                  <td class="strong">
                    {node.node} {node.is_here && <span class="row-tag">this one</span>}
                    {node.version && <div class="quiet small">{node.version}</div>}
                  </td>
                  <td>
                    <span class={`state-lamp ${node.is_alive ? "is-succeeded" : "is-failed"}`}>{node.is_alive ? "alive" : "gone"}</span>
                  </td>
                  <td>
                    <Load load={node.buckets} capacity={64} />
                  </td>
                  <td>{typeof node.jobs === "number" ? number(node.jobs) : "–"}</td>
                  <td>
                    <Span seconds={node.lag_seconds} />
                  </td>
                  <td>
                    <Time at={node.started_at} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
