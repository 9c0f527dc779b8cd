"""Draws the page of jobs: a pure function of what was read, what the user chose, and the size of the screen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from zoneinfo import ZoneInfo

from evertick.cli.output import counted
from evertick.cli.overview import wait_text
from evertick.cli.tables import STATE_STYLES
from evertick.cli.top.page import Mode, Page
from evertick.cli.top.strip import LEGEND, scale_of, strip_of
from evertick.cli.top.styled import Line, Span, cell, cut, fitted, keys_in, width_of_line
from evertick.model.duration import duration_text
from evertick.model.instant import SECOND, Instant, from_datetime, to_datetime
from evertick.model.lifecycle import ACTIVE, TERMINAL, JobStatus, RunState
from evertick.model.steps import RUNNING as STEP_RUNNING
from evertick.operations.results.attention import AttentionKind

if TYPE_CHECKING:
    from datetime import datetime

    from evertick.cli.top.snapshot import Snapshot
    from evertick.operations.results.attention import AttentionItem
    from evertick.operations.results.runs import Run
    from evertick.operations.results.schedule import Lane

ALERTS_MAX = 3
DETAIL_FROM = 112
"""Columns from which on a row has its reason or its last run too."""
NEXT_WIDTH = 7
_RUNS_SHARE = 4
"""Running and waiting runs take at most this part of the lines, as a fraction."""
_MARKS = {JobStatus.RUNNING: "▶", JobStatus.PAUSED: "‖", JobStatus.ERROR: "!", JobStatus.DISABLED: "○"}
FILTER_KEY = "/ filter"
_KEYS = (
    *("↵ logs", "r run", "p pause", "c cancel", "t retry", "w why", FILTER_KEY),
    *("s sort", "-+ time", "F5 read again"),
)
_LAST_KEYS = ("? help", "q quit")
HELP = (
    ("↑ ↓  k j", "choose a job; PgUp PgDn Home End move further"),
    ("enter  l", "read the log of its newest run; it follows a run in progress"),
    ("w", "why its newest occurrence ran, was skipped or waits"),
    ("r", "run it now"),
    ("p", "pause it, or resume it"),
    ("c", "cancel its unfinished runs"),
    ("t", "retry its failed run, whole or from the failed step"),
    ("/", "filter by id, name, description or tag; escape ends it"),
    ("s", "sort: worst first, next due, name"),
    ("- +", "show more or less time"),
    ("F5", "read again now"),
    ("q  Ctrl-C", "leave"),
)


class Widths(NamedTuple):
    """The columns of the jobs, without the spaces between them."""

    name: int
    state: int
    strip: int
    detail: int


class Freshness(NamedTuple):
    """Whether what the page shows is current."""

    since: Instant | None = None
    """When it was last read; None: just now."""
    now: Instant = 0
    reason: str = ""


def widths_of(width: int) -> Widths:
    state = 12 if width >= 100 else 11
    name = min(max(width * 23 // 100, 14), 38)
    detail = width * 26 // 100 if width >= DETAIL_FROM else 0
    taken = 3 + name + 1 + state + 1 + 1 + NEXT_WIDTH + (detail + 2 if detail else 0)
    return Widths(name, state, max(width - taken, 4), detail)


def draw(page: Page, found: Snapshot, width: int, height: int, now: Instant, fresh: Freshness) -> list[Line]:
    """The frame: exactly `height` lines, none wider than `width`."""
    if page.mode is Mode.HELP:
        return _filled(_help(width), width, height, [Span("Any key goes back.", "dim")])
    if page.mode is Mode.TEXT:
        lines: list[Line] = [[Span(cut(line, width))] for line in page.text[page.text_first :]]
        return _filled(lines, width, height, [Span("↑↓ scroll  q back", "dim")])
    above, below = _above(page, found, width, now, fresh), _below(page, found, width, height, now)
    rows = max(height - len(above) - len(below) - 1, 1)
    jobs = [_row(page, found, number, width, now) for number in range(page.first, page.first + rows)]
    if not found.timeline.total:
        none = f"  No jobs match the filter '{page.search}'. Escape ends it." if page.search else "  There are no jobs."
        jobs[0] = [Span(cut(none, width), "dim")]
    lines = [*above, *jobs[:rows], *below]
    return _filled(lines, width, height, _foot(page, width))


def job_rows(page: Page, found: Snapshot, width: int, height: int, fresh: Freshness) -> int:
    """How many jobs are visible at once."""
    now = found.now
    used = len(_above(page, found, width, now, fresh)) + len(_below(page, found, width, height, now)) + 1
    return max(height - used, 1)


def once(found: Snapshot, width: int) -> list[Line]:
    """One frame for a pipe or a file: every job that was read, without keys and without a choice."""
    page, now = Page(job="-", row=-1, sort=found.question.sort, search=found.question.search), found.now
    rows = range(len(found.timeline.lanes))
    return [
        *_above(page, found, width, now, Freshness()),
        *(_row(page, found, number, width, now) for number in rows),
        *_below(page, found, width, 10_000, now),
    ]


def _filled(lines: Sequence[Line], width: int, height: int, foot: Line) -> list[Line]:
    body = [fitted(line, width) for line in lines[: height - 1]]
    return [*body, *([] for _ in range(height - 1 - len(body))), fitted(foot, width)]


# --- above the jobs


def _above(page: Page, found: Snapshot, width: int, now: Instant, fresh: Freshness) -> list[Line]:
    view = found.overview
    clock = to_datetime(now).astimezone(ZoneInfo(view.timezone))
    who = f"node {view.node}" if view.node else "scheduler running" if view.scheduler.alive else "no scheduler"
    right = f"{clock:%a %Y-%m-%d %H:%M:%S} {view.timezone} "
    left = [Span(" evertick ", "reverse bold"), Span(f" {who}", "bold" if view.scheduler.alive else "bold red")]
    if view.scheduler.lag_seconds is not None and view.scheduler.lag_seconds >= 1:
        left.append(Span(f"  planning lags by {_short(round(view.scheduler.lag_seconds * SECOND))}", "yellow"))
    space = width - width_of_line(left) - len(right)
    head = [*left, Span(" " * max(space, 1)), Span(right, "dim")]
    lines: list[Line] = [head, fitted(_counts(found, width), width)]
    if fresh.since is not None:
        at = to_datetime(fresh.since).astimezone(ZoneInfo(view.timezone))
        age = _short(max(fresh.now - fresh.since, 0))
        lines.append([Span(cell(f" Stale since {at:%H:%M:%S} ({age}): {fresh.reason}", width), "alarm")])
    alerts = [item for item in found.attention.items if item.job is None]
    lines += [_alert(item, width, now) for item in alerts[:ALERTS_MAX]]
    if len(alerts) > ALERTS_MAX:
        lines.append([Span(f" and {len(alerts) - ALERTS_MAX} more", "yellow")])
    return [*lines, _titles(page, found, width, now)]


def _counts(found: Snapshot, width: int) -> list[Span]:
    view, kinds = found.overview, [item.kind for item in found.attention.items if item.job]
    jobs, day = view.jobs, view.day
    bad = day.failed + day.timed_out + day.lost
    parts = [
        Span(counted(jobs.total, "job"), "bold"),
        *(Span(f"{kinds.count(kind):,} {_words(kind)}", _trouble_style(kind)) for kind in dict.fromkeys(kinds)),
        Span(f"{view.running_count:,} running", "cyan" if view.running_count else "dim"),
        Span(f"{view.waiting_count:,} waiting", "yellow" if view.waiting_count else "dim"),
        *([Span(f"{jobs.paused:,} paused", "yellow")] if jobs.paused else []),
    ]
    last = [
        Span(f"{day.succeeded:,} ok", "green" if day.succeeded else "dim"),
        Span(f"{bad:,} failed", "red" if bad else "dim"),
        *([Span(f"{day.skipped:,} skipped", "yellow")] if day.skipped else []),
        *([Span(f"p99 start delay {_short(round(view.lateness.p99 * SECOND))}", "dim")] if view.lateness.p99 else []),
    ]
    head = [Span(" "), *_joined(parts)]
    # Never what succeeded without what failed.
    for shown in (*(last[:count] for count in range(len(last), 1, -1)), last[1:2]):
        line = [*head, Span("  24 h: ", "dim"), *_joined(shown)]
        if width_of_line(line) <= width:
            return line
    return head


def _joined(parts: Sequence[Span]) -> list[Span]:
    return [span for number, part in enumerate(parts) for span in ([Span(" · ", "dim")] if number else []) + [part]]


def _alert(item: AttentionItem, width: int, now: Instant) -> Line:
    where = item.member or item.executor or item.node or item.file or ""
    if item.file:
        # Of a long path, the name says most.
        where = f"{item.file.rpartition('/')[2]}:{item.line or 1}"
    text = " ".join(part for part in (where, item.text) if part)
    match item.kind:
        case AttentionKind.NO_SCHEDULER:
            text = "no scheduler is running: nothing starts. Next: evertick serve"
        case AttentionKind.LAGGING:
            text = f"{where} plans {_short(round((item.seconds or 0) * SECOND))} late"
        case AttentionKind.CLOCK:
            text = f"the clock of {where} was changed by {_short(round(abs(item.seconds or 0) * SECOND))}"
        case AttentionKind.NODE_AWAY:
            text = f"{where}, with {counted(item.count, 'run')}"
    since = f" ({_ago(item.since, now)} ago)" if item.since is not None else ""
    is_bad = item.kind in (AttentionKind.NO_SCHEDULER, AttentionKind.LEDGER_DAMAGED)
    return [
        Span(f" ! {_words(item.kind)}: ", "bold red" if is_bad else "bold yellow"),
        Span(cut(f"{text}{since}", width)),
    ]


def _titles(page: Page, found: Snapshot, width: int, now: Instant) -> Line:
    sizes, window = widths_of(width), found.question.window
    shown = f"JOB ({page.sort}{f', /{page.search}' if page.search else ''})"
    spans = [
        Span(f"   {cell(shown, sizes.name)} {cell('STATE', sizes.state)} "),
        Span(scale_of(window, now, found.overview.timezone)[: sizes.strip].ljust(sizes.strip)),
        Span(f" {cell('NEXT', NEXT_WIDTH, right=True)}"),
        *([Span(f"  {cell('WHY, OR LAST RUN', sizes.detail)}")] if sizes.detail else []),
    ]
    return [Span(span.text, "dim") for span in spans]


# --- a job


def _row(page: Page, found: Snapshot, number: int, width: int, now: Instant) -> Line:
    lane = found.lane(number)
    if lane is None:
        return [Span("   …", "dim")] if number < found.timeline.total else []
    sizes, is_chosen = widths_of(width), number == page.row
    item = found.item(lane.job)
    state, style = _state(lane, item, now)
    mark = "✗" if lane.trouble is AttentionKind.FAILING else "!" if lane.trouble else _MARKS.get(lane.status, " ")
    name = lane.name if lane.name == lane.job or sizes.name < 30 else f"{lane.name} ({lane.job})"
    window = found.question.window
    return [
        Span("▌" if is_chosen else " ", "bold cyan"),
        Span(f"{mark} ", style),
        Span(cell(name, sizes.name), "reverse bold" if is_chosen else "bold" if lane.trouble else ""),
        Span(" "),
        Span(cell(state, sizes.state), style),
        Span(" "),
        *strip_of(lane, window._replace(cells=min(window.cells, sizes.strip)), now, found.timeline),
        Span(" " * max(sizes.strip - window.cells, 0)),
        Span(f" {cell(_next(lane, now), NEXT_WIDTH, right=True)}", "" if lane.next_at else "dim"),
        *([Span("  "), *_detail(lane, item, found, sizes.detail, now)] if sizes.detail else []),
    ]


def _state(lane: Lane, item: AttentionItem | None, now: Instant) -> tuple[str, str]:
    if lane.trouble is not None:
        style = _trouble_style(lane.trouble)
        if item is None:
            return _words(lane.trouble), style
        if item.kind is AttentionKind.STUCK and item.since is not None:
            return f"{_words(item.kind)} {_ago(item.since, now)}", style
        return f"{_words(item.kind)}{f' {item.count}×' if item.count > 1 else ''}", style
    since = [mark.started_at for mark in lane.marks if mark.state in ACTIVE and mark.started_at is not None]
    if lane.status is JobStatus.RUNNING and since:
        return f"running {_ago(min(since), now)}", "cyan"
    return str(lane.status), STATE_STYLES.get(lane.status, "")


def _next(lane: Lane, now: Instant) -> str:
    if lane.next_at is None:
        return "–"
    left = from_datetime(lane.next_at) - now
    return "now" if left < SECOND else _short(left)


def _detail(lane: Lane, item: AttentionItem | None, found: Snapshot, width: int, now: Instant) -> list[Span]:
    return [Span(cell(text, width), style) for text, style in [_reason(lane, item, found, now)]]


def _reason(lane: Lane, item: AttentionItem | None, found: Snapshot, now: Instant) -> tuple[str, str]:
    """Why the job needs attention, what it does now, or how its last run ended."""
    run = next((run for run in found.overview.running if run.job == lane.job), None)
    if item is not None:
        again = " (a run is in progress)" if item.active else ""
        reason = f"{item.reason}: " if item.reason else ""
        waits = "" if item.wait is None else f"waits for {wait_text(item.wait)}"
        return f"{reason}{waits or item.text or str(item.state or '')}{again}", ""
    if run is not None and run.running_steps:
        return _steps(run, found, now), "cyan"
    last = next(
        (mark for mark in reversed(lane.marks) if mark.state in TERMINAL and mark.finished_at is not None), None
    )
    if last is None or last.finished_at is None:
        return "", ""
    took = ""
    if last.started_at is not None:
        took = f", took {_short(from_datetime(last.finished_at) - from_datetime(last.started_at))}"
    word = "ok" if last.state is RunState.SUCCEEDED else str(last.state)
    return f"{word} {_ago(last.finished_at, now)} ago{took}", "dim"


# --- below the jobs


def _below(page: Page, found: Snapshot, width: int, height: int, now: Instant) -> list[Line]:
    view = found.overview
    room = max(height // _RUNS_SHARE - 2, 1)
    running = [_run_line(run, found, width, now) for run in view.running]
    waiting = [_wait_line(run, width, now) for run in view.waiting]
    lines: list[Line] = []
    lane = found.lane(page.row) if page.row >= 0 else None
    if lane is not None and not widths_of(width).detail:
        text, style = _reason(lane, found.item(lane.job), found, now)
        lines.append([Span(f" {lane.name}: ", "bold"), Span(text or "no runs in this period", style or "")])
    shown = [*running, *waiting][:room]
    if shown:
        hidden = view.running_count + view.waiting_count - len(shown)
        more = f"  ({hidden:,} not shown)" if hidden > 0 else ""
        title = f" RUNNING {view.running_count:,}  WAITING {view.waiting_count:,}{more} "
        lines.append([Span("─", "dim"), Span(title, "bold"), Span("─" * max(width - len(title) - 1, 0), "dim")])
        lines += shown
    places = _places(found)
    while len(places) > 1 and width_of_line(_joined(places)) >= width:
        # What is well goes first.
        places.remove(next((place for place in reversed(places) if place.style == "dim"), places[-1]))
    if places:
        lines.append([Span(" "), *_joined(places)])
    return lines


def _run_line(run: Run, found: Snapshot, width: int, now: Instant) -> Line:
    sizes = widths_of(width)
    took = "" if run.started_at is None else _ago(run.started_at, now)
    attempt = f" (attempt {run.attempt})" if run.attempt > 1 else ""
    return [
        Span(f" {'↻' if run.state is RunState.RETRYING else '▶'} ", STATE_STYLES.get(run.state, "")),
        Span(cell(run.job_name, sizes.name)),
        Span(f" {cell(took, sizes.state)} ", "cyan"),
        Span(f"{_steps(run, found, now) if run.running_steps else f'{run.state} {run.detail}'}{attempt}"),
    ]


def _steps(run: Run, found: Snapshot, now: Instant) -> str:
    """The steps that run, each with the time since its start."""
    known = found.steps.get(run.run)
    if known is None or not known.steps:
        return ", ".join(run.running_steps)
    texts = [
        step.name if step.started_at is None else f"{step.name} {_ago(step.started_at, now)}"
        for step in known.steps
        if step.state == STEP_RUNNING
    ]
    ended = sum(step.state not in (STEP_RUNNING, "planned") for step in known.steps)
    return f"{f'{ended}/{known.total} ' if known.total > 1 else ''}{', '.join(texts)}"


def _wait_line(run: Run, width: int, now: Instant) -> Line:
    sizes = widths_of(width)
    waited = max(now - from_datetime(run.scheduled_for), 0)
    reason = wait_text(run.waits[-1]) if run.waits else run.detail or "its start"
    return [
        Span(" ◌ ", "yellow"),
        Span(cell(run.job_name, sizes.name)),
        Span(f" {cell(_short(waited), sizes.state)} ", "yellow"),
        Span(f"waits for {reason}"),
    ]


def _places(found: Snapshot) -> list[Span]:
    """How full the queues and the lanes of the executors are."""
    spans = []
    for queue in found.queues.items:
        limit = "" if queue.limit is None else f"/{queue.limit}"
        is_full = queue.limit is not None and queue.active >= queue.limit
        text = f"queue {queue.queue} {queue.active}{limit}{f' +{queue.waiting} waiting' if queue.waiting else ''}"
        spans.append(Span(text, "yellow" if is_full and queue.waiting else ""))
    for executor in found.executors.items:
        if executor.health in ("down", "degraded"):
            spans.append(Span(f"{executor.executor} {executor.health}", "bold red"))
        for name, lane in (executor.lanes or {}).items():
            waiting = f" +{lane.waiting} waiting" if lane.waiting else ""
            text = f"{executor.executor} {name} {lane.under_way}/{lane.size}{waiting}"
            spans.append(Span(text, "yellow" if lane.waiting else "dim"))
        if executor.members:
            spans.append(Span(f"{executor.executor} {executor.ready}/{len(executor.members)} members ready", "dim"))
    return spans


def _foot(page: Page, width: int) -> Line:
    if page.mode is Mode.CONFIRM and page.confirmation is not None:
        keys = "/".join(page.confirmation.choices)
        ending = f" [{keys}/N] "
        return [Span(f" {cut(page.confirmation.text, width - len(ending) - 1)}{ending}", "reverse bold")]
    if page.mode is Mode.FILTER:
        return [Span(" Filter: ", "bold"), Span(f"{page.written}▏"), Span("   enter applies it, escape ends it", "dim")]
    if page.message.text:
        return [Span(f" {page.message.text}", "bold red" if page.message.is_error else "bold green")]
    shown = ["esc all jobs" if page.search and key == FILTER_KEY else key for key in _KEYS]
    return [Span(f" {keys_in(shown, _LAST_KEYS, width - 1)}", "dim")]


def _help(width: int) -> list[Line]:
    lines: list[Line] = [[Span(" evertick top", "bold")], []]
    lines += [[Span(f"  {keys:<12}", "bold cyan"), Span(text)] for keys, text in HELP]
    half = [[Span("  "), glyph, Span(cell(f" {text}", 34 - len(glyph.text)))] for glyph, text in LEGEND]
    columns = 2 if width >= 76 else 1
    for place in range(0, len(half), columns):
        lines.append([span for part in half[place : place + columns] for span in part])
    return [*lines[: 2 + len(HELP)], [], *lines[2 + len(HELP) :]]


def _trouble_style(kind: AttentionKind) -> str:
    return "bold red" if kind is AttentionKind.FAILING else "bold yellow"


def _words(kind: AttentionKind) -> str:
    return kind.replace("-", " ")


def _short(duration_us: int) -> str:
    """The largest unit only."""
    if duration_us >= SECOND:
        duration_us -= duration_us % SECOND
    return duration_text(duration_us).partition(" ")[0]


def _ago(at: datetime, now: Instant) -> str:
    return _short(max(now - from_datetime(at), 0))
