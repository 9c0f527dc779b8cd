/** What the API answers with and is asked with. Made from its description by `make docs`; not edited by hand. */

/** An attempt whose log is kept where it cannot be read from now. */
export interface AbsentLog {
  attempt: number;
  /** What has it, in words. */
  place: string;
  kind: "node" | "member" | "store";
  /** Of the node or member that has it. */
  name: string;
  cause: "unreachable" | "not-kept" | "away" | "unknown" | "no-answer" | "too-old" | "busy" | "fleet-unreachable" | "not-understood";
  /** When a member that does not answer was last heard. */
  last_seen_at: string | null;
  /** Whether a part of it can be read. */
  is_partial: boolean;
  reason: string;
  /** The same as a sentence. */
  text: string;
}

export interface AfterJobs {
  jobs: string[];
  mode: string;
}

/** What became of a request; until it is answered, the ledger keeps it. */
export interface Asked {
  request: string;
  job: string;
  is_answered: boolean;
  answer: Record<string, unknown> | null;
  run: string | null;
  is_scheduler_running: boolean;
}

export interface Attempt {
  attempt: number;
  state: string;
  started_at: string | null;
  finished_at: string | null;
  exit_code: number | null;
  detail: string;
  /** Why it was lost, where it was. */
  loss: LossReason | null;
  executor: string;
  definition: string | null;
  steps: AttemptStep[];
}

export interface AttemptStep {
  name: string;
  attempt: number;
  tries: number;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  exit_code: number | null;
  detail: string;
  output: string | null;
  is_output_cut: boolean;
  sub_run: string | null;
  reused_from: string | null;
  has_log: boolean;
  cpu_seconds: number;
  max_rss_bytes: number | null;
  /** null: all that is known of it is its log. */
  state: string | null;
  log_bytes: number | null;
}

export interface AuditLine {
  number: number;
  at: string;
  by: string;
  from: string;
  action: string;
  target: string;
  outcome: string;
  detail: unknown;
  previous: string;
  hash: string;
  /** Which key sealed it. */
  key: string;
  [other: string]: unknown;
}

export interface AuditPage {
  items: AuditLine[];
  next: string | null;
  /** Null on all but the first page, where the whole chain is followed. */
  chain_ok: boolean | null;
  broken_at: number | null;
  /** Lines at the end that the ledger knows of and the log does not hold. */
  missing: number | null;
}

export interface Backfill {
  request: string | null;
  job: string;
  is_answered: boolean;
  answer: Record<string, unknown> | null;
  chosen: number;
  timezone?: string | null;
  total?: number | null;
  candidates?: Candidate[] | null;
  run?: string | null;
  is_scheduler_running?: boolean | null;
}

export interface BackfillBody {
  from: string;
  /** Not included. */
  to: string;
  preview?: boolean;
  only_missing?: boolean;
  /** `wait`, or `parallel(n)`. */
  overlap?: string;
  /** The least time between two starts. */
  gap_seconds?: number;
}

export interface BackfillProgress {
  request: string;
  job: string;
  submitted_at: string;
  submitted_by: string;
  first: string;
  last: string;
  is_answered: boolean;
  total: number;
  ended: number;
  is_over: boolean;
  states: Record<string, number>;
}

export interface Backfills {
  items: BackfillProgress[];
}

export interface Badge {
  path: string;
}

export interface Calendar {
  job: string | null;
  timezone: string;
  days: Day[];
}

export interface CancelledBackfill {
  request: string;
  job: string;
  is_answered: boolean;
  answer: Record<string, unknown> | null;
  run: string | null;
  is_scheduler_running: boolean;
  cancelled: number;
}

export interface Candidate {
  scheduled_for: string;
  local: string;
  is_chosen: boolean;
  why: string;
}

export interface Catchup {
  job: string;
  timezone: string;
  watermark: string | null;
  paused_at: string | null;
  backlog: string[];
  kept: number;
  skipped: number;
  fates: Fate[];
}

export interface Cell {
  succeeded: number;
  failed: number;
  skipped: number;
  cancelled: number;
  /** Launching, running or retrying. */
  running: number;
  /** Planned or waiting. */
  waiting: number;
  caught_up: number;
  backfilled: number;
  count: number;
  at: string;
  through: string;
  worst: RunState;
  longest_seconds: number | null;
  latest_seconds: number | null;
}

export interface ClockNote {
  at: string;
  local: string;
  text: string;
}

