/** Which dialog is asked for; any part of the page may ask, one place shows it. */

import { signal } from "@preact/signals";

export type Action = "trigger" | "pause" | "resume" | "backfill" | "cancel";

export const askedAction = signal<{ action: Action; job: string } | null>(null);
