/** What the API answers with and is asked with. Made from its description by `make docs`; not edited by hand. */

/** An attempt whose log exists but cannot be read now. */
export interface AbsentLog {
  attempt: number;
  /** Where it is, in words. */
  place: string;
  kind: "node" | "member" | "store";
  /** The node or member that has it. */
  name: string;
  cause: MemberUnavailableReason | "unreachable" | "not-kept";
  /** When a member that does not answer was last seen. */
  last_seen_at: string | null;
  /** Whether a part of the log can be read. */
  is_partial: boolean;
  reason: string;
  /** The whole message as one sentence. */
  text: string;
}

/** A job with occurrences in a blackout. */
export interface AffectedJob {
  job: string;
  job_name: string;
  timezone: string;
  occurrences: number;
  /** The first of them. */
  times: string[];
}

export interface AfterJobs {
  jobs: string[];
  mode: string;
  on?: string;
}

export interface Attempt {
  attempt: number;
  state: string;
  started_at: string | null;
  finished_at: string | null;
  exit_code: number | null;
  detail: string;
  /** Why it was lost; null if it was not lost. */
  loss: LossReason | null;
  executor: string;
  definition: string | null;
  steps: AttemptStep[];
}

export interface AttemptStep {
  name: string;
  item_of: string | null;
  item: string | null;
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
  executor: string | null;
  reused_from: string | null;
  has_log: boolean;
  cpu_seconds: number;
  max_rss_bytes: number | null;
  /** null: only its log is known. */
  state: string | null;
  log_bytes: number | null;
}

export interface Attention {
  now: string;
  jobs: number;
  /** Worst first; at most 50 of a kind. */
  items: AttentionItem[];
  total: number;
  /** How many there are of each kind, those that are not listed included; worst first. */
  counts: Record<string, number>;
}

/** What most likely helps. */
export type AttentionAction = "retry" | "retry-failed" | "run" | "backfill" | "undrain" | "show-run" | "show-job" | "show-executors" | "show-skipped";

/** One thing that is wrong. Fields that do not apply are null. */
export interface AttentionItem {
  kind: AttentionKind;
  action: AttentionAction | null;
  since: string | null;
  /** Failures or skips in a row, runs that wait, errors of a file; otherwise 1. */
  count: number;
  /** The line of the log that names the error, or the reason as it was recorded; may be empty. */
  text: string;
  job?: string | null;
  job_name?: string | null;
  timezone?: string | null;
  /** The newest run that failed, or the oldest that waits. */
  run?: string | null;
  /** The run that is in the way. */
  other_run?: string | null;
  state?: RunState | null;
  /** Runs of the job that are in progress now, such as a retry. */
  active?: number;
  reason?: SkipReason | null;
  wait?: Wait | null;
  executor?: string | null;
  member?: string | null;
  closed?: Closed | null;
  node?: string | null;
  file?: string | null;
  line?: number | null;
  /** By how much the scheduler lags, or the clock was changed. */
  seconds?: number | null;
}

/** What is wrong, worst first. */
export type AttentionKind = "no-scheduler" | "lagging" | "ledger-damaged" | "clock" | "failing" | "past-deadline" | "stuck" | "skipping" | "node-away" | "member-away" | "member-closed" | "invalid-file";

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
  /** The key that signed it. */
  key: string;
}

export interface AuditPage {
  items: AuditLine[];
  next: string | null;
  /** Null on all but the first page, for which the whole chain is verified. */
  chain_ok: boolean | null;
  broken_at: number | null;
  /** Lines at the end that the ledger knows and the log does not have. */
  missing: number | null;
}

export interface Backfill {
  /** null for a preview, and where there is nothing to run. */
  request: string | null;
  job: string;
  is_answered: boolean;
  answer: RequestAnswer | null;
  chosen: number;
  timezone?: string | null;
  total?: number | null;
  candidates?: BackfillCandidate[] | null;
  /** Why a range without an occurrence has none, if a calendar excludes them. */
  excluded?: ExcludedRange | null;
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
  /** Minimum time between two starts. */
  gap_seconds?: number;
}