export interface CronAnswer {
  expression: string;
  timezone: string;
  meaning: string;
  fields: Record<string, string>;
  dst_notes: ClockNote[];
  next: CronFire[];
}

export interface CronFire {
  scheduled_for: string;
  local: string;
  offset: string;
  timezone: string;
  wait_seconds: number;
  note: string | null;
}

export interface Day {
  succeeded: number;
  failed: number;
  skipped: number;
  cancelled: number;
  /** Launching, running or retrying. */
  running: number;
  /** Planned or waiting. */
  waiting: number;
  caught_up: number;
  backfilled: number;
  count: number;
  date: string;
  start: string;
  /** `forward` or `back` where the clocks change that day. */
  dst: string | null;
  skips: Record<string, number>;
  /** How often something is still due; null: there is too much to count. */
  planned: number | null;
}

/** The last day: how many occurrences stand or ended how. */
export interface DayFigures {
  planned: number;
  waiting: number;
  launching: number;
  running: number;
  retrying: number;
  succeeded: number;
  failed: number;
  timed_out: number;
  cancelled: number;
  lost: number;
  skipped: number;
  caught_up: number;
  success_rate: number | null;
  skips: Record<string, number>;
}

/** What the job's file says, without the values of its environment. */
export interface Definition {
  start: Record<string, string>[];
  stop: Record<string, string>[];
  restart: Record<string, string>[];
  after: AfterJobs | null;
  /** A JSON Schema of all parameters. */
  params: Record<string, unknown>;
  env: EnvName[];
  timeout_seconds: number | null;
  steps: StepDefinition[];
  handlers: Record<string, StepDefinition>;
  constraints: string[];
  notify: number;
}

export interface DefinitionBody {
  /** A job file, as YAML. */
  text: string;
}

export interface DefinitionChange {
  /** Where the line is: then, now, or both. */
  side: "both" | "before" | "after";
  text: string;
}

export interface DefinitionFile {
  job: string;
  file: string;
  text: string;
}

export interface DefinitionFiles {
  items: DefinitionFile[];
}

export interface DefinitionProblem {
  file: string | null;
  line: number | null;
  column: number | null;
  field: string | null;
  reason: string;
  hint: string | null;
  text: string;
}

export interface Durations {
  job: string;
  items: Point[];
  percentiles: Percentiles;
  lateness: Percentiles;
  success_rate: number | null;
}

export interface EnvName {
  name: string;
  from: string | null;
}

/** A place that runs attempts; what the scheduler tells of it beside these depends on its kind. */
export interface ExecutorState {
  executor: string;
  is_known: boolean;
  /** Of a place with members: degraded where one is away, down where none takes runs. */
  health: "healthy" | "degraded" | "down" | "unknown";
  /** Members that take runs. */
  ready: number;
  active: number;
  runs: Run[];
  members: MemberState[];
  [other: string]: unknown;
}

export interface Executors {
  is_scheduler_running: boolean;
  items: ExecutorState[];
}

export interface Fate {
  scheduled_for: string;
  local: string;
  through: string | null;
  occurrences: number;
  runs: boolean;
  what: string;
  reason: SkipReason | null;
  detail: string;
}

export interface Finding {
  kind: string;
  job: string;
  text: string;
}

export interface Fire {
  job: string;
  job_name: string;
  action: "start" | "stop" | "restart";
  scheduled_for: string;
  local: string;
  offset: string;
  timezone: string;
  wait_seconds: number;
  what: string;
  reason: SkipReason | null;
  detail: string;
}

export interface ForgetBody {
  /** Also when the node is alive: it then ends what it runs on its machine. */
  force?: boolean;
}

export interface ForgottenNode {
  node: string;
  was_alive: boolean;
  is_scheduler_running: boolean;
  /** Runs that it had. */
  active: number;
  /** The first of them. */
  runs: NodeRun[];
}

export interface FutureCell {
  at: string;
  through: string;
  count: number;
}

/** A stretch of occurrences that were skipped as one. */
export interface Gap {
  run: string;
  job: string;
  at: string;
  through: string | null;
  occurrences: number;
  reason: SkipReason | null;
  detail: string;
  decided_at: string;
}

export interface GapPage {
  items: Gap[];
  next: string | null;
}

export interface Graph {
  job: string;
  nodes: Node[];
  after: string[];
  before: string[];
}

export interface Health {
  status: string;
  reasons: string[];
}

