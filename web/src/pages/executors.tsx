/** Where runs are executed, and the nodes that schedule them. */

import { useEffect, useState } from "preact/hooks";
import { path, send } from "../api/client";
import type { Executor, Live, Member, Node } from "../api/types";
import { useApi } from "../api/use";
import { PageBody } from "../app";
import { runPath } from "../state/route";
import { may } from "../state/session";
import { counted, number } from "../time/words";
import { FormDialog } from "../ui/dialog";
import { Button, Card, Empty, Head, Loading, Problem } from "../ui/parts";
import { JobName } from "../ui/job-name";
import { RunList } from "../ui/runs";
import { Span, Time } from "../ui/time";
import { attempt } from "../ui/toast";

const LOOK_MS = 3_000;

export function ExecutorsPage() {
  const executors = useApi<Live<Executor>>("/executors", (event) => event.type === "run" || event.type === "node");
  const nodes = useApi<Live<Node>>("/nodes", (event) => event.type === "node");
  const problem = executors.error ?? nodes.error;
  // Both at once: the members of a fleet would push the nodes down.
  const isReady = !!executors.data && (!!nodes.data || !!problem);
  // Members connect and disconnect without an event: they are polled while the page is open.
  useEffect(() => {
    const timer = window.setInterval(() => !document.hidden && executors.reload(), LOOK_MS);
    return () => clearInterval(timer);
  }, []);
  return (
    <PageBody>
      <Head title="Executors and nodes" about="Where runs are executed, and the nodes that schedule them" />
      {problem && <Problem error={problem} onRetry={() => (executors.reload(), nodes.reload())} />}
      {executors.data && !executors.data.is_scheduler_running && (
        <p class="note is-warning">No scheduler responds. This page shows only what the ledger has.</p>
      )}
      {!isReady && !problem && <Loading lines={8} />}
      {isReady && executors.data?.items.map((executor) => (
        <ExecutorCard key={executor.executor} executor={executor} onChange={executors.reload} />
      ))}
      {isReady && !executors.data?.items.length && (
        <Card>
          <Empty title="No executors yet" icon="executors">
            An executor appears with its first run.
          </Empty>
        </Card>
      )}
      {isReady && nodes.data && <Nodes nodes={nodes.data.items} onChange={nodes.reload} />}
    </PageBody>
  );
}

/** The kind of executor whose runs go to members. */
const FLEET = "fleet";

const HEALTH = { healthy: "is-succeeded", degraded: "is-timed-out", down: "is-failed", unknown: "" } as const;

