/** The changes of an answer since the one that the page has, as the server's `delta.py` writes them. */

export interface Delta {
  value?: unknown;
  fields?: Record<string, Delta>;
  removed?: string[];
  items?: Piece[];
}

interface Piece extends Delta {
  /** Items of the old list: the first, and how many. */
  copy?: [number, number];
  /** Which item of the old list has changed. */
  from?: number;
}

/** The new value. Parts that did not change are the same objects as before. */
export function apply(old: unknown, delta: Delta): unknown {
  if ("value" in delta) return delta.value;
  if (delta.items) return delta.items.flatMap((piece) => itemsOf(old as unknown[], piece));
  const found = { ...(old as Record<string, unknown>) };
  for (const name of delta.removed ?? []) delete found[name];
  for (const [name, one] of Object.entries(delta.fields ?? {})) found[name] = apply(found[name], one);
  return found;
}

function itemsOf(old: unknown[], piece: Piece): unknown[] {
  if (!piece.copy) return [apply(piece.from === undefined ? undefined : old[piece.from], piece)];
  const [first, count] = piece.copy;
  if (first + count > old.length) throw new RangeError("the changes are not those of this answer");
  return old.slice(first, first + count);
}
