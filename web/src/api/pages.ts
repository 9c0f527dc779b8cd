/** Lists that come in pages: more of them on demand, the first one fresh, and nothing lost in between. */

import { useEffect, useRef, useState } from "preact/hooks";
import { get, withQuery, type Query } from "./client";
import type { LiveEvent, Page } from "./types";
import { useApi } from "./use";

export interface Pages<T, P extends Page<T>> {
  first: P | undefined;
  /** Whether `first` and `items` are still those of the question before. */
  isOld: boolean;
  items: T[];
  hasMore: boolean;
  isLoading: boolean;
  error: Error | undefined;
  more: () => void;
  reload: () => void;
}

/** `isSteady`: until a question is answered, the answer to the one before stays; a list that went and came back with each letter would flicker. */
export function usePages<T, P extends Page<T> = Page<T>>(target: string, query: Query, concerns?: (event: LiveEvent) => boolean, isSteady = false): Pages<T, P> {
  const address = withQuery(target, query);
  const asked = useApi<P>(address, concerns);
  const before = useRef<P>();
  if (asked.data !== undefined) before.current = asked.data;
  const isOld = isSteady && asked.data === undefined && asked.error === undefined && before.current !== undefined;
  const first = isOld ? { ...asked, data: before.current } : asked;
  const [rest, setRest] = useState<{ address: string; items: T[]; next: string | null } | null>(null);
  const head = first.data?.items ?? [];
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState<Error>();
  const tail = !isOld && rest?.address === address ? tailBehind(rest.items, head) : null;
  // So much is new that the pages no longer meet: what was loaded further down is read again.
  const isApart = !isOld && rest !== null && tail === null && first.data !== undefined;
  useEffect(() => {
    if (isApart) setRest(null);
  }, [isApart]);
  const later = tail && rest ? rest : null;
  const next = isOld ? null : later ? later.next : (first.data?.next ?? null);

  async function more() {
    if (!next || isAsking) return;
    setAsking(true);
    setProblem(undefined);
    try {
      const page = await get<P>(withQuery(target, { ...query, cursor: next }));
      setRest({ address, items: [...(later ? later.items : head), ...page.items], next: page.next });
    } catch (error) {
      setProblem(error as Error);
    }
    setAsking(false);
  }
  return {
    first: first.data,
    isOld,
    items: [...head, ...(tail ?? [])],
    hasMore: next !== null,
    isLoading: first.isLoading || isAsking,
    error: problem ?? first.error,
    more,
    reload: first.reload,
  };
}

/** The part of a loaded list after its current first page; null: they do not meet. */
export function tailBehind<T>(whole: T[], head: T[]): T[] | null {
  const last = head.at(-1);
  const place = last === undefined ? -1 : whole.findIndex((item) => nameOf(item) === nameOf(last));
  return place < 0 ? null : whole.slice(place + 1);
}

function nameOf(item: unknown): unknown {
  const { run, number, job } = item as { run?: string; number?: number; job?: string };
  return run ?? number ?? job;
}
