/** A table whose columns can be chosen and sorted; both choices are in the address, so that a view can be shared. */

import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { setQuery } from "../state/route";
import { zoneChoice } from "../state/zone";
import { Icon } from "./icon";
import { Select, SelectAll } from "./selection";
import { isAtLeast } from "./width";

export interface Column<T> {
  /** As the address has it. */
  id: string;
  name: string;
  cell: (item: T) => ComponentChildren;
  /** The order of the API that this column stands for; its first click gives the direction that the API begins with. */
  sort?: string;
  /** Whether that direction puts the greatest first. */
  isDescending?: boolean;
  isRight?: boolean;
  /** From which width of the screen on it is shown unless columns are chosen. */
  from?: "roomy" | "wide" | "widest" | "huge" | "never";
  class?: string;
  /** The cell says what it is, or is only a button. */
  isNameless?: boolean;
}

interface Sorting {
  sort: string;
  isReversed: boolean;
}

export function sortingOf(query: URLSearchParams): Sorting {
  return { sort: query.get("sort") ?? "", isReversed: query.get("reverse") === "true" };
}

function chosenOf(query: URLSearchParams): readonly string[] | null {
  return query.get("columns")?.split(",") ?? null;
}

interface Props<T> {
  items: T[];
  columns: readonly Column<T>[];
  query: URLSearchParams;
  caption: string;
  idOf: (item: T) => string;
  /** The order without `sort` in the address. */
  order: string;
  /** Whether the lines are those of the question before. */
  isOld?: boolean;
  /** What a line is, for tables in which lines can be selected. */
  selects?: string;
}

export function ColumnTable<T>({ items, columns, query, caption, idOf, order, selects, isOld = false }: Props<T>) {
  const chosen = query.get("columns");
  const shown = useMemo(() => columns.filter((column) => isShown(column, chosenOf(query))), [columns, chosen, ...Object.values(rooms).map((room) => room.value)]);
  const lines = useStaged(items, query.toString(), isOld);
  return (
    <div class={isOld ? "table-scroll is-old" : "table-scroll"} tabIndex={0} role="group" aria-label="Table" aria-busy={isOld}>
      <table>
        <caption class="hidden-text">{caption}</caption>
        <thead>
          <tr>
            {selects && <SelectAll ids={items.map(idOf)} what={selects} />}
            {shown.map((column) => (
              <Heading key={column.id} column={column as Column<unknown>} sorting={sortingOf(query)} order={order} />
            ))}
          </tr>
        </thead>
        <tbody>
          {lines.map((item) => (
            <Row key={idOf(item)} item={item} id={idOf(item)} columns={shown as readonly Column<unknown>[]} isSelectable={!!selects} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** No line is lower, and above the first one there is at least this. */
const LINE_PX = 28;
const ABOVE_PX = 140;

/** The answer to another question comes in two frames: what fits on the screen, then what is below it. */
function useStaged<T>(items: T[], question: string, isOld: boolean): T[] {
  const [whole, setWhole] = useState(question);
  const answered = isOld ? whole : question;
  useEffect(() => setWhole(answered), [answered]);
  return whole === answered ? items : items.slice(0, Math.ceil((innerHeight - ABOVE_PX) / LINE_PX));
}

const classOf = (column: Column<unknown>) => [column.isRight && "right", column.class].filter(Boolean).join(" ") || undefined;

interface RowProps {
  item: unknown;
  id: string;
  columns: readonly Column<unknown>[];
  isSelectable: boolean;
}

function Row({ item, id, columns, isSelectable }: RowProps) {
  // What reads a signal is drawn again only when its signals or its line change: an answer with one changed line draws one.
  zoneChoice.value;
  return (
    <tr>
      {isSelectable && <Select id={id} />}
      {columns.map((column) => (
        <td key={column.id} class={classOf(column)}>
          {column.cell(item)}
        </td>
      ))}
    </tr>
  );
}

function Heading({ column, sorting, order }: { column: Column<unknown>; sorting: Sorting; order: string }) {
  const isSorted = column.sort !== undefined && (sorting.sort || order) === column.sort;
  const isDescending = !!column.isDescending !== sorting.isReversed;
  const sort = () => setQuery({ sort: column.sort === order ? null : (column.sort ?? null), reverse: isSorted && !sorting.isReversed ? "true" : null });
  return (
    <th scope="col" class={classOf(column)} aria-sort={isSorted ? (isDescending ? "descending" : "ascending") : undefined}>
      {column.sort ? (
        <button type="button" class="sort" onClick={sort}>
          {isSorted && column.isRight && <Arrow isDescending={isDescending} />}
          {column.name}
          {isSorted && !column.isRight && <Arrow isDescending={isDescending} />}
        </button>
      ) : column.isNameless ? (
        <span class="hidden-text">{column.name}</span>
      ) : (
        column.name
      )}
    </th>
  );
}

function Arrow({ isDescending }: { isDescending: boolean }) {
  return (
    <span class="sort-arrow" aria-hidden="true">
      {isDescending ? "↓" : "↑"}
    </span>
  );
}

/** Which columns the table has; the first one stays. */
export function ColumnPicker<T>({ columns, query }: { columns: readonly Column<T>[]; query: URLSearchParams }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const [isOpen, setOpen] = useState(false);
  const chosen = chosenOf(query);
  const toggle = (id: string, isOn: boolean) => {
    const next = columns.filter((column) => (column.id === id ? isOn : isShown(column, chosen))).map((column) => column.id);
    setQuery({ columns: next.join(",") });
  };
  const close = () => menu.current?.removeAttribute("open");
  useEffect(() => {
    const closeOutside = (event: Event) => !menu.current?.contains(event.target as Node) && close();
    document.addEventListener("pointerdown", closeOutside);
    return () => document.removeEventListener("pointerdown", closeOutside);
  }, []);
  return (
    <details
      ref={menu}
      class="menu"
      onToggle={(event) => setOpen(event.currentTarget.open)}
      onKeyDown={(event) => {
        if (event.key !== "Escape") return;
        close();
        menu.current?.querySelector("summary")?.focus();
      }}
      onFocusOut={(event) => event.relatedTarget && !menu.current?.contains(event.relatedTarget as Node) && close()}
    >
      <summary class="button">
        <Icon name="queues" /> Columns
      </summary>
      {isOpen && (
        <fieldset class="menu-panel">
          <legend class="hidden-text">Columns</legend>
          {columns.slice(1).map((column) => (
            <label key={column.id} class="row">
              <input type="checkbox" checked={isShown(column, chosen)} onChange={(event) => toggle(column.id, event.currentTarget.checked)} />
              {column.name}
            </label>
          ))}
          <button type="button" class="button is-small" disabled={!chosen} onClick={() => setQuery({ columns: null })}>
            Default columns
          </button>
        </fieldset>
      )}
    </details>
  );
}

/** The widths of the screen from which on a column is shown. */
const WIDTHS = { roomy: 561, wide: 901, widest: 1201, huge: 1800 } as const;

/** Whether the screen is as wide as each of them. */
const rooms = Object.fromEntries(Object.entries(WIDTHS).map(([name, width]) => [name, isAtLeast(width)])) as Record<keyof typeof WIDTHS, Signal<boolean>>;

function isShown<T>(column: Column<T>, chosen: readonly string[] | null): boolean {
  if (chosen) return chosen.includes(column.id);
  return column.from !== "never" && (!column.from || rooms[column.from].value);
}