export interface BackfillCandidate {
  scheduled_for: string;
  local: string;
  is_chosen: boolean;
  why: string;
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

/** An occurrence at `from` is in it, one at `to` is not. */
export interface Blackout {
  id: string;
  state: BlackoutState;
  from: string;
  to: string;
  reason: string;
  /** Empty where it concerns jobs by their tags, or all jobs. */
  jobs: string[];
  tags: string[];
  is_for_all: boolean;
  origin: BlackoutOrigin;
  /** Where the settings declare it. */
  file: string | null;
  added_at: string | null;
  added_by: string;
}

export interface BlackoutBody {
  /** In the past: now. */
  from?: string;
  /** Not included. */
  to: string;
  jobs?: string[];
  tags?: string[];
  all?: boolean;
  reason?: string;
  /** Of times without an offset. */
  timezone?: string | null;
  preview?: boolean;
}

/** A blackout that was added or removed, or would be, and the occurrences that this concerns. */
export interface BlackoutChange {
  blackout: Blackout;
  is_preview: boolean;
  /** How many jobs have occurrences in it, from now on. */
  jobs: number;
  occurrences: number;
  /** The first of these jobs, by time. */
  affected: AffectedJob[];
}

/** Where a blackout comes from: only those that were added at run time can be removed there. */
export type BlackoutOrigin = "settings" | "added";

export type BlackoutState = "planned" | "active" | "over";

export interface Blackouts {
  items: Blackout[];
  /** The zone of times without an offset. */
  timezone: string;
}

/** What a waiting run waits for. */
export interface Blocker {
  /** null: the scheduler has not noted it. */
  kind: WaitKind | null;
  /** The whole message as text. */
  text: string;
  /** The queue or the executor, or how the job is held. */
  name?: string | null;
  /** How many places the queue has. */
  limit?: number | null;
  /** The job that has to succeed first. */
  job?: string | null;
  /** The ids of the runs in the way; for `after`, the newest run of the job. */
  runs?: string[];
  /** The rule that makes it wait, as the job file has it. */
  policy?: string | null;
  /** Where the policy was set, as `file:line`. */
  policy_from?: string | null;
}

export interface Bulk {
  action: BulkAction;
  is_preview: boolean;
  /** Jobs or runs that the action applies to. */
  chosen: number;
  /** Runs that it concerns together. */
  runs: number;
  items: BulkItem[];
  is_scheduler_running: boolean;
}

export type BulkAction = "run" | "pause" | "resume" | "backfill" | "retry" | "retry-failed" | "cancel";

export interface BulkBody {
  action: BulkAction;
  jobs?: string[];
  runs?: string[];
  from?: string | null;
  /** Not included. */
  to?: string | null;
  /** Why jobs are paused. */
  note?: string;
  preview?: boolean;
}

export interface BulkItem {
  job: string;
  job_name: string;
  run: string | null;
  scheduled_for: string | null;
  state: RunState | null;
  /** Runs that the action concerns: starts, retries or cancels. */
  count: number;
  /** Runs of the job that are active now; 0 where the action is on one run. */
  active: number;
  /** null: the action applies. */
  obstacle: BulkObstacle | null;
  detail: string;
  /** The id of the durable request; null in a preview, or where there is an obstacle. */
  request: string | null;
}

/** Why an action does not apply to a job or a run. */
export type BulkObstacle = "unknown" | "deleted" | "paused-already" | "not-paused" | "not-ended" | "no-failed-step" | "ended" | "is-gap" | "nothing-to-run" | "refused";

export interface Calendar {
  job: string | null;
  timezone: string;
  days: Day[];
  /** Those of the period that concern the job, or any job. */
  blackouts: Blackout[];
  /** Those to come; the past is in the skips of each day. */
  excluded: ExcludedDay[];
}

export interface CancelledBackfill {
  request: string;
  job: string;
  is_answered: boolean;
  answer: RequestAnswer | null;
  run: string | null;
  is_scheduler_running: boolean;
  cancelled: number;
}

/** What a start or a resume would catch up now; of a job in a blackout, what the end of it will. */
export interface Catchup {
  job: string;
  timezone: string;
  watermark: string | null;
  paused_at: string | null;
  blackout_until: string | null;
  backlog: string[];
  kept: number;
  skipped: number;
  fates: CatchupDecision[];
}

/** What would happen to a missed occurrence, or to a gap. */
export interface CatchupDecision {
  scheduled_for: string;
  local: string;
  through: string | null;
  occurrences: number;
  runs: boolean;
  what: string;
  reason: SkipReason | null;
  detail: string;
}

/** What a change of the clock does to an occurrence. */
export interface ClockNote {
  at: string;
  local: string;
  text: string;
}

/** Why a connected member accepts no new attempts. */
export type Closed = "cordoned" | "leaving" | "lease-too-long";

export interface CronFire {
  scheduled_for: string;
  local: string;
  offset: string;
  timezone: string;
  wait_seconds: number;
  note: string | null;
}

export interface CronPreview {
  expression: string;
  timezone: string;
  meaning: string;
  fields: Record<string, string>;
  dst_notes: ClockNote[];
  next: CronFire[];
}

export interface Day {
  succeeded: number;
  failed: number;
  skipped: number;
  cancelled: number;
  running: number;
  waiting: number;
  caught_up: number;
  backfilled: number;
  count: number;
  date: string;
  start: string;
  /** `forward` or `back` where the clocks change on this day. */
  dst: string | null;
  skips: Record<string, number>;
  /** Occurrences still to come; null where there are too many to count. */
  planned: number | null;
}

/** The occurrences of the last day, by state. */
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

/** The job's definition, without the values of its environment. */
export interface Definition {
  start: Record<string, string>[];
  stop: Record<string, string>[];
  restart: Record<string, string>[];
  after: AfterJobs | null;
  /** A JSON Schema of all parameters. */
  params: Record<string, unknown>;
  env: EnvVariable[];
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
  /** Which definition has the line: the one of the run, the current one, or both. */
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

/** An error or a warning about a job file. */
export interface DefinitionProblem {
  file: string | null;
  line: number | null;
  column: number | null;
  field: string | null;
  reason: string;
  hint: string | null;
  /** The whole message as one sentence. */
  text: string;
}

/** A period in which no scheduler ran. */
export interface Downtime {
  /** The first occurrence that was missed, or the end of planning. */
  at: string;
  /** When a scheduler recorded it; null: none runs now. */
  through: string | null;
  /** Jobs that missed an occurrence. */
  jobs: number;
}

export interface Durations {
  job: string;
  items: RunPoint[];
  percentiles: Percentiles;
  lateness: Percentiles;
  success_rate: number | null;
}

/** The name of an environment variable; its value is never shown. */
export interface EnvVariable {
  name: string;
  /** Where a secret is kept, as `source:name`. */
  from: string | null;
}

/** A coming day on which the calendars of jobs exclude occurrences. */
export interface ExcludedDay {
  date: string;
  /** What the calendars call the day. */
  names: string[];
  /** Jobs that would be due on it. */
  jobs: number;
  occurrences: number;
}

/** The occurrences of a range in which a calendar excludes all. */
export interface ExcludedRange {
  calendars: string[];
  occurrences: number;
  /** When the first of them is due instead; null: they do not run. */
  moved_to: string | null;
}

/** How full a lane of the local executor is. */
export interface ExecutorLane {
  under_way: number;
  size: number;
  waiting: number;
  /** How many may wait. */
  queue: number;
}

/** An executor of the scheduler, or one that only occurs in runs of the ledger. */
export interface ExecutorState {
  executor: string;
  is_known: boolean;
  /** An executor with members is degraded while one is away, and down while none accepts runs. */
  health: "healthy" | "degraded" | "down" | "unknown";
  /** Members that accept runs. */
  ready: number;
  active: number;
  runs: Run[];
  members: MemberState[];
  kind?: string | null;
  is_healthy?: boolean | null;
  running?: number | null;
  slots?: number | null;
  lanes?: Record<string, ExecutorLane> | null;
  keepers?: KeeperState[] | null;
}

export interface Executors {
  is_scheduler_running: boolean;
  items: ExecutorState[];
}

export interface Finding {
  kind: "lost" | "duplicate" | "miscounted" | "stray" | "stuck" | "wrong-count";
  /** Empty for a wrong count, which covers all jobs. */
  job: string;
  text: string;
}

/** A coming occurrence, and what would happen to it now. */
export interface Fire {
  job: string;
  job_name: string;
  action: "start" | "stop" | "restart";
  scheduled_for: string;
  /** When its run starts, by the job's jitter; null: at its time. */
  starts_at: string | null;
  /** Its time in its time zone. */
  local: string;
  /** When its run starts, in the same way. */
  local_start: string | null;
  offset: string;
  timezone: string;
  /** Until its run starts. */
  wait_seconds: number;
  what: string;
  reason: SkipReason | null;
  detail: string;
  /** The name of the day, if a calendar excludes it; null: none does. */
  day: string | null;
}

export interface ForgetBody {
  /** Also if the node is alive: it then ends its local runs. */
  force?: boolean;
}

export interface ForgottenNode {
  node: string;
  was_alive: boolean;
  is_scheduler_running: boolean;
  /** Runs that it had. */
  active: number;
  /** The first of these runs. */
  runs: NodeRun[];
}

export interface FutureCell {
  at: string;
  through: string;
  count: number;
}

/** Consecutive occurrences that were skipped together. */
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
  /** Pass it as `cursor` to get the next page; null on the last page. */
  next: string | null;
}

export interface Graph {
  job: string;
  nodes: GraphNode[];
  after: string[];
  before: string[];
}

/** A step of a job. */
export interface GraphNode {
  id: string;
  kind: string;
  command: string;
  depends: string[];
  handler: string | null;
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
  running: number;
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
  light: Light | null;
  late_since: string | null;
  next_at: string | null;
  next_starts_at: string | null;
  timezone: string;
  schedules: string[];
  watermark: string | null;
  active: number;
  waiting: number;
  last: RunSummary | null;
  skips: Record<string, number>;
  last_success_for: string | null;
  paused_at: string | null;
  pause_note: string;
  error: string;
  retired_at: string | null;
  active_runs: Run[];
  definition: Definition | null;
  /** Whether its file has errors now, so that the last good definition is in use. */
  is_stale: boolean;
  problems: DefinitionProblem[];
  is_scheduler_running: boolean;
}

export interface JobPage {
  items: ListedJob[];
  /** Pass it as `cursor` to get the next page; null on the last page. */
  next: string | null;
  total: number;
  statuses: Record<string, number>;
  tags: string[];
  problems: DefinitionProblem[];
}

/** The order of a list of jobs. */
export type JobSort = "job" | "state" | "next" | "last" | "duration";

/** The status of a job. */
export type JobStatus = "idle" | "running" | "paused" | "error" | "disabled" | "finished";

export interface JobUpcoming {
  timezone: string;
  items: NotedFire[];
  dst_notes: ClockNote[];
  meaning: string[];
}

/** A process that runs attempts for an executor. */
export interface KeeperState {
  name: string;
  pid: number | null;
  /** Time since it last answered. */
  silent_seconds: number;
  /** How often it was killed because it did not answer. */
  replaced: number;
  is_silent: boolean;
}

/** One job on the timeline, or a group of them. */
export interface Lane {
  /** Empty for a group. */
  job: string;
  group: LaneGroup | null;
  /** Why the job needs attention, or the worst of its group. */
  trouble: AttentionKind | null;
  name: string;
  description: string;
  tags: string[];
  status: JobStatus;
  timezone: string;
  next_at: string | null;
  watermark: string | null;
  undecided_since: string | null;
  marks: Mark[];
  cells: TimelineCell[];
  gaps: Gap[];
  future: string[];
  future_cells: FutureCell[];
  /** The last run that ended, if it failed; it may be outside the period. */
  failing_run: Mark | null;
}

/** Jobs that share a lane, or the heading above their lanes. */
export interface LaneGroup {
  /** The tag; empty: jobs without one, or all healthy jobs. */
  name: string;
  jobs: number;
  /** Jobs that need attention. */
  troubled: number;
  is_open: boolean;
}

/** Whether a job can be relied on now. */
export type Light = "on time" | "late" | "down";

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
  light: Light | null;
  late_since: string | null;
  next_at: string | null;
  next_starts_at: string | null;
  timezone: string;
  schedules: string[];
  watermark: string | null;
  active: number;
  waiting: number;
  last: RunSummary | null;
  skips: Record<string, number>;
  last_success_for: string | null;
  paused_at: string | null;
  pause_note: string;
  error: string;
  retired_at: string | null;
  /** The last runs, oldest first, if requested. */
  recent?: RunPoint[] | null;
}

