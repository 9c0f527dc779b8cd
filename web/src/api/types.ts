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
  duration_seconds: number | null;
  lateness_seconds: number | null;
  attempt: number;
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
  next: Instant | null;
  timezone: string;
  schedules: string[];
  watermark: Instant | null;
  active: Run[];
  waiting: number;
  last: Run | null;
  last_success_for: Instant | null;
  paused_at: Instant | null;
  pause_note: string;
  error: string;
  retired_at: Instant | null;
  recent?: Mark[];
}

export interface JobPage extends Page<Job> {
  total: number;
  statuses: Counts<JobStatus>;
  tags: Counts;
  problems: DefinitionProblem[];
}

export interface ParamSchema {
  type?: string;
  enum?: (string | number | boolean)[];
  minimum?: number;
  maximum?: number;
  pattern?: string;
}

export interface Param {
  name: string;
  default: string | null;
  schema: ParamSchema;
  description: string;
}

export interface StepDefinition {
  name: string;
  kind: string;
  summary: string;
  depends: string[];
}

export interface Definition {
  params: Param[];
  steps: StepDefinition[];
  handlers: Record<string, StepDefinition>;
  priority: number;
}

export interface JobDetail extends Job {
  definition: Definition | null;
  /** The file as it was written, where the reader may see it. */
  text?: string | null;
  is_stale: boolean;
  problems: DefinitionProblem[];
  is_scheduler_running: boolean;
}

export interface Rule {
  name: string;
  value: string;
  origin: string;
}

export interface Graph {
  nodes: StepDefinition[];
  edges: { from: string; to: string }[];
  handlers: Record<string, StepDefinition>;
  runs_after: string[];
  runs_before: string[];
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

export interface Day {
  date: string;
  start: Instant;
  /** Not 24 when the clocks change. */
  hours: number;
  states: Counts<RunState>;
  skips: Counts;
  triggers: Counts<Trigger>;
  ahead: number;
}

export interface Calendar {
  timezone: string;
  days: Day[];
}

export interface Percentiles {
  p10: number;
  p50: number;
  p90: number;
  p99: number;
  least: number;
  most: number;
}

export interface Durations {
  runs: Mark[];
  durations: Percentiles | null;
  lateness: Percentiles | null;
  success_rate: number | null;
}

export interface Fate {
  scheduled_for: Instant;
  through: Instant | null;
  occurrences: number;
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

export interface BackfillPreview {
  request: string | null;
  timezone: string;
  runs: number;
  occurrences: number;
  candidates: { scheduled_for: Instant; local: string; what: "run" | "leave"; why: string }[];
}

/** What becomes of something that was asked for. */
export interface Asked {
  request: string;
  job: string;
  is_answered: boolean;
  answer: { run?: string; error?: string } | null;
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
  sub_run?: string;
  reused_from?: string;
}

export interface LogFile {
  attempt: number;
  step: string;
  size: number;
  is_complete: boolean;
}

export interface RunDetail extends Run {
  lateness_seconds: number | null;
  can_cancel: boolean;
  can_retry: boolean;
  can_retry_from_failed?: boolean;
  logs: LogFile[];
  steps?: StepState[];
  spec?: unknown;
  blocked_by?: string[];
}

export interface LogChunk {
  text: string;
  offset: number;
  next_offset: number;
  is_complete: boolean;
}

export interface Hour {
  at: Instant;
  states: Counts<RunState>;
}

export interface Overview {
  now: Instant;
  is_scheduler_running: boolean;
  jobs: { total: number; statuses: Counts<JobStatus> };
  active: { total: number; items: Run[] };
  waiting: { total: number; items: Run[] };
  day: {
    states: Counts<RunState>;
    skips: Counts;
    triggers?: Counts<Trigger>;
    success_rate: number | null;
    latest_seconds: number | null;
    lateness?: { p50: number; p99: number } | null;
    hours: Hour[];
  };
  failed: Run[];
  skipped: Run[];
  next: Fire[];
  problems: DefinitionProblem[];
}

export interface Cell {
  at: Instant;
  until: Instant;
  count: number;
  states: Counts<RunState>;
  triggers: Counts<Trigger>;
  reasons: Counts;
}

export interface Gap {
  run: string;
  from: Instant;
  through: Instant | null;
  occurrences: number;
  reason: string | null;
  detail: string;
}

export interface Lane {
  job: string;
  name: string;
  description?: string;
  status: JobStatus;
  timezone: string;
  next?: Instant | null;
  watermark?: Instant | null;
  marks: Mark[];
  cells: Cell[];
  gaps: Gap[];
  ahead: Instant[];
  ahead_count: number;
  ahead_cells?: { at: Instant; until: Instant; count: number }[];
  held: string | null;
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
  next: { scheduled_for: Instant; local: string; offset: string; wait_seconds: number }[];
  dst_notes: { at: Instant; local: string; text: string }[];
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
  state?: string;
  members?: Member[] | Record<string, Omit<Member, "name">>;
}

export interface Node {
  node: string;
  buckets: number;
  is_alive: boolean;
  lease_until: Instant | null;
}

export interface Queue {
  queue: string;
  limit: number | null;
  jobs: string[];
  active: Run[];
  active_count: number;
  waiting: Run[];
  waiting_count: number;
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
  is_sound?: boolean | null;
}

export interface LiveEvent {
  id: number;
  type: string;
  at: Instant;
  job?: string;
  run?: string;
  state?: RunState;
}
