/** What happens while somebody looks: the live feed, shared by all that is on the page. */

import { signal } from "@preact/signals";
import type { LiveEvent } from "./types";

type Listener = (events: LiveEvent[]) => void;

/** Whether the page hears of changes as they happen. */
export const isLive = signal(false);

const GATHER_MS = 250;
const KINDS = ["run", "gap", "job", "node", "time", "alarm"];

const listeners = new Set<Listener>();
let source: EventSource | null = null;
let hasBeenOpen = false;
let gathered: LiveEvent[] = [];
let timer = 0;

/** Be told of changes, gathered for a quarter of a second: a storm of runs redraws the page four times a second. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  if (!source) connect();
  return () => listeners.delete(listener);
}

export function disconnect(): void {
  source?.close();
  source = null;
  isLive.value = false;
}

function connect(): void {
  source = new EventSource("/api/v1/events");
  source.onopen = () => {
    // What happened while the line was down is not known: everything shown is asked for again. Before it was first
    // open only what changes all the time may have changed.
    if (isLive.value === false) tell({ id: 0, type: hasBeenOpen ? "reset" : "begin", at: new Date().toISOString() });
    isLive.value = hasBeenOpen = true;
  };
  source.onerror = () => {
    isLive.value = false;
    if (source?.readyState === EventSource.CLOSED) {
      source = null;
      window.setTimeout(() => listeners.size && !source && connect(), 5_000);
    }
  };
  for (const kind of [...KINDS, "reset"]) source.addEventListener(kind, (event) => receive(kind, event));
}

function receive(kind: string, event: MessageEvent<string>): void {
  try {
    const said = JSON.parse(event.data || "{}") as Partial<LiveEvent>;
    tell({ id: 0, at: "", ...said, type: said.type ?? kind });
  } catch {
    tell({ id: 0, type: "reset", at: "" });
  }
}

function tell(event: LiveEvent): void {
  gathered.push(event);
  timer ||= window.setTimeout(() => {
    const batch = gathered;
    gathered = [];
    timer = 0;
    for (const listener of listeners) listener(batch);
  }, GATHER_MS);
}
