/** How each outcome is shown: a colour, a shape and a word, so that no one of them is needed alone. */

import type { JobStatus, Light, RunState, Trigger } from "../api/types";

export type Shape = "dot" | "cross" | "clock" | "diamond" | "dash" | "slash" | "play" | "pause" | "ring" | "again";

export interface Look {
  word: string;
  color: string;
  shape: Shape;
}

export const STATES: Record<RunState, Look> = {
  succeeded: { word: "Succeeded", color: "succeeded", shape: "dot" },
  failed: { word: "Failed", color: "failed", shape: "cross" },
  timed_out: { word: "Timed out", color: "timed-out", shape: "clock" },
  lost: { word: "Lost", color: "lost", shape: "diamond" },
  cancelled: { word: "Cancelled", color: "cancelled", shape: "dash" },
  skipped: { word: "Skipped", color: "skipped", shape: "slash" },
  running: { word: "Running", color: "running", shape: "play" },
  launching: { word: "Launching", color: "running", shape: "play" },
  retrying: { word: "Retrying", color: "timed-out", shape: "again" },
  waiting: { word: "Waiting", color: "waiting", shape: "pause" },
  planned: { word: "Planned", color: "planned", shape: "ring" },
};

const STEP_WORDS: Record<string, Look> = {
  pending: { word: "Not started", color: "planned", shape: "ring" },
  aborted: { word: "Cancelled", color: "cancelled", shape: "dash" },
};

/** Steps have states of their own names; what is not known is shown as its word. */
export function lookOf(state: string): Look {
  return STATES[state as RunState] ?? STEP_WORDS[state] ?? { word: state, color: "planned", shape: "ring" };
}

export const JOB_STATES: Record<JobStatus, Look> = {
  idle: { word: "Idle", color: "planned", shape: "ring" },
  running: { word: "Running", color: "running", shape: "play" },
  paused: { word: "Paused", color: "waiting", shape: "pause" },
  error: { word: "Error", color: "failed", shape: "cross" },
  disabled: { word: "Disabled", color: "cancelled", shape: "dash" },
  finished: { word: "Finished", color: "cancelled", shape: "dot" },
};

export const LIGHTS: Record<Light, Look> = {
  "on time": { word: "On time", color: "succeeded", shape: "dot" },
  late: { word: "Late", color: "timed-out", shape: "clock" },
  down: { word: "Down", color: "failed", shape: "cross" },
};

export const TRIGGERS: Record<Trigger, string> = {
  scheduler: "Scheduled",
  catchup: "Catch-up",
  backfill: "Backfill",
  manual: "Manual",
  api: "API",
  webhook: "Webhook",
  retry: "Retry",
  chained: "Chained",
  subjob: "Sub-job",
  item: "Item",
};

export const REASONS: Record<string, string> = {
  overlap: "another run was still active",
  superseded: "a newer occurrence replaced it",
  missed: "the scheduler was not running when it was due",
  late: "it was later than the job's maximum delay",
  paused: "the job was paused",
  "already-succeeded": "a run had succeeded since the last occurrence",
  condition: "a condition did not hold",
  cap: "the backlog was full",
  disabled: "the job was disabled",
  "no-executor": "no executor was available",
  saturated: "all executor slots were in use",
  calendar: "the calendar of the job excludes the day",
};

export const OPEN_STATES: readonly RunState[] = ["planned", "waiting", "launching", "running", "retrying"];
export const ACTIVE_STATES: readonly RunState[] = ["launching", "running", "retrying"];
export const BAD_STATES: readonly RunState[] = ["failed", "timed_out", "lost"];