export interface Hour {
  succeeded: number;
  failed: number;
  skipped: number;
  cancelled: number;
  /** Launching, running or retrying. */
  running: number;
  /** Planned or waiting. */
  waiting: number;
  caught_up: number;
  backfilled: number;
  count: number;
  at: string;
}

export interface ImportBody {
  /** A job file, as YAML. */
  text: string;
  timezone?: string | null;
}

export interface ImportFile {
  name: string;
  text: string;
}

export interface ImportNote {
  line: number | null;
  text: string;
}

export interface ImportedFiles {
  files: ImportFile[];
  notes: ImportNote[];
}

export interface JobCounts {
  total: number;
  idle: number;
  running: number;
  paused: number;
  error: number;
  disabled: number;
  finished: number;
}

export interface JobDetail {
  job: string;
  name: string;
  description: string;
  tags: string[];
  file: string | null;
  is_defined: boolean;
  enabled: boolean | null;
  queue: string | null;
  priority: number;
  status: JobStatus;
  next_at: string | null;
  timezone: string;
  schedules: string[];
  /** Every occurrence up to it is in the ledger. */
  watermark: string | null;
  active: number;
  waiting: number;
  /** The newest run that has ended. */
  last: RunBase | null;
  /** Where no run has ended: skips of the last 30 days, by reason. */
  skips: Record<string, number>;
  last_success_for: string | null;
  paused_at: string | null;
  pause_note: string;
  error: string;
  retired_at: string | null;
  active_runs: Run[];
  definition: Definition | null;
  is_stale: boolean;
  problems: DefinitionProblem[];
  is_scheduler_running: boolean;
}

export interface JobPage {
  items: ListedJob[];
  next: string | null;
  total: number;
  statuses: Record<string, number>;
  tags: string[];
  problems: DefinitionProblem[];
}

/** How a job is shown. */
export type JobStatus = "idle" | "running" | "paused" | "error" | "disabled" | "finished";

export interface JobUpcoming {
  timezone: string;
  items: NotedFire[];
  dst_notes: ClockNote[];
  meaning: string[];
}

export interface Lane {
  job: string;
  name: string;
  description: string;
  tags: string[];
  status: JobStatus;
  timezone: string;
  next_at: string | null;
  watermark: string | null;
  undecided_since: string | null;
  marks: Mark[];
  cells: Cell[];
  gaps: LaneGap[];
  future: string[];
  future_cells: FutureCell[];
}

export interface LaneGap {
  run: string;
  job: string;
  at: string;
  through: string | null;
  occurrences: number;
  reason: SkipReason | null;
  detail: string;
  decided_at: string;
}

export interface ListedJob {
  job: string;
  name: string;
  description: string;
  tags: string[];
  file: string | null;
  is_defined: boolean;
  enabled: boolean | null;
  queue: string | null;
  priority: number;
  status: JobStatus;
  next_at: string | null;
  timezone: string;
  schedules: string[];
  /** Every occurrence up to it is in the ledger. */
  watermark: string | null;
  active: number;
  waiting: number;
  /** The newest run that has ended. */
  last: RunBase | null;
  /** Where no run has ended: skips of the last 30 days, by reason. */
  skips: Record<string, number>;
  last_success_for: string | null;
  paused_at: string | null;
  pause_note: string;
  error: string;
  retired_at: string | null;
  recent?: Point[] | null;
}

export interface Load {
  minutes: Minute[];
  /** How far was counted: less far than asked where very much is due. */
  to: string;
}

export interface LogFile {
  attempt: number;
  step: string;
  size: number;
  is_complete: boolean;
}

export interface LogFiles {
  items: LogFile[];
}

export interface LogHit {
  line: number;
  /** Where the line begins, in bytes. */
  offset: number;
}

export interface LogHits {
  run: string;
  attempt: number;
  step: string;
  /** The first 1,000 of them. */
  items: LogHit[];
  total: number;
  /** Less than `size` where the log is too long to be searched as a whole. */
  searched_bytes: number;
  size: number;
}

export interface LogText {
  run: string;
  attempt: number;
  step: string;
  text: string;
  offset: number;
  /** The number of the first line, where `lines` asked for it. */
  first_line: number | null;
  /** In bytes; where to go on reading. */
  next_offset: number;
  size: number;
  is_complete: boolean;
}

