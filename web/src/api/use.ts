/** Data for a component: asked for once, kept for the way back, asked for again when something it shows changed. */

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get } from "./client";
import { listen } from "./events";
import type { LiveEvent } from "./types";

export interface Loaded<T> {
  data: T | undefined;
  error: Error | undefined;
  isLoading: boolean;
  reload: () => void;
}

const KEPT_MAX = 60;
const kept = new Map<string, unknown>();

function keep(target: string, data: unknown): void {
  kept.delete(target);
  kept.set(target, data);
  if (kept.size > KEPT_MAX) kept.delete(kept.keys().next().value as string);
}

/** `concerns` says whether an event may have changed the answer; without it the answer is taken to be lasting. */
export function useApi<T>(target: string | null, concerns?: (event: LiveEvent) => boolean): Loaded<T> {
  const [state, setState] = useState<{ target: string | null; data?: T; error?: Error; isLoading: boolean }>(() => ({
    target,
    ...(target && kept.has(target) ? { data: kept.get(target) as T } : {}),
    isLoading: target !== null,
  }));
  const [turn, setTurn] = useState(0);
  const judge = useRef(concerns);
  const took = useRef(0);
  judge.current = concerns;
  const reload = useCallback(() => setTurn((number) => number + 1), []);

  useEffect(() => {
    if (target === null) {
      setState({ target, isLoading: false });
      return;
    }
    const abort = new AbortController();
    setState((old) => {
      const data = old.target === target ? old.data : (kept.get(target) as T | undefined);
      return { target, ...(data === undefined ? {} : { data }), isLoading: true };
    });
    const asked = performance.now();
    get<T>(target, abort.signal).then(
      (data) => {
        took.current = performance.now() - asked;
        keep(target, data);
        setState({ target, data, isLoading: false });
      },
      (error: Error) => {
        if (!abort.signal.aborted) setState((old) => ({ ...old, error, isLoading: false }));
      },
    );
    return () => abort.abort();
  }, [target, turn]);

  useEffect(() => {
    let waiting = 0;
    const stop = listen((events) => {
      const matters = events.some((event) => event.type === "reset" || (judge.current && (event.type === "begin" || judge.current(event))));
      // At most once a second, and never so often that answering takes more than a fifth of the server's time.
      if (matters) waiting ||= window.setTimeout(() => ((waiting = 0), reload()), Math.max(1_000, 5 * took.current));
    });
    return () => (stop(), clearTimeout(waiting));
  }, [reload]);

  const current = state.target === target ? state : { isLoading: true };
  return {
    data: (current as typeof state).data,
    error: (current as typeof state).error,
    isLoading: current.isLoading,
    reload,
  };
}