export interface Load {
  minutes: MinuteLoad[];
  /** The end of the period that was counted; earlier than requested where too many starts are due. */
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
  /** The first 1,000 lines that match. */
  items: LogHit[];
  total: number;
  /** Less than `size` where the log is too long to search completely. */
  searched_bytes: number;
  size: number;
}

export interface LogText {
  run: string;
  attempt: number;
  step: string;
  text: string;
  offset: number;
  /** The number of the first line, if `lines` was set. */
  first_line: number | null;
  /** In bytes; where to continue reading. */
  next_offset: number;
  size: number;
  is_complete: boolean;
}

/** From which byte on a log was written at this time, until the next one. */
export interface LogTime {
  offset: number;
  at: string;
}

export interface LogTimes {
  /** By offset; exact to 0.1 s, or to a second in a log that was written for long. */
  items: LogTime[];
}

export type LossReason = "node-gone" | "lease-expired" | "not-confirmed" | "node-forgotten" | "not-started" | "keeper" | "process-gone" | "machine-restarted" | "no-heartbeat" | "member-lost" | "executor";

/** A run on the timeline. */
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

/** A member of an executor, as it was last seen. */
export interface MemberState {
  name: string;
  is_healthy: boolean;
  /** Whether it accepts new attempts; false while it is drained. */
  is_open: boolean;
  /** Why it accepts none. */
  closed: Closed | null;
  running: number | null;
  slots: number | null;
  labels: Record<string, string>;
  /** Whether the setting `fleet.expected` names it. */
  is_expected: boolean;
  /** The resources that jobs may request there. */
  offers: Record<string, string>;
  /** The resources in use by its runs. */
  used: Record<string, string>;
  version: string | null;
  address: string | null;
  seen_at: string | null;
  runs: MemberRun[];
}

