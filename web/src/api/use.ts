/** Data for a component: read once, cached for the way back, read again when something it shows has changed. */

import { useCallback, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Asker } from "./asker";
import { getAgain, lastAnswer } from "./client";
import { listen } from "./events";
import { isOutage } from "./problem";
import type { LiveEvent } from "./types";

export interface Loaded<T> {
  data: T | undefined;
  error: Error | undefined;
  isLoading: boolean;
  reload: () => void;
}

function known<T>(target: string | null): { data?: T } {
  const data = target === null ? undefined : lastAnswer<T>(target);
  return data === undefined ? {} : { data };
}

/** `concerns` says whether an event may have changed the result; without it the result does not change. */
export function useApi<T>(target: string | null, concerns?: (event: LiveEvent) => boolean): Loaded<T> {
  const [state, setState] = useState<{ target: string | null; data?: T; error?: Error; isLoading: boolean }>(() => ({
    target,
    ...known<T>(target),
    isLoading: target !== null,
  }));
  const judge = useRef(concerns);
  const asker = useRef<Asker<T> | null>(null);
  judge.current = concerns;
  const reload = useCallback(() => asker.current?.ask(), []);

  // Before the frame is painted: an answer that was asked for ahead is in the same one.
  useLayoutEffect(() => {
    if (target === null) {
      setState({ target, isLoading: false });
      return;
    }
    const made = new Asker<T>((signal) => getAgain<T>(target, signal), {
      onAsk: () =>
        setState((old) => {
          if (old.target !== target) return { target, ...known<T>(target), isLoading: true };
          return { ...old, isLoading: true };
        }),
      onAnswer: (data) => setState({ target, data, isLoading: false }),
      onProblem: (error) => setState((old) => ({ ...old, error, isLoading: false })),
    });
    asker.current = made;
    made.ask();
    const unlisten = listen((events) => {
      const matters = events.some((event) => event.type === "reset" || (judge.current && (event.type === "begin" || judge.current(event))));
      if (matters) made.changed();
    });
    return () => {
      unlisten();
      made.stop();
      asker.current = null;
    };
  }, [target]);

  const current = state.target === target ? state : { isLoading: true };
  const { data, error } = current as typeof state;
  return {
    data,
    error: data !== undefined && isOutage(error) ? undefined : error,
    isLoading: current.isLoading,
    reload,
  };
}
