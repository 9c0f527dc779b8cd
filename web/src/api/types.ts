/** What the API answers with: the names are those of the ledger, times are RFC 3339 texts in UTC. */

export type Instant = string;
export type RunState =
  | "planned"
  | "waiting"
  | "launching"
  | "running"
  | "retrying"
  | "succeeded"
  | "failed"
  | "timed_out"
  | "cancelled"
  | "lost"
  | "skipped";
export type Trigger =
  | "scheduler"
  | "catchup"
  | "backfill"
  | "manual"
  | "api"
  | "webhook"
  | "retry"
  | "chained"
  | "subjob";
export type JobStatus = "idle" | "running" | "paused" | "error" | "disabled" | "finished";
export type Role = "viewer" | "operator" | "editor" | "admin";

export interface Page<T> {
  items: T[];
  next: string | null;
}

export interface Session {
  user: string;
  role: Role;
  csrf: string | null;
  version: string;
  node: string;
  timezone: string;
}

/** A line of the ledger. */
export interface Run {
  run: string;
  job: string;
  scheduled_for: Instant;
  state: RunState;
  reason: string | null;
  trigger: Trigger;
  attempt: number;
  started_at: Instant | null;
  finished_at: Instant | null;
  duration_seconds: number | null;
  /** Of an occurrence; a requested run has no time to be late for. */
  lateness_seconds: number | null;
  exit_code: number | null;
  detail: string;
  executor: string;
  decided_at: Instant;
  decided_by: string;
  through: Instant | null;
  occurrences: number;
  request: string | null;
  params: unknown;
  timezone?: string;
}

/** A line of the ledger as a mark in a picture. */
export interface Mark {
  run: string;
  at: Instant;
  state: RunState;
  reason: string | null;
  trigger: Trigger;
  started_at: Instant | null;
  finished_at: Instant | null;
  lateness_seconds: number | null;
  attempt: number;
}

/** A run as a point of a chart. */
export interface Point {
  run: string;
  scheduled_for: Instant;
  state: RunState;
  trigger: Trigger;
  duration_seconds: number | null;
  lateness_seconds: number | null;
}

/** How many occurrences of some stretch of time ended how. */
export interface Outcomes {
  count: number;
  succeeded: number;
  failed: number;
  skipped: number;
  other: number;
  caught_up: number;
  backfilled: number;
}

export type Counts<K extends string = string> = Partial<Record<K, number>>;

export interface DefinitionProblem {
  file: string | null;
  line: number | null;
  text: string;
}

export interface Job {
  job: string;
  name: string;
  description: string;
  tags: string[];
  file: string | null;
  is_defined: boolean;
  enabled: boolean | null;
  queue: string | null;
  status: JobStatus;
  priority: number;
  next_at: Instant | null;
  timezone: string;
  schedules: string[];
  watermark: Instant | null;
  active: number;
  waiting: number;
  last: Run | null;
  last_success_for: Instant | null;
  paused_at: Instant | null;
  pause_note: string;
  error: string;
  retired_at: Instant | null;
  recent?: Point[];
}

export interface JobPage extends Page<Job> {
  total: number;
  statuses: Counts<JobStatus>;
  tags: string[];
  problems: DefinitionProblem[];
}

export interface ParamSchema {
  type?: string;
  enum?: (string | number | boolean)[];
  minimum?: number;
  maximum?: number;
  pattern?: string;
  default?: string;
  description?: string;
}

/** The parameters of a job as one JSON Schema. */
export interface Params {
  properties: Record<string, ParamSchema>;
  required: string[];
}

export interface StepDefinition {
  name: string;
  kind: string;
  summary: string;
  depends: string[];
}

export interface Definition {
  params: Params;
  steps: StepDefinition[];
  handlers: Record<string, StepDefinition>;
}

export interface JobDetail extends Job {
  active_runs: Run[];
  definition: Definition | null;
  is_stale: boolean;
  problems: DefinitionProblem[];
  is_scheduler_running: boolean;
}

export interface Rule {
  name: string;
  value: string;
  origin: string;
}

export interface GraphNode {
  id: string;
  kind: string;
  command: string;
  depends: string[];
  handler: string | null;
}

export interface Graph {
  nodes: GraphNode[];
  after: string[];
  before: string[];
}

export interface Fire {
  job: string;
  action: string;
  scheduled_for: Instant;
  local: string;
  offset: string;
  timezone: string;
  wait_seconds: number;
  reason: string | null;
  detail: string;
}

export interface ClockNote {
  at: Instant;
  local: string;
  text: string;
}

export interface NotedFire extends Fire {
  note: string | null;
}

export interface JobUpcoming {
  timezone: string;
  items: NotedFire[];
  dst_notes: ClockNote[];
  meaning: string[];
}

export interface Why {
  job: string;
  scheduled_for: Instant;
  timezone: string;
  outcome: string;
  verdict: string;
  sentences: string[];
  reason: string | null;
  run: Run | null;
  other_run: Run | null;
  nearest_before: Instant | null;
  nearest_after: Instant | null;
}

export interface Day extends Outcomes {
  date: string;
  start: Instant;
  dst: "forward" | "back" | null;
  skips: Counts;
  planned: number;
}

