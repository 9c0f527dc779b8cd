/** Which dialog is open: any part of the page may open one, one component shows it. */

import { signal } from "@preact/signals";
import type { BulkAction } from "./api/types";

export type Action = "trigger" | "pause" | "resume" | "backfill" | "cancel";

export const askedAction = signal<{ action: Action; job: string } | null>(null);

export type { BulkAction } from "./api/types";

/** One action on many: jobs or runs, or what jobs did in a period. */
export interface BulkRequest {
  action: BulkAction;
  jobs?: readonly string[];
  runs?: readonly string[];
  from?: string;
  to?: string;
}

export const askedBulk = signal<BulkRequest | null>(null);
