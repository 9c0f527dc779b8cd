"""Shows one run: its facts, and its steps as a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from evertick.cli.output import Column, Table
from evertick.cli.runs import due_text, state_text, took_text
from evertick.cli.step_tree import TreeLine, tree_of, with_items
from evertick.cli.tables import state_of
from evertick.cli.times import local_text
from evertick.model.duration import duration_text
from evertick.model.instant import from_datetime
from evertick.model.steps import cut

if TYPE_CHECKING:
    from datetime import datetime

    from evertick.cli.output import Row
    from evertick.operations.results.runs import RunDetail, Step

NOT_STARTED = "-"
ITEMS_MAX = 20
"""Items of a step that are listed one by one; of more, those that succeeded are counted."""
VALUE_MAX = 40


class StepLine(NamedTuple):
    """A step as a line of a table; `step` is None if it has not started."""

    run: str
    name: str
    drawn: str
    depends: tuple[str, ...]
    step: Step | None

    @property
    def state(self) -> str:
        return NOT_STARTED if self.step is None else self.step.state


def step_lines(run: RunDetail) -> list[StepLine]:
    """The steps of the definition as a tree with their items, then those that the run has beside them."""
    folded = _folded_items(run)
    ran = {step.name: step for step in run.steps if step.name not in folded}
    items = [(step.name, step.item_of) for step in ran.values()]
    more = [(f"({count} more items succeeded)", step) for step, count in Counter(folded.values()).items()]
    depends = with_items(run.depends, [*items, *more])
    lines = [
        StepLine(run.run, one.name, _drawn(one, ran), tuple(depends.get(one.name, ())), ran.pop(one.name, None))
        for one in tree_of(list(depends), depends)
    ]
    return [*lines, *(StepLine(run.run, name, name, (), step) for name, step in ran.items())]


def _folded_items(run: RunDetail) -> dict[str, str]:
    """The succeeded items of steps with many items, each with its step: they are folded to show the others."""
    counts = Counter(step.item_of for step in run.steps)
    return {
        step.name: step.item_of
        for step in run.steps
        if step.item_of is not None and counts[step.item_of] > ITEMS_MAX and step.state == "succeeded"
    }


def _drawn(line: TreeLine, ran: Mapping[str, Step]) -> str:
    step = ran.get(line.name)
    value = "" if step is None or not step.item else f" {cut(step.item, VALUE_MAX)}"
    return f"{line.prefix}{line.name}{value}"


def steps_table(lines: Sequence[StepLine], title: str = "", *, with_run: bool = False) -> Table:
    first = (Column("Run", "run", "cyan", wrap=True),) if with_run else ()
    columns = (
        *first,
        Column("Step", "drawn", "bold"),
        Column("State", "state", state_of),
        Column("Took", _took, right=True),
        Column(
            "Tries", lambda line: line.step.tries if line.step is not None and line.step.tries > 1 else "", right=True
        ),
        Column("Exit", lambda line: "" if line.step is None else line.step.exit_code, right=True, optional=True),
        Column("Memory", _memory, right=True, optional=True),
        Column("Executor", lambda line: "" if line.step is None else line.step.executor or "", optional=True),
        Column("Detail", lambda line: "" if line.step is None else line.step.detail, wrap=True, optional=True),
    )
    return Table(columns, lines, title)


def run_tables(run: RunDetail) -> Iterator[Table]:
    yield Table((Column("Field", "what"), Column("Value", "value", "bold", wrap=True)), _facts(run))
    yield steps_table(step_lines(run), "Steps")


def _facts(run: RunDetail) -> list[Row]:
    def local_time(moment: datetime | None) -> str | None:
        return None if moment is None else f"{local_text(from_datetime(moment), run.timezone)} {run.timezone}"

    facts = {
        "run": run.run,
        "job": run.job_name if run.job_name == run.job else f"{run.job} ({run.job_name})",
        "state": state_text(run),
        "detail": run.detail,
        "due": f"{due_text(run)} {run.timezone}",
        "starts": f"{local_time(run.starts_at)} (jitter)" if run.starts_at else None,
        "started": local_time(run.started_at),
        "ended": local_time(run.finished_at),
        "took": took_text(run),
        "trigger": run.trigger,
        "attempt": run.attempt if run.attempt > 1 else None,
        "exit code": run.exit_code,
        "executor": run.executor,
        "waits for": "; ".join(map(str, run.blocked_by)),
    }
    return [{"what": what, "value": value} for what, value in facts.items() if value not in (None, "")]


def _took(line: StepLine) -> str:
    seconds = None if line.step is None else line.step.duration_seconds
    return "" if seconds is None else duration_text(round(seconds * 1_000_000))


def _memory(line: StepLine) -> str:
    size = None if line.step is None else line.step.max_rss_bytes
    return "" if not size else f"{size / (1 << 20):,.0f} MiB"
