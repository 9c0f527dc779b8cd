/** The live feed of events, shared by all parts of the page. */

import { forgetAhead } from "./ahead";
import { feedClosed, feedOpened, forget, isFeedOpen } from "./connection";
import type { LiveEvent } from "./types";

type Listener = (events: LiveEvent[]) => void;

const GATHER_MS = 250;
const KINDS = ["run", "gap", "job", "node", "time", "alarm"];
/** The server sends a beat every 15 seconds: after this long without one the connection is dead, whatever the browser reports. */
const SILENCE_MS = 40_000;
const AGAIN_MS = 3_000;
/** Events for a page that is not looked at are kept up to this number; after more, it reads everything again. */
const GATHERED_MAX = 500;

const listeners = new Set<Listener>();
let source: EventSource | null = null;
let hasBeenOpen = false;
let gathered: LiveEvent[] = [];
let timer = 0;
let silence = 0;

/** Subscribe to events, batched for a quarter of a second: a storm of runs redraws the page four times a second. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  document.addEventListener("visibilitychange", tellSoon);
  if (!source) connect();
  return () => listeners.delete(listener);
}

export function disconnect(): void {
  close();
  forget();
}

function close(): void {
  clearTimeout(silence);
  source?.close();
  source = null;
}

function connect(): void {
  const made = new EventSource("/api/v1/events");
  source = made;
  made.onopen = () => {
    // Events during the outage are unknown: everything shown is read again. Before it was first
    // open only what changes all the time may have changed.
    if (!isFeedOpen.value) tell({ id: 0, type: hasBeenOpen ? "reset" : "begin", at: new Date().toISOString() });
    hasBeenOpen = true;
    feedOpened();
    heard();
  };
  made.onerror = () => {
    feedClosed();
    // A response that is not a stream, such as a proxy's "bad gateway", ends the browser's own retries.
    if (made.readyState === EventSource.CLOSED) again();
  };
  for (const kind of [...KINDS, "reset"]) made.addEventListener(kind, (event) => (heard(), receive(kind, event)));
  made.addEventListener("beat", heard);
}

function again(): void {
  close();
  window.setTimeout(() => listeners.size && !source && connect(), AGAIN_MS);
}

function heard(): void {
  clearTimeout(silence);
  silence = window.setTimeout(() => (feedClosed(), again()), SILENCE_MS);
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
  if (gathered.length > GATHERED_MAX) gathered = [{ id: 0, type: "reset", at: "" }];
  tellSoon();
}

/** A page that is not looked at learns what happened when it is looked at again: until then it asks for nothing. */
function tellSoon(): void {
  if (document.hidden || !gathered.length) return;
  timer ||= window.setTimeout(() => {
    const batch = gathered;
    // What was asked for before they happened, and is shown after they were told, would stay old.
    if (batch.some((event) => event.type !== "begin")) forgetAhead();
    gathered = [];
    timer = 0;
    for (const listener of listeners) listener(batch);
  }, GATHER_MS);
}