/** Why a member of the fleet did not answer a question. */
export type MemberUnavailableReason = "away" | "unknown" | "no-answer" | "too-old" | "busy" | "fleet-unreachable" | "not-understood";

export interface MinuteLoad {
  at: string;
  count: number;
}

/** Which missed occurrences run. */
export type Missed = "none" | "first" | "latest" | "all";

export interface NewToken {
  id: string;
  name: string;
  role: string;
  created_at: string;
  created_by: string;
  expires_at: string | null;
  /** Shown only once. */
  token: string;
}

/** What can be done next about an occurrence. */
export interface NextStep {
  kind: NextStepKind;
  /** What it is for, such as `to run it now`. */
  text: string;
  /** For a terminal. */
  command: string;
}

export type NextStepKind = "run-occurrence" | "retry" | "resume" | "read-log" | "preview-catchup" | "show-job" | "forget-node" | "verify" | "name-folder";

export interface NodeRun {
  run: string;
  job: string;
  job_name: string;
  state: RunState;
  /** The state that the run gets when its node is given up: `retrying` or `lost`. */
  if_lost: RunState;
}

export interface NodeState {
  node: string;
  buckets: number;
  is_alive: boolean;
  is_here: boolean;
  lease_until: string | null;
  /** Until when the other nodes leave its runs alone although it is away. */
  awaited_until: string | null;
  /** Whether it was stopped cleanly and announced that it returns. */
  is_expected_back: boolean;
  /** Runs on its own machine, according to the ledger. */
  active: number;
  /** The first of these runs. */
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
  starts_at: string | null;
  local: string;
  local_start: string | null;
  offset: string;
  timezone: string;
  wait_seconds: number;
  what: string;
  reason: SkipReason | null;
  detail: string;
  day: string | null;
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
  /** The step that requested this run, or the constraint that was violated. */
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

/** An error as defined by RFC 9457; further members have its fields. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  [other: string]: unknown;
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
  starts_at: string | null;
  state: RunState;
  reason: SkipReason | null;
  trigger: Trigger;
  attempt: number;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  lateness_seconds: number | null;
  exit_code: number | null;
  detail: string;
  loss: LossReason | null;
  missed_by: Missed | null;
  other_run: string | null;
  executor: string;
  decided_at: string;
  decided_by: string;
  through: string | null;
  occurrences: number;
  request: string | null;
  params: unknown;
  resumed_from: string | null;
  waits: Wait[];
  running_steps: string[];
  parents: Parent[];
  job_name: string;
  timezone: string;
  blocked_by: Blocker | null;
}

export interface Queues {
  is_scheduler_running: boolean;
  items: Queue[];
}

/** A run that exists because of another; `trigger` says how. */
export interface RelatedRun {
  run: string;
  job: string;
  job_name: string;
  state: RunState;
  trigger: Trigger;
  scheduled_for: string;
}

export interface RemoveBody {
  /** Remove it even if it has runs, which are then lost. */
  force?: boolean;
}

/** What the scheduler did about a request; which fields are set follows from the request. */
export interface RequestAnswer {
  /** The ids of the runs that were cancelled. */
  cancelled?: string[] | null;
  /** How many runs a backfill has. */
  planned?: number | null;
  paused_at?: string | null;
  /** false: the job was not paused. */
  is_resumed?: boolean | null;
  /** A newer request of the same kind went first. */
  is_superseded?: boolean;
}

/** A durable request; the ledger keeps it until the scheduler answers. */
export interface RequestStatus {
  request: string;
  job: string;
  is_answered: boolean;
  answer: RequestAnswer | null;
  run: string | null;
  is_scheduler_running: boolean;
}

export interface ResumeBody {
  /** `all`, `latest`, `first`, `none`; null: the policy. */
  catchup?: string | null;
}

export interface RetryBody {
  from_failed?: boolean;
}

/** A policy of a job, and where it was set. */
export interface Rule {
  name: string;
  value: string;
  /** `file:line`, `default`, or a setting. */
  origin: string;
  /** null: no file sets it. */
  file: string | null;
  line: number | null;
}

export interface Rules {
  items: Rule[];
}

/** A row of the ledger: a run, or a skip with its reason. */
export interface Run {
  run: string;
  job: string;
  scheduled_for: string;
  starts_at: string | null;
  state: RunState;
  reason: SkipReason | null;
  trigger: Trigger;
  attempt: number;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  lateness_seconds: number | null;
  exit_code: number | null;
  detail: string;
  loss: LossReason | null;
  missed_by: Missed | null;
  other_run: string | null;
  executor: string;
  decided_at: string;
  decided_by: string;
  through: string | null;
  occurrences: number;
  request: string | null;
  params: unknown;
  resumed_from: string | null;
  waits: Wait[];
  running_steps: string[];
  parents: Parent[];
  job_name: string;
  timezone: string;
}

/** The job's definition when an attempt was launched, without values that may be secrets. */
export interface RunDefinition {
  run: string;
  job: string;
  attempt: number;
  digest: string;
  text: string;
  /** null: the job was deleted. */
  is_current: boolean | null;
  /** Every line of both definitions; empty where the job was deleted. */
  changes: DefinitionChange[];
}

export interface RunDetail {
  run: string;
  job: string;
  scheduled_for: string;
  starts_at: string | null;
  state: RunState;
  reason: SkipReason | null;
  trigger: Trigger;
  attempt: number;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  lateness_seconds: number | null;
  exit_code: number | null;
  detail: string;
  loss: LossReason | null;
  missed_by: Missed | null;
  other_run: string | null;
  executor: string;
  decided_at: string;
  decided_by: string;
  through: string | null;
  occurrences: number;
  request: string | null;
  params: unknown;
  resumed_from: string | null;
  waits: Wait[];
  running_steps: string[];
  parents: Parent[];
  job_name: string;
  timezone: string;
  steps: Step[];
  attempts: Attempt[];
  depends: Record<string, string[]>;
  logs: LogFile[];
  absent_logs: AbsentLog[];
  /** The digest of the job's definition; /runs/{run}/definition returns the text. */
  definition: string | null;
  /** null: the job was deleted, or its definition is unknown. */
  is_definition_current: boolean | null;
  can_cancel: boolean;
  can_retry: boolean;
  can_retry_failed: boolean;
  blocked_by: Blocker[];
  /** Retries of this run, sub-runs of its steps, and runs of jobs that follow it. */
  children: RelatedRun[];
}

export interface RunPage {
  items: Run[];
  /** Pass it as `cursor` to get the next page; null on the last page. */
  next: string | null;
  /** By duration or lateness: how many of the newest matching entries were compared; null in order of time. */
  compared?: number | null;
}

/** A run as a point of a chart. */
export interface RunPoint {
  run: string;
  scheduled_for: string;
  state: RunState;
  trigger: Trigger;
  duration_seconds: number | null;
  lateness_seconds: number | null;
}

/** The order of a list of runs. */
export type RunSort = "due" | "duration" | "lateness";

export type RunState = "planned" | "waiting" | "launching" | "running" | "retrying" | "succeeded" | "failed" | "timed_out" | "cancelled" | "lost" | "skipped";

/** A row of the ledger: a run, or a skip with its reason. */
export interface RunSummary {
  run: string;
  job: string;
  scheduled_for: string;
  /** When it starts, or was to start, by the job's jitter; null: at its time. */
  starts_at: string | null;
  state: RunState;
  reason: SkipReason | null;
  trigger: Trigger;
  attempt: number;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  /** Time between the occurrence and its first start, without jitter; null for a requested run. */
  lateness_seconds: number | null;
  exit_code: number | null;
  detail: string;
  /** Why the newest attempt was lost; null if it was not lost. */
  loss: LossReason | null;
  /** The policy that kept or skipped a missed occurrence; null if it was not missed. */
  missed_by: Missed | null;
  /** The run that was in its way, or that replaced it. */
  other_run: string | null;
  executor: string;
  decided_at: string;
  decided_by: string;
  /** The last occurrence of a gap; null for a single one. */
  through: string | null;
  occurrences: number;
  request: string | null;
  params: unknown;
  resumed_from: string | null;
  /** What the run waited for, in order. */
  waits: Wait[];
  /** The steps that run now. */
  running_steps: string[];
  /** The runs that caused this one; `trigger` says how. */
  parents: Parent[];
}

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
export type SkipReason = "overlap" | "superseded" | "missed" | "late" | "paused" | "already-succeeded" | "condition" | "cap" | "disabled" | "no-executor" | "saturated" | "calendar";

export interface Status {
  is_scheduler_running: boolean;
  /** The scheduler's own report; null if there is none to ask. */
  status: Record<string, unknown> | null;
}

export interface Step {
  name: string;
  item_of: string | null;
  item: string | null;
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
  executor: string | null;
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
  env: EnvVariable[];
  timeout_seconds: number | null;
  max_retries: number;
  output: string | null;
}

export interface StepHistory {
  job: string;
  timezone: string;
  /** Oldest first. */
  runs: RunPoint[];
  steps: StepRow[];
  /** Of the last 500 runs. */
  weekdays: WeekdayFigures[];
}

/** One step in the last runs of its job. */
export interface StepRow {
  name: string;
  /** By run, oldest first; null where the run did not reach the step, or the ledger has no record of it. */
  states: (string | null)[];
  failures: number;
  /** Tries beyond the first, of all runs together. */
  retries: number;
}

export interface Timeline {
  now: string;
  from: string;
  to: string;
  /** The time of the oldest row in the ledger. */
  since: string | null;
  /** Jobs that match. */
  jobs: number;
  /** Lanes, with the headings of groups. */
  total: number;
  offset: number;
  lanes: Lane[];
  downtimes: Downtime[];
}

/** The runs of a lane in a short period, where there are too many to list. */
export interface TimelineCell {
  succeeded: number;
  failed: number;
  skipped: number;
  cancelled: number;
  running: number;
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

export type TimelineGroup = "none" | "tag" | "health";

export type TimelineSort = "worst" | "name" | "tag" | "next";

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
export type Trigger = "scheduler" | "catchup" | "backfill" | "manual" | "api" | "webhook" | "retry" | "chained" | "subjob" | "item";

export interface TriggerBody {
  params?: Record<string, string>;
  /** `manual` if a person requests the run. */
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

/** Whether the ledger has every occurrence exactly once. */
export interface Verification {
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
  /** Hourly counts that differ from the entries of the ledger. */
  wrong_counts: number;
  findings: Finding[];
}

export interface Wait {
  kind: WaitKind;
  since: string;
  /** The queue or the executor, or how the job was held. */
  name: string;
  /** The runs that held the places. */
  runs: string[];
  /** The jobs that had not succeeded yet. */
  jobs: string[];
  detail: string;
  /** Places in the queue. */
  limit: number | null;
}

export type WaitKind = "overlap" | "queue" | "after" | "executor" | "rate" | "hold";

export interface WeekdayFigures {
  /** 0 is Monday, in the job's time zone. */
  weekday: number;
  succeeded: number;
  failed: number;
}

/** Why an occurrence ran, was skipped, or waits. */
export interface Why {
  job: string;
  scheduled_for: string;
  /** When its run starts, or was to start, by the job's jitter; null: at its time. */
  starts_at: string | null;
  local: string;
  timezone: string;
  /** A state of a run, or `due`, `excluded`, `undecided`, `missing`, `unknown`, `no occurrence`. */
  outcome: string;
  reason: SkipReason | null;
  verdict: string;
  sentences: string[];
  next_steps: NextStep[];
  run: RunSummary | null;
  /** The run that was in the way, or that replaced this one. */
  other_run: RunSummary | null;
  policy: string | null;
  /** Where the policy was set, as `file:line`. */
  policy_from: string | null;
  /** null: no file sets it. */
  policy_file: string | null;
  policy_line: number | null;
  advice: string | null;
  /** Lines of the job file that would have let it run; empty where none would. */
  lines: string[];
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
