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
  timezone: string;
}

export interface RecentRun {
  run: string;
  state: RunState;
  scheduled_for: Instant;
  duration_seconds: number | null;
  trigger: Trigger;
}

export interface Job {
  job: string;
  description: string;
  status: JobStatus;
  timezone: string;
  tags: string[];
  schedules: string[];
  next_at: Instant | null;
  watermark: Instant | null;
  active: number;
  waiting: number;
  last: Run | null;
  paused_at: Instant | null;
  pause_note: string;
  error: string;
  enabled: boolean;
  priority: number;
  queue: string | null;
  recent: RecentRun[];
}

export interface JobPage extends Page<Job> {
  total: number | null;
  tags: string[];
}

export interface ParamSchema {
  type?: string;
  enum?: (string | number | boolean)[];
  default?: string | number | boolean;
  minimum?: number;
  maximum?: number;
  pattern?: string;
  description?: string;
}

export interface JobDetail extends Job {
  params_schema: { properties: Record<string, ParamSchema>; required?: string[] };
  definition: string | null;
  file: string | null;
  last_success_at: Instant | null;
}

export interface Rule {
  name: string;
  value: string;
  origin: string;
}

export interface GraphNode {
  id: string;
  kind: string;
  depends: string[];
  command: string;
  handler: string | null;
}

export interface Graph {
  nodes: GraphNode[];
  after: string[];
  before: string[];
}

export interface Fire {
  scheduled_for: Instant;
  local: string;
  offset: string;
  note: string | null;
}

export interface ClockNote {
  at: Instant;
  text: string;
}

export interface JobFires {
  timezone: string;
  items: Fire[];
  dst_notes: ClockNote[];
  meaning: string[];
}

export interface Why {
  job: string;
  at: Instant;
  timezone: string;
  outcome: string;
  verdict: string;
  sentences: string[];
  reason: string | null;
  run: Run | null;
  other: Run | null;
}

export interface Day {
  date: string;
  succeeded: number;
  failed: number;
  skipped: number;
  other: number;
  caught_up: number;
  backfilled: number;
  planned: number;
  dst: "forward" | "back" | null;
}

export interface Calendar {
  zone: string;
  days: Day[];
}

export interface DurationPoint {
  run: string;
  scheduled_for: Instant;
  duration_seconds: number | null;
  lateness_seconds: number | null;
  state: RunState;
  trigger: Trigger;
}

export interface Durations {
  items: DurationPoint[];
  percentiles: { p50: number | null; p90: number | null; p95: number | null; p99: number | null };
}

export interface Fate {
  at: Instant;
  runs: boolean;
  detail: string;
  reason: string | null;
  through: Instant | null;
  occurrences: number;
}

export interface CatchupPreview {
  watermark: Instant | null;
  paused_at: Instant | null;
  kept: number;
  skipped: number;
  fates: Fate[];
}

export interface BackfillPreview {
  total: number;
  chosen: number;
  candidates: { at: Instant; is_chosen: boolean; why: string }[];
}

export interface StepState {
  step: string;
  state: string;
  started_at: Instant | null;
  finished_at: Instant | null;
  exit_code: number | null;
  tries: number;
  detail: string;
  log_bytes: number | null;
}

export interface Attempt {
  attempt: number;
  state: string;
  started_at: Instant | null;
  finished_at: Instant | null;
  exit_code: number | null;
  detail: string;
  steps: StepState[];
}

export interface RunDetail extends Run {
  attempts: Attempt[];
  depends: Record<string, string[]>;
  spec: unknown;
  can_retry_failed: boolean;
  blocked_by: string[];
}

export interface LogFile {
  attempt: number;
  step: string;
  size: number;
  is_complete: boolean;
}

export interface LogChunk {
  text: string;
  offset: number;
  next_offset: number;
  size: number;
  is_complete: boolean;
}

export interface Overview {
  now: Instant;
  timezone: string;
  node: string;
  version: string;
  scheduler: { alive: boolean; lag_seconds: number | null };
  jobs: Record<JobStatus | "total", number>;
  running: Run[];
  waiting: Run[];
  failed: Run[];
  missed: Run[];
  next: { job: string; scheduled_for: Instant; timezone: string }[];
  day: Record<"succeeded" | "failed" | "timed_out" | "cancelled" | "lost" | "skipped" | "caught_up", number>;
  lateness: { p50: number | null; p95: number | null; p99: number | null; max: number | null };
  hours: { at: Instant; succeeded: number; failed: number; skipped: number }[];
}

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

export interface Cell {
  at: Instant;
  through: Instant;
  count: number;
  succeeded: number;
  failed: number;
  skipped: number;
  other: number;
  caught_up: number;
  backfilled: number;
  worst: RunState;
}

export interface Gap {
  run: string;
  at: Instant;
  through: Instant;
  occurrences: number;
  reason: string;
  detail: string;
}

export interface Lane {
  job: string;
  description: string;
  status: JobStatus;
  timezone: string;
  tags: string[];
  next_at: Instant | null;
  watermark: Instant | null;
  marks: Mark[];
  cells: Cell[];
  gaps: Gap[];
  future: Instant[];
  future_cells: { at: Instant; through: Instant; count: number }[];
  undecided_since: Instant | null;
}

export interface Ribbon {
  now: Instant;
  from: Instant;
  to: Instant;
  total: number;
  offset: number;
  lanes: Lane[];
}

export interface Upcoming {
  items: { job: string; scheduled_for: Instant; timezone: string; held: string | null }[];
  minutes: { at: Instant; count: number }[];
}

export interface CronAnswer {
  expression: string;
  timezone: string;
  meaning: string;
  fields: Record<string, string>;
  next: Fire[];
  dst_notes: ClockNote[];
}

export interface Member {
  name: string;
  address: string | null;
  state: string;
  load: number | null;
  capacity: number | null;
  labels: string[] | Record<string, string>;
  version: string | null;
  last_seen: Instant | null;
}

export interface Executor {
  name: string;
  kind: string;
  healthy: boolean;
  members: Member[];
}

export interface Node {
  node: string;
  alive: boolean;
  buckets: number;
  jobs: number | null;
  version: string | null;
  started_at: Instant | null;
  lag_seconds: number | null;
  is_here: boolean;
}

export interface Queue {
  queue: string;
  limit: number | null;
  active: number;
  waiting: number;
  runs: { run: string; job: string; state: RunState; since: Instant | null; blocked_by: string | null }[];
}

export interface Setting {
  name: string;
  value: unknown;
  default: unknown;
  origin: string;
  meaning: string;
}

export interface AuditLine {
  number: number;
  at: Instant;
  by: string;
  action: string;
  target: string;
  detail: unknown;
  hash: string;
}

export interface AuditPage extends Page<AuditLine> {
  chain_ok: boolean | null;
}

export interface LiveEvent {
  id: number;
  type: string;
  at: Instant;
  job?: string;
  run?: string;
  state?: RunState;
}