export interface Calendar {
  timezone: string;
  days: Day[];
}

export interface Percentiles {
  p10: number | null;
  p50: number | null;
  p90: number | null;
  p95: number | null;
  p99: number | null;
  max: number | null;
}

export interface Durations {
  items: Point[];
  percentiles: Percentiles;
  lateness: Percentiles;
  success_rate: number | null;
}

export interface Fate {
  scheduled_for: Instant;
  through: Instant | null;
  occurrences: number;
  runs: boolean;
  what: string;
  reason: string | null;
  detail: string;
}

export interface CatchupPreview {
  timezone: string;
  watermark: Instant | null;
  paused_at: Instant | null;
  backlog: string[];
  kept: number;
  skipped: number;
  fates: Fate[];
}

export interface Backfill {
  request: string | null;
  chosen: number;
  timezone?: string;
  total?: number;
  candidates?: { scheduled_for: Instant; local: string; is_chosen: boolean; why: string }[];
}

/** What becomes of something that was asked for. */
export interface Asked {
  request: string;
  job: string;
  is_answered: boolean;
  run: string | null;
  is_scheduler_running: boolean;
}

/** How a step of a run stands. */
export interface StepState {
  name: string;
  state: string;
  attempt: number;
  tries: number;
  started_at: Instant | null;
  finished_at: Instant | null;
  exit_code: number | null;
  detail: string;
  sub_run: string | null;
  reused_from: string | null;
}

export interface LogFile {
  attempt: number;
  step: string;
  size: number;
  is_complete: boolean;
}

export interface RunDetail extends Run {
  can_cancel: boolean;
  can_retry: boolean;
  can_retry_failed: boolean;
  logs: LogFile[];
  steps: StepState[];
  blocked_by: string[];
}

export interface LogChunk {
  text: string;
  offset: number;
  next_offset: number;
  is_complete: boolean;
}

export interface Hour extends Outcomes {
  at: Instant;
}

export interface Overview {
  now: Instant;
  timezone: string;
  scheduler: { alive: boolean; lag_seconds: number | null };
  jobs: Record<JobStatus | "total", number>;
  running: Run[];
  running_count: number;
  waiting: Run[];
  waiting_count: number;
  failed: Run[];
  missed: Run[];
  next: Fire[];
  day: Record<RunState | "caught_up", number> & { success_rate: number | null; skips: Counts };
  hours: Hour[];
  lateness: Percentiles;
  problems: DefinitionProblem[];
}

export interface Cell extends Outcomes {
  at: Instant;
  through: Instant;
}

export interface Gap {
  run: string;
  at: Instant;
  through: Instant | null;
  occurrences: number;
  reason: string | null;
  detail: string;
}

export interface Lane {
  job: string;
  name: string;
  description: string;
  tags: string[];
  status: JobStatus;
  timezone: string;
  next_at: Instant | null;
  watermark: Instant | null;
  /** From when on nothing was decided, because the job is held or no scheduler is there. */
  undecided_since: Instant | null;
  marks: Mark[];
  cells: Cell[];
  gaps: Gap[];
  future: Instant[];
  future_cells: { at: Instant; through: Instant; count: number }[];
}

export interface Ribbon {
  now: Instant;
  total: number;
  offset: number;
  lanes: Lane[];
}

export interface CronAnswer {
  expression: string;
  timezone: string;
  meaning: string;
  fields: Record<string, string>;
  next: { scheduled_for: Instant; local: string; offset: string; timezone: string; note: string | null }[];
  dst_notes: ClockNote[];
}

/** What depends on a scheduler that can be asked. */
export interface Live<T> {
  is_scheduler_running: boolean;
  items: T[];
}

export interface Member {
  name: string;
  state?: string;
  address?: string | null;
  load?: number | null;
  running?: number | null;
  capacity?: number | null;
  labels?: string[] | Record<string, string> | null;
  is_draining?: boolean;
}

export interface Executor {
  executor: string;
  is_known: boolean;
  active: number;
  runs: Run[];
  is_healthy?: boolean;
  lanes?: Record<string, { under_way: number; size: number; waiting: number }>;
  members?: Member[] | Record<string, Omit<Member, "name">>;
}

export interface Node {
  node: string;
  buckets: number;
  is_alive: boolean;
  is_here: boolean;
  lease_until: Instant | null;
  lag_seconds: number | null;
  version: string | null;
  started_at: Instant | null;
  jobs: number | null;
}

export interface Queue {
  queue: string;
  limit: number | null;
  jobs: string[];
  active: number;
  waiting: number;
  runs: (Run & { blocked_by: string | null })[];
}

export interface Setting {
  name: string;
  value: unknown;
  default?: unknown;
  origin?: string;
  meaning?: string;
}

export interface AuditLine {
  number: number;
  at: Instant;
  by: string;
  action: string;
  target: string;
  outcome?: string;
  detail?: unknown;
}

export interface AuditPage extends Page<AuditLine> {
  chain_ok: boolean | null;
  broken_at: number | null;
}

export interface LiveEvent {
  id: number;
  type: string;
  at: Instant;
  job?: string;
  run?: string;
  state?: RunState;
}