export type LossReason = "node-gone" | "lease-expired" | "not-confirmed" | "node-forgotten" | "not-started" | "keeper" | "process-gone" | "machine-restarted" | "no-heartbeat" | "member-lost" | "executor";

export interface Mark {
  run: string;
  at: string;
  state: RunState;
  trigger: Trigger;
  reason: SkipReason | null;
  started_at: string | null;
  finished_at: string | null;
  lateness_seconds: number | null;
  attempt: number;
}

export interface MemberRun {
  run: string;
  job: string;
  job_name: string;
}

/** One of those that run attempts for a place, as it was last seen. */
export interface MemberState {
  name: string;
  is_healthy: boolean;
  /** Whether it takes new attempts; not while it is drained. */
  is_open: boolean;
  /** Why it takes none. */
  closed: "cordoned" | "leaving" | "lease-too-long" | null;
  running: number | null;
  slots: number | null;
  labels: Record<string, string>;
  /** Whether the setting `fleet.expected` names it. */
  is_expected: boolean;
  /** The resources that jobs may ask for there. */
  offers: Record<string, string>;
  /** What of them was asked for by what runs there. */
  used: Record<string, string>;
  version: string | null;
  address: string | null;
  seen_at: string | null;
  runs: MemberRun[];
}

export interface Minute {
  at: string;
  count: number;
}

/** Which missed occurrences are kept. */
export type Missed = "none" | "first" | "latest" | "all";

export interface NewToken {
  id: string;
  name: string;
  role: string;
  created_at: string;
  created_by: string;
  expires_at: string | null;
  /** Shown this once. */
  token: string;
}

export interface Node {
  id: string;
  kind: string;
  command: string;
  depends: string[];
  handler: string | null;
}

export interface NodeRun {
  run: string;
  job: string;
  job_name: string;
  state: RunState;
  /** `retrying` or `lost`: the state of the run when its node is given up. */
  if_lost: RunState;
}

export interface NodeState {
  node: string;
  buckets: number;
  is_alive: boolean;
  is_here: boolean;
  lease_until: string | null;
  /** Until when the others leave its runs to it, although it is away. */
  awaited_until: string | null;
  /** Whether it was stopped in order, and announced its return. */
  is_expected_back: boolean;
  /** What runs on its own machine, by the ledger. */
  active: number;
  /** The first of them. */
  runs: NodeRun[];
  lag_seconds: number | null;
  version: string | null;
  started_at: string | null;
  jobs: number | null;
}

export interface Nodes {
  is_scheduler_running: boolean;
  items: NodeState[];
}

export interface NotedFire {
  job: string;
  job_name: string;
  action: "start" | "stop" | "restart";
  scheduled_for: string;
  local: string;
  offset: string;
  timezone: string;
  wait_seconds: number;
  what: string;
  reason: SkipReason | null;
  detail: string;
  note: string | null;
}

export interface Overview {
  now: string;
  timezone: string;
  node: string;
  version: string;
  scheduler: SchedulerState;
  jobs: JobCounts;
  running: Run[];
  running_count: number;
  waiting: Run[];
  waiting_count: number;
  failed: Run[];
  missed: Run[];
  next: Fire[];
  day: DayFigures;
  hours: Hour[];
  lateness: Percentiles;
  problems: DefinitionProblem[];
}

export interface Parent {
  run: string;
  /** The step that asked for this run, or the constraint that was broken. */
  via: string | null;
}

export interface PauseBody {
  note?: string;
}

export interface Percentiles {
  p10: number | null;
  p50: number | null;
  p90: number | null;
  p95: number | null;
  p99: number | null;
  max: number | null;
}

export interface Plan {
  items: Fire[];
  has_more: boolean;
}

export interface Point {
  run: string;
  scheduled_for: string;
  state: RunState;
  trigger: Trigger;
  duration_seconds: number | null;
  lateness_seconds: number | null;
}

