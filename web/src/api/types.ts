/** The API's types under the names that the page uses, narrowed where the API leaves them open. */

import type * as api from "./schema";

export type {
  RequestStatus,
  Attempt,
  AttemptStep,
  Attention,
  AttentionAction,
  AttentionItem,
  AttentionKind,
  Backfill,
  BackfillProgress,
  Blackout,
  BlackoutChange,
  Blackouts,
  Bulk,
  BulkAction,
  BulkItem,
  BulkObstacle,
  Calendar,
  CancelledBackfill,
  TimelineCell,
  ClockNote,
  CronPreview,
  Day,
  DefinitionChange,
  DefinitionProblem,
  ExcludedDay,
  Durations,
  CatchupDecision,
  Fire,
  Graph,
  Hour,
  JobPage,
  JobStatus,
  JobUpcoming,
  Light,
  Lane,
  LaneGroup,
  Load,
  LogFile,
  LogHit,
  LogHits,
  LogTime,
  LogTimes,
  LossReason,
  Mark,
  NewToken,
  NextStepKind,
  Overview,
  Percentiles,
  RunPoint,
  Queue,
  Timeline,
  TimelineGroup,
  TimelineSort,
  Rule,
  Run,
  RunPage,
  RunSummary,
  RunDefinition,
  RunDetail,
  RunState,
  SkipReason,
  StepDefinition,
  StepHistory,
  StepRow,
  WeekdayFigures,
  TokenState,
  Trigger,
  Why,
} from "./schema";
export type {
  Catchup as CatchupPreview,
  Gap,
  ListedJob as Job,
  LogText as LogChunk,
  MemberState as Member,
  GraphNode,
  NodeState as Node,
  SettingLine as Setting,
  Step as StepState,
} from "./schema";

export type Instant = string;
export type Role = "viewer" | "operator" | "editor" | "admin";

export interface Page<T> {
  items: T[];
  next: string | null;
}

export type Session = Omit<api.SessionState, "role"> & { role: Role };

/** The number of occurrences of a period by outcome. */
export type Outcomes = Omit<api.Hour, "at">;

export type Counts<K extends string = string> = Partial<Record<K, number>>;

/** What a JSON Schema of a parameter may say. */
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

export type Definition = Omit<api.Definition, "params"> & { params: Params };
export type JobDetail = Omit<api.JobDetail, "definition"> & { definition: Definition | null };

/** What only a running scheduler reports. */
export interface Live<T> {
  is_scheduler_running: boolean;
  items: T[];
}

export type Executor = api.ExecutorState;

export type AuditLine = api.AuditLine;
export type AuditPage = api.AuditPage;

/** An event of the stream, which the OpenAPI document does not describe. */
export interface LiveEvent {
  id: number;
  type: string;
  at: Instant;
  job?: string;
  run?: string;
  state?: api.RunState;
}
