/** Lists that come in pages: more of them on demand, the first one fresh. */

import { useEffect, useState } from "preact/hooks";
import { get, withQuery, type Query } from "./client";
import type { LiveEvent, Page } from "./types";
import { useApi } from "./use";

export interface Pages<T, P extends Page<T>> {
  first: P | undefined;
  items: T[];
  hasMore: boolean;
  isLoading: boolean;
  error: Error | undefined;
  more: () => void;
  reload: () => void;
}

export function usePages<T, P extends Page<T> = Page<T>>(target: string, query: Query, concerns?: (event: LiveEvent) => boolean): Pages<T, P> {
  const address = withQuery(target, query);
  const first = useApi<P>(address, concerns);
  const [rest, setRest] = useState<{ address: string; items: T[]; next: string | null } | null>(null);
  const [isAsking, setAsking] = useState(false);
  const [problem, setProblem] = useState<Error>();
  useEffect(() => setRest(null), [address]);
  const later = rest?.address === address ? rest : null;
  const next = later ? later.next : (first.data?.next ?? null);

  async function more() {
    if (!next || isAsking) return;
    setAsking(true);
    setProblem(undefined);
    try {
      const page = await get<P>(withQuery(target, { ...query, cursor: next }));
      setRest({ address, items: [...(later?.items ?? []), ...page.items], next: page.next });
    } catch (error) {
      setProblem(error as Error);
    }
    setAsking(false);
  }
  return {
    first: first.data,
    items: [...(first.data?.items ?? []), ...(later?.items ?? [])],
    hasMore: next !== null,
    isLoading: first.isLoading || isAsking,
    error: problem ?? first.error,
    more,
    reload: first.reload,
  };
}