/** What is wrong, after RFC 9457; members beside these say more to programs. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  [other: string]: unknown;
}

export interface Proof {
  is_sound: boolean;
  occurrences: number;
  runs: number;
  skips: Record<string, number>;
  gaps: number;
  lost: number;
  duplicates: number;
  miscounted: number;
  strays: number;
  stuck: number;
  findings: Finding[];
}

export interface Queue {
  queue: string;
  limit: number | null;
  jobs: string[];
  active: number;
  waiting: number;
  runs: QueuedRun[];
}

export interface QueuedRun {
  run: string;
  job: string;
  scheduled_for: string;
  state: RunState;
  reason: SkipReason | null;
  trigger: Trigger;
  attempt: number;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  /** Of an occurrence; a requested run has no time to be late for. */
  lateness_seconds: number | null;
  exit_code: number | null;
  detail: string;
  /** Why its newest attempt was lost, where it was. */
  loss: LossReason | null;
  /** Of an occurrence that was missed: the rule that kept it or did not. */
  missed_by: Missed | null;
  executor: string;
  decided_at: string;
  decided_by: string;
  /** Of a gap: its last occurrence. */
  through: string | null;
  occurrences: number;
  request: string | null;
  params: unknown;
  resumed_from: string | null;
  /** What it waited for, first to last. */
  waits: Wait[];
  /** The steps that run now. */
  running_steps: string[];
  /** The runs that this one exists because of; `trigger` says in which way. */
  parents: Parent[];
  job_name: string;
  timezone: string;
  blocked_by: string | null;
}

export interface Queues {
  is_scheduler_running: boolean;
  items: Queue[];
}

export interface RemoveBody {
  /** Also when it runs something, which is lost then. */
  force?: boolean;
}

export interface ResumeBody {
  /** `all`, `latest`, `first`, `none`; null: its policy. */
  catchup?: string | null;
}

export interface RetryBody {
  from_failed?: boolean;
}

export interface Rule {
  name: string;
  value: string;
  origin: string;
}

export interface Rules {
  items: Rule[];
}

/** A line of the ledger: a run, or a skip with its reason. */
export interface Run {
  run: string;
  job: string;
  scheduled_for: string;
  state: RunState;
  reason: SkipReason | null;
  trigger: Trigger;
  attempt: number;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  /** Of an occurrence; a requested run has no time to be late for. */
  lateness_seconds: number | null;
  exit_code: number | null;
  detail: string;
  /** Why its newest attempt was lost, where it was. */
  loss: LossReason | null;
  /** Of an occurrence that was missed: the rule that kept it or did not. */
  missed_by: Missed | null;
  executor: string;
  decided_at: string;
  decided_by: string;
  /** Of a gap: its last occurrence. */
  through: string | null;
  occurrences: number;
  request: string | null;
  params: unknown;
  resumed_from: string | null;
  /** What it waited for, first to last. */
  waits: Wait[];
  /** The steps that run now. */
  running_steps: string[];
  /** The runs that this one exists because of; `trigger` says in which way. */
  parents: Parent[];
  job_name: string;
  timezone: string;
}

export interface RunBase {
  run: string;
  job: string;
  scheduled_for: string;
  state: RunState;
  reason: SkipReason | null;
  trigger: Trigger;
  attempt: number;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  /** Of an occurrence; a requested run has no time to be late for. */
  lateness_seconds: number | null;
  exit_code: number | null;
  detail: string;
  /** Why its newest attempt was lost, where it was. */
  loss: LossReason | null;
  /** Of an occurrence that was missed: the rule that kept it or did not. */
  missed_by: Missed | null;
  executor: string;
  decided_at: string;
  decided_by: string;
  /** Of a gap: its last occurrence. */
  through: string | null;
  occurrences: number;
  request: string | null;
  params: unknown;
  resumed_from: string | null;
  /** What it waited for, first to last. */
  waits: Wait[];
  /** The steps that run now. */
  running_steps: string[];
  /** The runs that this one exists because of; `trigger` says in which way. */
  parents: Parent[];
}

/** What a job was when an attempt of a run was launched, without values that may be secrets. */
export interface RunDefinition {
  run: string;
  job: string;
  attempt: number;
  digest: string;
  text: string;
  /** null: the job is gone. */
  is_current: boolean | null;
  /** Every line, then and now; empty where the job is gone. */
  changes: DefinitionChange[];
}

