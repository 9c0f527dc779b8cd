/** The output of a step: live, searchable, in its colours. */

import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { downloadAddress } from "../api/client";
import type { LogHits } from "../api/types";
import { keptSignal } from "../state/kept";
import { bytes, clock, counted, number } from "../time/words";
import { Icon } from "../ui/icon";
import { Problem } from "../ui/parts";
import { parseLine, PLAIN, plainText, type Look } from "./ansi";
import { ALL_STEPS, LogReader } from "./reader";

const LINE = 20;
const SPARE = 12;
const SEARCH_MS = 250;

interface Props {
  run: string;
  attempt: number;
  step: string;
  size: number;
  /** In which zone times are shown. */
  zone: string;
  /** The line that the address names. */
  line: number | null;
  onLine: (line: number) => void;
}

const timesChoice = keptSignal("log-times", ["off", "on"] as const, "off");

/** Lines that wrap have different heights, so all of them are laid out: not more than this. */
const WRAPPED_MAX = 2_000;

export function LogView({ run, attempt, step, size, zone, line: named, onLine }: Props) {
  const isMerged = step === ALL_STEPS;
  const hasTimes = timesChoice.value === "on" && !isMerged;
  const [isWrapped, setWrapped] = useState(false);
  const [errors, setErrors] = useState<LogHits | null>(null);
  const [, setTurn] = useState(0);
  const [reader, setReader] = useState<LogReader | null>(null);
  const [isFollowing, setFollowing] = useState(true);
  const [search, setSearch] = useState("");
  const [hit, setHit] = useState(0);
  const [far, setFar] = useState<{ search: string; found: LogHits } | null>(null);
  const [top, setTop] = useState(0);
  /** The first line that is laid out while lines wrap; null: the last ones are. */
  const [wrappedFrom, setWrappedFrom] = useState<number | null>(null);
  /** The line to be brought into view as soon as it is loaded. */
  const sought = useRef<number | null>(null);
  const box = useRef<HTMLDivElement>(null);
  const height = box.current?.clientHeight ?? 480;

  useEffect(() => {
    const made = new LogReader(run, attempt, step, size, () => setTurn((turn) => turn + 1));
    setReader(made);
    return () => made.stop();
  }, [run, attempt, step]);

  useEffect(() => {
    if (hasTimes) void reader?.showTimes();
  }, [reader, hasTimes]);
  const lines = reader?.lines ?? [];
  const firstLine = reader?.firstLine ?? 1;
  const isWhole = reader?.isWhole ?? false;
  const first = isWrapped ? Math.max(0, Math.min((wrappedFrom ?? Infinity) - firstLine, lines.length - WRAPPED_MAX)) : Math.max(0, Math.floor(top / LINE) - SPARE);
  const last = isWrapped ? Math.min(lines.length, first + WRAPPED_MAX) : Math.min(lines.length, Math.ceil((top + height) / LINE) + SPARE);
  // What is not loaded is searched by the server, which has all of it.
  const near = useMemo(() => findAll(lines, search, firstLine), [lines, search, firstLine]);
  const isNear = isWhole || far?.search !== search;
  const hits: readonly { line: number; offset?: number }[] = isNear ? near : far.found.items;
  const total = isNear ? near.length : far.found.total;
  useEffect(() => {
    if (!search || isWhole || !reader) return;
    const timer = window.setTimeout(() => {
      reader.search(search).then(
        (found) => setFar({ search, found }),
        () => undefined,
      );
    }, SEARCH_MS);
    return () => clearTimeout(timer);
  }, [search, isWhole, reader]);
  useEffect(() => {
    if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [lines, isFollowing]);
  const chosen = hits[hit];
  useEffect(() => {
    if (!chosen || !box.current || !search) return;
    setFollowing(false);
    sought.current = chosen.line;
    const isLoaded = chosen.line >= firstLine && chosen.line < firstLine + lines.length;
    if (!isLoaded && chosen.offset !== undefined) reader?.show(chosen.offset);
  }, [chosen?.line, search]);
  useEffect(() => {
    const line = sought.current;
    if (line === null || !box.current || line < firstLine || line >= firstLine + lines.length) return;
    // What else arrives of the log must not move the lines that are laid out.
    if (isWrapped && (wrappedFrom === null || line < wrappedFrom || line >= wrappedFrom + WRAPPED_MAX)) return setWrappedFrom(Math.max(firstLine, line - WRAPPED_MAX / 2));
    sought.current = null;
    const { clientHeight } = box.current;
    // Lines that wrap have heights of their own.
    const place = isWrapped ? box.current.querySelector<HTMLElement>(`[data-line="${line}"]`)?.offsetTop : undefined;
    box.current.scrollTop = Math.max(0, (place ?? (line - firstLine) * LINE) - clientHeight / 2);
  });

  /** Bring a line into view, wherever in the log it is. */
  const seek = (line: number, offset: number) => {
    setFollowing(false);
    sought.current = line;
    if (line >= firstLine && line < firstLine + lines.length) setTurn((turn) => turn + 1);
    else reader?.show(offset);
  };
  useEffect(() => {
    if (named === null || !reader) return;
    reader.find({ line: named }).then(
      ({ items: [found] }) => found && seek(found.line, found.offset),
      () => undefined,
    );
  }, [reader]);
  const toFirstError = () =>
    void reader?.find({ errors: true }).then(
      (found) => (setErrors(found), found.items[0] && onLine(found.items[0].line), found.items[0] && seek(found.items[0].line, found.items[0].offset)),
      () => undefined,
    );
  /** What is in the middle of the view stays there when the heights of the lines change. */
  const wrap = (isOn: boolean) => {
    const middle = (box.current?.scrollTop ?? 0) + height / 2;
    const shown = [...(box.current?.querySelectorAll<HTMLElement>("[data-line]") ?? [])];
    const line = isWrapped ? Number(shown.find((one) => one.offsetTop + one.offsetHeight > middle)?.dataset.line) : firstLine + Math.floor(middle / LINE);
    if (!isFollowing && line) sought.current = Math.min(line, firstLine + lines.length - 1);
    setWrappedFrom(null);
    setWrapped(isOn);
  };
  /** Lay out other lines: half of those that are, and as many before or after them. */
  const moveWrapped = (sign: number) => {
    setFollowing(false);
    sought.current = firstLine + (sign < 0 ? first : last - 1);
    setWrappedFrom(firstLine + Math.max(0, first + (sign * WRAPPED_MAX) / 2));
  };
  const follow = () => (setWrappedFrom(null), setFollowing(true));
  /** Go to another hit; the address then names its line, as after a click on its number. */
  const jump = (by: number) => {
    const next = (hit + by + hits.length) % Math.max(hits.length, 1);
    const found = hits[next];
    setHit(next);
    if (found) onLine(found.line);
  };
  return (
    <div class="log">
      <div class="log-bar">
        <input
          type="search"
          class="grow"
          aria-label="Search in this log"
          placeholder="Search log"
          value={search}
          onInput={(event) => (setSearch(event.currentTarget.value), setHit(0))}
          onKeyDown={(event) => event.key === "Enter" && (event.preventDefault(), jump(event.shiftKey ? -1 : 1))}
        />
        {search && (
          <span class="small nowrap" role="status">
            {hits.length ? `${number(hit + 1)} of ${counted(total, "line")}` : isNear && !isWhole ? "searching" : "not found"}
            {!isNear && far.found.searched_bytes < far.found.size && ` in the first ${bytes(far.found.searched_bytes)}`}
          </span>
        )}
        <button type="button" class="button is-small" onClick={toFirstError}>
          First error
        </button>
        {errors && (
          <span class="small nowrap" role="status">
            {errors.total ? counted(errors.total, "line") : "no errors"}
          </span>
        )}
        {!isMerged && (
          <label class="row small nowrap">
            <input type="checkbox" checked={hasTimes} onChange={(event) => (timesChoice.value = event.currentTarget.checked ? "on" : "off")} /> Times
          </label>
        )}
        <label class="row small nowrap">
          <input type="checkbox" checked={isWrapped} onChange={(event) => wrap(event.currentTarget.checked)} /> Wrap
        </label>
        <label class="row small nowrap">
          <input
            type="checkbox"
            checked={isFollowing}
            onChange={(event) => {
              if (!event.currentTarget.checked) return setFollowing(false);
              follow();
              if (reader?.isHeld) reader.showEnd();
            }}
          /> Follow
        </label>
        <a class="button is-small" href={downloadAddress(`${reader?.target ?? ""}?download=true`)} download={`${run}.${attempt}.${isMerged ? "all-steps" : step}.log`}>
          <Icon name="download" /> Download
        </a>
      </div>
      {reader?.error && <Problem error={reader.error} />}
      {isWrapped && first > 0 ? (
        <button type="button" class="log-earlier" onClick={() => moveWrapped(-1)}>
          Show what came before ({counted(first, "line")})
        </button>
      ) : (
        reader &&
        reader.start > 0 && (
          <button type="button" class="log-earlier" onClick={() => void reader.earlier()}>
            Show what came before ({bytes(reader.start)})
          </button>
        )
      )}
      <div
        ref={box}
        class="log-lines"
        tabIndex={0}
        role="log"
        aria-label={isMerged ? "Output of all steps" : `Output of ${step}`}
        aria-live="off"
        onScroll={(event) => {
          const { scrollTop, scrollHeight, clientHeight } = event.currentTarget;
          setTop(scrollTop);
          if (!lines.length) return; // other lines are on their way
          setFollowing((!isWrapped || last >= lines.length) && scrollTop + clientHeight >= scrollHeight - LINE);
        }}
      >
        <div class={isWrapped ? "log-all is-wrapped" : "log-all"} style={isWrapped ? {} : { height: `${lines.length * LINE}px` }}>
          <div style={isWrapped ? {} : { transform: `translateY(${first * LINE}px)` }}>
            {lines.slice(first, last).map((line, index) => (
              <Line
                key={first + index}
                line={firstLine + first + index}
                isNumbered={reader?.firstLine != null}
                {...(isMerged ? partsOf(line) : { at: hasTimes ? (reader?.timeOf(first + index) ?? null) : undefined, step: null, text: line })}
                zone={zone}
                before={isMerged ? PLAIN : lookBefore(lines, first + index)}
                search={search}
                isHit={(!!search && chosen?.line === firstLine + first + index) || named === firstLine + first + index}
                onLine={onLine}
              />
            ))}
          </div>
        </div>
      </div>
      {reader && (reader.isHeld || (isWrapped && last < lines.length)) && (
        <div class="row log-later">
          <button type="button" class="log-earlier" onClick={() => (isWrapped && last < lines.length ? moveWrapped(1) : reader.later())}>
            Load more
          </button>
          <button type="button" class="log-earlier" onClick={() => (reader.isHeld && reader.showEnd(), follow())}>
            Go to the end
          </button>
        </div>
      )}
      <p class="log-foot small" role="status">
        {lines.length ? told(reader, lines.length) : reader?.isReady ? "No output" : "Reading"}
        {reader?.isComplete || reader?.isHeld ? "" : " · live"}
      </p>
    </div>
  );
}

function told(reader: LogReader | null, count: number): string {
  if (!reader || reader.isWhole) return counted(count, "line");
  if (reader.firstLine === null) return `${counted(count, "line")} of ${bytes(reader.size)}`;
  return `Lines ${number(reader.firstLine)} to ${number(reader.firstLine + count - 1)}`;
}

function findAll(lines: string[], search: string, firstLine: number): { line: number }[] {
  const wanted = search.toLowerCase();
  if (!wanted) return [];
  const found: { line: number }[] = [];
  for (const [index, line] of lines.entries()) if (plainText(line).toLowerCase().includes(wanted)) found.push({ line: firstLine + index });
  return found;
}

/** A colour may have been set lines ago; fifty back is as far as is looked. */
function lookBefore(lines: string[], index: number): Look {
  let look = PLAIN;
  for (let line = Math.max(0, index - 50); line < index; line++) {
    const text = lines[line] ?? "";
    if (text.includes("\x1b")) [, look] = parseLine(text, look);
  }
  return look;
}

/** The time, the step and the text of a line of the merged log. */
function partsOf(line: string): Parts {
  const [at = "", step, ...rest] = line.split("\t");
  if (step === undefined) return { at: null, step: null, text: line };
  return { at: Date.parse(at), step, text: rest.join("\t") };
}

interface Parts {
  /** When it was printed; null: not known; undefined: not shown. */
  at: number | null | undefined;
  step: string | null;
  text: string;
}

interface LineProps extends Parts {
  line: number;
  /** Whether its number is known: in a log that is not whole, the first one may not be. */
  isNumbered: boolean;
  zone: string;
  before: Look;
  search: string;
  isHit: boolean;
  onLine: (line: number) => void;
}

function Line({ line, isNumbered, at, step, zone, text, before, search, isHit, onLine }: LineProps) {
  const [pieces] = parseLine(text, before);
  return (
    <div class={isHit ? "log-line is-hit" : "log-line"} data-line={line}>
      <span class="log-number" aria-hidden="true" data-tip="Link to this line" onClick={() => isNumbered && onLine(line)}>
        {isNumbered && line}
      </span>
      {at !== undefined && <span class="log-time">{at === null ? "" : clock(at, zone).padEnd(8).slice(0, 12)}</span>}
      {step !== null && <span class="log-step">{step}</span>}
      <span>
        {pieces.map((piece, index) => (
          <span key={index} class={classOf(piece.look)} style={styleOf(piece.look)}>
            {search ? marked(piece.text, search) : piece.text}
          </span>
        ))}
      </span>
    </div>
  );
}

function classOf(look: Look): string {
  const names = [look.isBold && "is-bold", look.isDim && "is-dim", look.isItalic && "is-italic", look.isUnderlined && "is-underlined", look.isInverse && "is-inverse"];
  if (look.fg && !look.fg.startsWith("rgb")) names.push(`fg-${look.fg}`);
  if (look.bg && !look.bg.startsWith("rgb")) names.push(`bg-${look.bg}`);
  return names.filter(Boolean).join(" ");
}

function styleOf(look: Look): JSX.CSSProperties {
  return {
    ...(look.fg?.startsWith("rgb") ? { color: look.fg } : {}),
    ...(look.bg?.startsWith("rgb") ? { backgroundColor: look.bg } : {}),
  };
}

function marked(text: string, search: string): (string | JSX.Element)[] {
  const parts: (string | JSX.Element)[] = [];
  const [low, wanted] = [text.toLowerCase(), search.toLowerCase()];
  let from = 0;
  for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, from)) {
    parts.push(text.slice(from, at), <mark key={at}>{text.slice(at, at + search.length)}</mark>);
    from = at + search.length;
  }
  return [...parts, text.slice(from)];
}
