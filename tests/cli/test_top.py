"""What a frame of `evertick top` shows, and what its keys do."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from evertick.cli.overview import tables_of
from evertick.cli.tables import plain_table, width_of
from evertick.cli.top.frame import Freshness, draw, job_rows, once, widths_of
from evertick.cli.top.log_page import LogPage, read_part
from evertick.cli.top.page import ActionKind, Mode, OpenLog, Page, Plain, SendRequest
from evertick.cli.top.snapshot import Question, Snapshot, read_snapshot
from evertick.cli.top.strip import scale_of, window_of
from evertick.cli.top.styled import ansi, cell, cut, plain
from evertick.cli.top.terminal import is_begun, keys_of
from evertick.loop.messages import StepsSeen
from evertick.model.instant import HOUR, MINUTE
from evertick.model.job import After
from evertick.model.lifecycle import FAILED, JobStatus
from evertick.model.run import RunKey
from evertick.model.schedule import CronSpec
from evertick.model.steps import StepRecord, steps_text
from evertick.model.work import Command, Step, Work
from evertick.operations.context import folder_of
from evertick.operations.local import LocalOperations
from evertick.operations.results.schedule import TimelineSort
from evertick.settings.parts import LoopSettings
from tests.loop.harness import Act as Script
from tests.loop.harness import World, at, job, world

FRESH = Freshness()


def operations_on(here: World) -> LocalOperations:
    return LocalOperations(
        here.store, lambda: folder_of(here.jobs), now=lambda: here.now, is_scheduler_running=lambda: True
    )


@cache
def a_busy_world() -> World:
    """At 09:05: `a` runs its step extract, `b` waits for the queue, `bad` has failed, `c` follows `a`."""
    jobs = [replace(job(name), queue="db", priority=5 if name == "a" else 0) for name in ("a", "b")]
    follows = replace(job("c"), after=After(("a",)))
    here = world(*jobs, follows, job("bad"), job("well"), settings=LoopSettings(queues=(("db", 1),)))
    here.act("a", Script(lasts_us=30 * MINUTE))
    here.act("bad", Script(state=FAILED))
    here.run_until("09:00:10")
    step = StepRecord("extract", "running", 1, started_at=at("09:01"))
    here.say(StepsSeen(RunKey("a", at("09:00")), 1, steps_text([step])))
    here.run_until("09:05")
    return here


def read(here: World, width: int = 80, **asked: object) -> Snapshot:
    question = Question(window_of(here.now, widths_of(width).strip, 12), **asked)  # type: ignore[arg-type]
    return read_snapshot(operations_on(here), question)


def drawn(page: Page, found: Snapshot, width: int = 80, height: int = 24, fresh: Freshness = FRESH) -> list[str]:
    page.settle(found, job_rows(page, found, width, height, fresh))
    return [plain(line) for line in draw(page, found, width, height, found.now, fresh)]


def test_a_waiting_run_shows_what_it_waits_for_and_a_running_one_its_step():
    running, waiting = (plain_table(table) for table in tables_of(operations_on(a_busy_world()).overview(), 8)[:2])
    assert "STEP" in running
    assert "extract" in running
    assert "WAITS FOR" in waiting
    assert "queue db: a@2026-03-02T09:00:00Z" in waiting
    assert "success of a" in waiting


def test_the_only_step_of_a_job_is_the_one_that_runs():
    """Of such a run nothing is said about its steps before its end."""
    here = world(replace(job("a"), work=Work((Step("load", Command(("x",))),))))
    here.act("a", Script(lasts_us=30 * MINUTE))
    here.run_until("09:05")
    assert "load" in plain_table(tables_of(operations_on(here).overview(), 8)[0])


@pytest.mark.parametrize(("width", "height"), [(20, 6), (80, 24), (112, 30), (160, 50), (300, 90)])
@pytest.mark.parametrize("mode", [Mode.JOBS, Mode.HELP, Mode.FILTER, Mode.TEXT])
def test_a_frame_fills_the_screen_and_never_more(width, height, mode):
    page = Page(mode=mode, text=["x" * 400] * 200)
    lines = drawn(page, read(a_busy_world(), width), width, height, Freshness(1, 2, "the server does not answer"))
    assert len(lines) == height
    assert max(map(width_of, lines)) <= width


def test_the_worst_job_comes_first_with_its_strip_and_its_reason():
    lines = drawn(Page(), read(a_busy_world(), 140), 140, 40)
    rows = [line for line in lines if "failing" in line or "running 5m" in line]
    assert "bad" in rows[1]
    assert "✗" in rows[1]
    assert "1 failing" in rows[0]
    assert "▶ a" in rows[2]
    assert "extract 4m" in rows[2]


def test_running_steps_waiting_runs_and_queues_are_below_the_jobs():
    text = "\n".join(drawn(Page(), read(a_busy_world()), height=40))
    assert "RUNNING 1  WAITING 2" in text
    assert "extract 4m" in text
    assert "waits for queue db" in text
    assert "queue db 1 +1 waiting" in text


def test_a_narrow_page_has_the_reason_of_the_chosen_job_below_the_table():
    page = Page()
    assert any(line.startswith(" bad: failed") for line in drawn(page, read(a_busy_world())))


@pytest.mark.parametrize(
    ("width", "counts", "queues_shown", "keys"),
    [
        pytest.param(
            100,
            " 5 jobs · 1 failing · 2 stuck · 1 running · 2 waiting  24 h: 1 ok · 1 failed · p99 start delay 1s",
            3,
            " ↵ logs  r run  p pause  c cancel  t retry  w why  / filter  s sort  -+ time  ? help  q quit",
            id="all of it",
        ),
        pytest.param(
            80,
            " 5 jobs · 1 failing · 2 stuck · 1 running · 2 waiting  24 h: 1 ok · 1 failed",
            3,
            " ↵ logs  r run  p pause  c cancel  t retry  w why  / filter  ? help  q quit",
            id="the figures that matter",
        ),
        pytest.param(
            70,
            " 5 jobs · 1 failing · 2 stuck · 1 running · 2 waiting  24 h: 1 failed",
            3,
            " ↵ logs  r run  p pause  c cancel  t retry  w why  ? help  q quit",
            id="what failed",
        ),
        pytest.param(
            56,
            " 5 jobs · 1 failing · 2 stuck · 1 running · 2 waiting",
            2,
            " ↵ logs  r run  p pause  c cancel  ? help  q quit",
            id="never what succeeded without what failed",
        ),
    ],
)
def test_what_does_not_fit_is_left_out_as_a_whole(width, counts, queues_shown, keys):
    found = read(a_busy_world(), width)
    late = replace(found.overview, lateness=replace(found.overview.lateness, p99=1.2))
    queues = replace(found.queues, items=found.queues.items * 3)
    lines = drawn(Page(), replace(found, overview=late, queues=queues), width, 40)
    assert (lines[1], lines[-2].count("queue db 1 +1 waiting"), lines[-1]) == (counts, queues_shown, keys)
    assert "…" not in lines[-2]


def test_a_filter_that_finds_nothing_is_named_with_the_key_that_ends_it():
    lines = drawn(Page(search="nosuch"), read(a_busy_world(), search="nosuch"))
    assert lines[3] == "  No jobs match the filter 'nosuch'. Escape ends it."
    assert "w why  esc all jobs  ? help  q quit" in lines[-1]


def test_a_page_that_is_not_current_shows_since_when_and_why():
    found = read(a_busy_world())
    fresh = Freshness(at("09:04"), at("09:05"), "the server does not answer")
    assert " Stale since 09:04:00 (1m): the server does not answer" in drawn(Page(), found, fresh=fresh)


def test_one_frame_for_a_pipe_has_every_job_and_no_keys():
    lines = [plain(line) for line in once(read(a_busy_world(), 120), 120)]
    assert [name for name in ("a", "b", "bad", "c", "well") if any(f" {name} " in line for line in lines)] == [
        *("a", "b", "bad", "c", "well")
    ]
    assert not any("q quit" in line or "▌" in line for line in lines)


# --- the strip


def test_cells_of_a_strip_begin_on_round_times_and_now_is_in_the_window():
    window = window_of(at("09:07:31"), 36, 12)
    assert window.cell_us in (30 * MINUTE, HOUR)
    assert window.since % window.cell_us == 0
    assert 0 <= window.at(at("09:07:31")) < window.cells
    assert window_of(at("09:07:59"), 36, 12) == window, "a run keeps its cell from frame to frame"
    assert scale_of(window, at("09:07:31"), "UTC")[window.at(at("09:07:31")) :].startswith("now")


def test_a_failure_is_seen_however_many_runs_share_its_cell():
    here = world(job("often", CronSpec("* * * * *", "UTC")))
    here.act("often", *[Script()] * 20, Script(state=FAILED), *[Script()] * 100)
    here.run_until("10:00")
    found = read(here)
    assert sum("✗" in line for line in drawn(Page(hours=168), found)) == 1


# --- keys


def test_bytes_of_a_terminal_are_keys():
    assert keys_of("j\x1b[A\x1bOB\x1b[6~\r\x7fä\x1b") == [
        "j",
        "up",
        "down",
        "pagedown",
        "enter",
        "backspace",
        "ä",
        "escape",
    ]
    assert keys_of("\x1b[1;5Cq") == ["q"], "an unknown sequence is dropped whole"
    assert [is_begun(text) for text in ("\x1b", "\x1b[", "\x1b[1;5", "\x1b[A", "x")] == [True, True, True, False, False]


def press(page: Page, found: Snapshot, *keys: str) -> object:
    command = None
    for key in keys:
        command = page.press(key, found, 10)
    return command


@pytest.mark.parametrize(
    ("keys", "command"),
    [
        pytest.param("ry", SendRequest(ActionKind.RUN, "bad"), id="run"),
        pytest.param("py", SendRequest(ActionKind.PAUSE, "bad"), id="pause"),
        pytest.param("cy", SendRequest(ActionKind.CANCEL, "bad"), id="cancel"),
        pytest.param("ty", SendRequest(ActionKind.RETRY, "bad@2026-03-02T09:00:00Z"), id="retry"),
        pytest.param("rn", None, id="no"),
        pytest.param("r ", None, id="any other key is no"),
        pytest.param("l", OpenLog("bad"), id="logs"),
        pytest.param("q", Plain.QUIT, id="quit"),
    ],
)
def test_an_action_is_sent_after_a_yes(keys, command):
    page, found = Page(), read(a_busy_world())
    page.settle(found, 10)
    assert press(page, found, *keys) == command


def test_a_paused_job_is_resumed_by_the_key_that_paused_it():
    here = a_busy_world()
    found = read(here)
    paused = replace(found.timeline.lanes[0], status=JobStatus.PAUSED)
    found = replace(found, timeline=replace(found.timeline, lanes=(paused, *found.timeline.lanes[1:])))
    page = Page()
    page.settle(found, 10)
    assert press(page, found, "p", "y") == SendRequest(ActionKind.RESUME, "bad")


def test_a_job_without_failures_has_nothing_to_retry():
    page, found = Page(job="well"), read(a_busy_world())
    page.settle(found, 10)
    assert press(page, found, "t") is None
    assert page.message.text == "well has no failed run in this period."


def test_the_chosen_job_stays_chosen_when_it_moves():
    here = a_busy_world()
    page = Page(job="a")
    page.settle(read(here), 10)
    before = page.row
    page.settle(read(here, sort=TimelineSort.NAME), 10)
    assert (page.job, before, page.row) == ("a", 3, 0)


def test_a_filter_is_written_applied_and_ended():
    here, page = a_busy_world(), Page()
    found = read(here)
    assert press(page, found, "/", "w", "x", "backspace", "e", "enter") is Plain.REREAD
    assert page.search == "we"
    narrowed = read(here, search=page.search)
    assert [lane.job for lane in narrowed.timeline.lanes] == ["well"]
    assert press(page, narrowed, "escape") is Plain.REREAD
    assert page.search == ""


def test_moving_beyond_what_was_read_reads_more():
    here = world(*(job(f"job-{number:02}") for number in range(40)))
    here.run_until("09:05")
    page, found = Page(), read(here, lanes=10)
    page.settle(found, 10)
    assert press(page, found, "down") is None
    assert press(page, found, "end") is Plain.REREAD
    assert page.row == 39
    assert any("…" in line for line in drawn(page, found))
    drawn(page, read(here, lanes=10, offset=30))
    assert page.job == "job-39"


# --- text


def test_text_keeps_to_its_columns_and_obeys_nothing():
    assert cut("日本語テキスト", 7) == "日本語…"
    assert cell("ab", 4) == "ab  "
    assert cut("a\x1b[2Jb", 20) == "a\\x1b[2Jb"
    assert "\x1b[1;97;41m" in ansi(read_row(), has_colour=True)
    assert "41" not in ansi(read_row(), has_colour=False)


def read_row():
    page, found = Page(), read(a_busy_world())
    return next(
        line for line in draw(page, found, 80, 24, found.now, FRESH) if "failing" in plain(line) and "✗" in plain(line)
    )


# --- logs


class Printed:
    """Operations on one run whose log grows."""

    def __init__(self, here: World) -> None:
        self._detail = operations_on(here).run("a")
        self.data = b""

    def run(self, _run_id: str):
        from evertick.operations.results.runs import LogFile

        logs = (LogFile(1, "extract", len(self.data), False),) if self.data else ()
        return replace(self._detail, logs=logs)

    def log_bytes(self, _run_id: str, _attempt: int, _step: str, offset: int = 0):
        from evertick.operations.results.runs import LogChunk

        return LogChunk(self.data[offset : offset + 10], min(offset + 10, len(self.data)), False)


@pytest.mark.parametrize(
    ("width", "head"),
    [
        pytest.param(80, " a@2026-03-02T09:00:00Z  extract", id="all of it"),
        pytest.param(38, " a@2026-03-02T09…  extract", id="the step stays"),
    ],
)
def test_the_head_of_a_log_always_has_its_step(width, head):
    page = LogPage("a")
    page.take(read_part(Printed(a_busy_world()), page.target, (1, "extract"), None))  # type: ignore[arg-type]
    page.chosen = (1, "extract")
    drawn_head = plain(page.draw(width, 10, at("09:05"))[0])
    assert drawn_head.startswith(head)
    assert drawn_head.endswith(" running 5m")


def test_a_log_follows_scrolls_and_finds():
    printed, page = Printed(a_busy_world()), LogPage("a")
    page.take(read_part(printed, page.target, page.chosen, page.offset))  # type: ignore[arg-type]
    assert "The run has printed nothing." in "\n".join(plain(line) for line in page.draw(80, 10, at("09:05")))
    printed.data = "".join(f"line {number} \x1b[31mä\x1b[0m\n" for number in range(50)).encode() + b"half"
    while page.offset != len(printed.data):
        page.take(read_part(printed, page.target, page.chosen, page.offset or 0))  # type: ignore[arg-type]
    assert [plain(line) for line in page.draw(80, 10, at("09:05"))][7:9] == ["line 49 ä", "half"]
    assert page.press("g", 8)
    assert plain(page.draw(80, 10, at("09:05"))[1]) == "line 0 ä"
    for key in ("/", *"LINE 3", "enter"):
        page.press(key, 8)
    assert plain(page.draw(80, 10, at("09:05"))[1]) == "line 3 ä"
    page.press("n", 8)
    assert plain(page.draw(80, 10, at("09:05"))[1]) == "line 30 ä"
    for key in ("/", *"none", "enter"):
        page.press(key, 8)
    assert page.message == "'none' was not found in 51 lines."
    page.press("end", 8)
    foot = plain(page.draw(60, 10, at("09:05"))[-1])
    assert foot.startswith("↑↓ scroll  f follow  tab next step  q back")
    assert foot.endswith(" 51/51 following")
    assert not page.press("q", 8)