export interface RunDetail {
  run: string;
  job: string;
  scheduled_for: string;
  state: RunState;
  reason: SkipReason | null;
  trigger: Trigger;
  attempt: number;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  /** Of an occurrence; a requested run has no time to be late for. */
  lateness_seconds: number | null;
  exit_code: number | null;
  detail: string;
  /** Why its newest attempt was lost, where it was. */
  loss: LossReason | null;
  /** Of an occurrence that was missed: the rule that kept it or did not. */
  missed_by: Missed | null;
  executor: string;
  decided_at: string;
  decided_by: string;
  /** Of a gap: its last occurrence. */
  through: string | null;
  occurrences: number;
  request: string | null;
  params: unknown;
  resumed_from: string | null;
  /** What it waited for, first to last. */
  waits: Wait[];
  /** The steps that run now. */
  running_steps: string[];
  /** The runs that this one exists because of; `trigger` says in which way. */
  parents: Parent[];
  job_name: string;
  timezone: string;
  steps: Step[];
  attempts: Attempt[];
  depends: Record<string, string[]>;
  logs: LogFile[];
  absent_logs: AbsentLog[];
  /** The digest of what its job was; /runs/{run}/definition has the text. */
  definition: string | null;
  /** null: its job is gone, or what it was is not known. */
  is_definition_current: boolean | null;
  can_cancel: boolean;
  can_retry: boolean;
  can_retry_failed: boolean;
  blocked_by: string[];
}

export interface RunPage {
  items: Run[];
  /** Hand it back as `cursor`; null: this was the last page. */
  next: string | null;
}

export type RunState = "planned" | "waiting" | "launching" | "running" | "retrying" | "succeeded" | "failed" | "timed_out" | "cancelled" | "lost" | "skipped";

export interface SchedulerState {
  alive: boolean;
  lag_seconds: number | null;
}

export interface SessionState {
  user: string;
  role: string;
  csrf: string | null;
  version: string;
  node: string;
  timezone: string;
}

export interface SettingLine {
  name: string;
  value: string;
  default: string;
  origin: string;
  meaning: string;
  variable: string;
}

export interface SettingsList {
  items: SettingLine[];
}

export interface SignIn {
  token: string;
}

/** Why an occurrence did not become a run. */
export type SkipReason = "overlap" | "superseded" | "missed" | "late" | "paused" | "already-succeeded" | "condition" | "cap" | "disabled" | "no-executor" | "saturated";

export interface Status {
  is_scheduler_running: boolean;
  status: Record<string, unknown> | null;
}

export interface Step {
  name: string;
  attempt: number;
  tries: number;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  exit_code: number | null;
  detail: string;
  output: string | null;
  is_output_cut: boolean;
  sub_run: string | null;
  reused_from: string | null;
  has_log: boolean;
  cpu_seconds: number;
  max_rss_bytes: number | null;
  state: string;
}

export interface StepDefinition {
  name: string;
  kind: string;
  summary: string;
  depends: string[];
  env: EnvName[];
  timeout_seconds: number | null;
  max_retries: number;
  output: string | null;
}

export interface Timeline {
  now: string;
  from: string;
  to: string;
  /** The time of the oldest line of the ledger. */
  since: string | null;
  total: number;
  offset: number;
  lanes: Lane[];
}

export interface TokenBody {
  name: string;
  role: string;
  expires_at?: string | null;
}

export interface TokenList {
  items: TokenState[];
}

export interface TokenState {
  id: string;
  name: string;
  role: string;
  created_at: string;
  created_by: string;
  expires_at: string | null;
}

/** Why a run exists. */
export type Trigger = "scheduler" | "catchup" | "backfill" | "manual" | "api" | "webhook" | "retry" | "chained" | "subjob";

export interface TriggerBody {
  params?: Record<string, string>;
  /** Whether a program asks, or a person through one. */
  trigger?: "api" | "manual";
}

export interface Upcoming {
  items: Fire[];
}

export interface Validated {
  job: string | null;
  errors: DefinitionProblem[];
  warnings: DefinitionProblem[];
}

export interface Wait {
  kind: WaitKind;
  since: string;
  /** Of the queue or the executor, or how the job was held. */
  name: string;
  /** The runs that held the places. */
  runs: string[];
  /** The jobs whose success was missing. */
  jobs: string[];
  detail: string;
  /** Places that the queue has. */
  limit: number | null;
}

export type WaitKind = "overlap" | "queue" | "after" | "executor" | "rate" | "hold";

export interface Why {
  job: string;
  scheduled_for: string;
  local: string;
  timezone: string;
  outcome: string;
  reason: SkipReason | null;
  verdict: string;
  sentences: string[];
  run: RunBase | null;
  other_run: RunBase | null;
  policy: string | null;
  policy_from: string | null;
  advice: string | null;
  nearest_before: string | null;
  nearest_after: string | null;
}

export interface WrittenDefinition {
  job: string;
  file: string;
}

export interface Zones {
  items: string[];
}