function ExecutorCard({ executor, onChange }: { executor: Executor; onChange: () => void }) {
  const { members } = executor;
  return (
    <Card title={executor.executor} aside={
        <span class="row small quiet">
          {executor.health !== "unknown" && <span class={`state-lamp ${HEALTH[executor.health]}`}>{executor.health}</span>}
          {members.length > 0 && (
            <span>
              {executor.ready} of {counted(members.length, "member")} ready
            </span>
          )}
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
                <th scope="col">Runs</th>
                <th scope="col" class="from-roomy">
                  Labels
                </th>
                <th scope="col" class="from-roomy">
                  Version
                </th>
                <th scope="col">Seen</th>
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
      {executor.kind === FLEET && !members.length && (
        <Empty title="No members have joined" icon="executors">
          Add a machine with <code>evertick fleet join</code>. Runs for this executor wait until one has joined.
        </Empty>
      )}
      <Lanes lanes={executor.lanes} />
      <RunList runs={executor.runs} empty="No active runs." />
    </Card>
  );
}

/** How many runs are being launched, of those that may be at once. */
function Lanes({ lanes }: { lanes: Executor["lanes"] | undefined }) {
  if (!lanes) return null;
  return (
    <ul class="lanes">
      {Object.entries(lanes).map(([name, lane]) => (
        <li key={name} class="row">
          <span class="lanes-name" data-tip="Launches in progress; a run that has started is no longer counted">
            {name} launches
          </span>
          <Load load={lane.under_way} capacity={lane.size} />
          {lane.waiting > 0 && <span class="quiet small">{number(lane.waiting)} waiting</span>}
        </li>
      ))}
    </ul>
  );
}

/** The state of a member in a word, and its colour. */
function stateOf(member: Member): [string, string] {
  if (!member.is_healthy) return [member.is_expected ? "missing" : "away", "is-failed"];
  if (member.is_open) return ["ready", "is-succeeded"];
  if (member.closed === "lease-too-long") return ["lease too long", "is-failed"];
  return member.running ? ["draining", "is-timed-out"] : ["drained", "is-cancelled"];
}

function MemberRow({ executor, member, onChange }: { executor: string; member: Member; onChange: () => void }) {
  const [isLeaving, setLeaving] = useState(false);
  const [isForgetting, setForgetting] = useState(false);
  const [word, lamp] = stateOf(member);
  const change = (verb: "drain" | "undrain") =>
    attempt(async () => {
      await send(path`/executors/${executor}/members/${member.name}/${verb}`);
      onChange();
      return verb === "drain" ? `Draining ${member.name}: it gets no new runs.` : `${member.name} accepts runs again.`;
    });
  return (
    <tr>
      <td>
        <span class="strong">{member.name}</span>
        {member.address && <div class="quiet small">{member.address}</div>}
      </td>
      <td>
        <span class={`state-lamp ${lamp}`}>{word}</span>
        {member.closed === "lease-too-long" && <div class="quiet small">Gets no runs: its lease is longer than fleet.lease</div>}
      </td>
      <td>{member.running === null ? "–" : <Load load={member.running} capacity={member.slots} />}</td>
      <td>
        {member.runs.map((run) => (
          <div key={run.run}>
            <a href={runPath(run.run)} class="small">
              <JobName job={run.job} name={run.job_name} />
            </a>
          </div>
        ))}
        {!member.runs.length && "–"}
      </td>
      <td class="from-roomy">
        <div class="row-tags">
          {Object.entries(member.labels).map(([name, value]) => (
            <span key={name} class="row-tag">
              {name}={value}
            </span>
          ))}
          {Object.entries(member.offers).map(([name, amount]) => (
            <span key={name} class="row-tag">
              {name} {member.used[name] ?? 0}/{amount}
            </span>
          ))}
        </div>
      </td>
      <td class="from-roomy">{member.version ?? "–"}</td>
      <td>
        <Time at={member.seen_at} as="ago" />
      </td>
      <td class="right">
        <span class="row row-actions">
          {may("operator") && member.is_healthy && member.closed !== "lease-too-long" && (
            <Button isSmall label={`${member.is_open ? "Drain" : "Undrain"} ${member.name}`} onClick={() => change(member.is_open ? "drain" : "undrain")}>
              {member.is_open ? "Drain" : "Undrain"}
            </Button>
          )}
          {may("admin") && member.is_healthy && (
            <Button isSmall label={`Remove ${member.name}`} onClick={() => setLeaving(true)}>
              Remove
            </Button>
          )}
          {may("admin") && !member.is_healthy && !member.is_expected && (
            <Button isSmall label={`Forget ${member.name}`} onClick={() => setForgetting(true)}>
              Forget
            </Button>
          )}
        </span>
        {isForgetting && <ForgetDialog executor={executor} member={member} onClose={() => setForgetting(false)} onDone={onChange} />}
        {isLeaving && <RemoveDialog executor={executor} member={member} onClose={() => setLeaving(false)} onDone={onChange} />}
      </td>
    </tr>
  );
}

function ForgetDialog({ executor, member, onClose, onDone }: { executor: string; member: Member; onClose: () => void; onDone: () => void }) {
  const submit = async () => {
    await send(path`/executors/${executor}/members/${member.name}/forget`);
    onDone();
    return `Removed ${member.name} from the list.`;
  };
  return (
    <FormDialog title={`Forget ${member.name}`} action="Forget" isDangerous isReady onClose={onClose} onSubmit={submit}>
      <p>Removes the member from the list; another machine may then use its name. Its certificate stays valid until you revoke it.</p>
    </FormDialog>
  );
}

function RemoveDialog({ executor, member, onClose, onDone }: { executor: string; member: Member; onClose: () => void; onDone: () => void }) {
  const [isForced, setForced] = useState(false);
  const submit = async () => {
    await send(path`/executors/${executor}/members/${member.name}/remove`, { force: isForced });
    onDone();
    return `Removed ${member.name}.`;
  };
  return (
    <FormDialog title={`Remove ${member.name}`} action="Remove" isDangerous isReady={!member.running || isForced} onClose={onClose} onSubmit={submit}>
      <p>Stops the member's process; it does not restart by itself. The machine can join again later.</p>
      {!!member.running && (
        <label class="row">
          <input type="checkbox" checked={isForced} onChange={(event) => setForced(event.currentTarget.checked)} /> Stop its {counted(member.running, "running attempt")}; they are recorded as lost
        </label>
      )}
    </FormDialog>
  );
}

function Load({ load, capacity }: { load: number; capacity: number | null }) {
  return (
    <span class="row nowrap">
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

/** The state of a node in a word, and its colour. */
function nodeState(node: Node): [string, string] {
  if (node.is_alive) return ["running", "is-succeeded"];
  if (node.awaited_until === null) return ["gone", "is-failed"];
  return node.is_expected_back ? ["stopped, expected to return", "is-cancelled"] : ["not responding", "is-timed-out"];
}

function NodeRow({ node, onChange }: { node: Node; onChange: () => void }) {
  const [isForgetting, setForgetting] = useState(false);
  const [word, lamp] = nodeState(node);
  return (
    <tr>
      <td class="strong">
        <span class="row">
          {node.node} {node.is_here && <span class="row-tag">this node</span>}
        </span>
        {node.version && <div class="quiet small">{node.version}</div>}
      </td>
      <td>
        <span class={`state-lamp ${lamp}`}>{word}</span>
        {node.awaited_until !== null && (
          <div class="quiet small">
            {counted(node.active, "run")} reserved for it until <Time at={node.awaited_until} />
          </div>
        )}
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
      <td class="right">
        {may("admin") && node.awaited_until !== null && (
          <Button isSmall label={`Forget ${node.node}`} onClick={() => setForgetting(true)}>
            Forget
          </Button>
        )}
        {isForgetting && <ForgetNodeDialog node={node} onClose={() => setForgetting(false)} onDone={onChange} />}
      </td>
    </tr>
  );
}

function ForgetNodeDialog({ node, onClose, onDone }: { node: Node; onClose: () => void; onDone: () => void }) {
  const submit = async () => {
    await send(path`/nodes/${node.node}/forget`);
    onDone();
    return `Forgot ${node.node}.`;
  };
  return (
    <FormDialog title={`Forget ${node.node}`} action="Forget the node" isDangerous isReady={!node.is_alive} onClose={onClose} onSubmit={submit}>
      <p>Forget a node only if it will not come back: the scheduler then retries its runs or records them as lost. Make sure its machine is off, otherwise runs that are still active there run twice.</p>
      <ul>
        {node.runs.map((run) => (
          <li key={run.run}>
            <a href={runPath(run.run)}>{run.run}</a> {run.if_lost === "retrying" ? "will be retried" : "will be recorded as lost"}
          </li>
        ))}
        {node.active > node.runs.length && <li>and {number(node.active - node.runs.length)} more</li>}
      </ul>
      {!node.active && <p class="note">It has no active runs.</p>}
    </FormDialog>
  );
}

function Nodes({ nodes, onChange }: { nodes: Node[]; onChange: () => void }) {
  return (
    <Card title="Scheduler nodes">
      {!nodes.length && (
        <Empty title="No scheduler node is running" icon="executors">
          No job runs until one starts.
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
                <th scope="col">Buckets</th>
                <th scope="col">Jobs</th>
                <th scope="col">Lag</th>
                <th scope="col">Started</th>
                <th scope="col">
                  <span class="hidden-text">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {nodes.map((node) => (
                <NodeRow key={node.node} node={node} onChange={onChange} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}
