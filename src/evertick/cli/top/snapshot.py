"""What the page shows, read from the operations at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from evertick.cli.top.strip import Window
from evertick.errors import NotFound
from evertick.model.instant import Instant, from_datetime, to_datetime
from evertick.operations.results.schedule import TimelineSort

if TYPE_CHECKING:
    from evertick.operations.protocol import Operations
    from evertick.operations.results.attention import Attention, AttentionItem
    from evertick.operations.results.runs import Step
    from evertick.operations.results.schedule import Lane, Overview, Timeline
    from evertick.operations.results.system import Executors, Queues

RUNS_WITH_STEPS_MAX = 12
"""Running runs whose steps are read; each is one request."""
LANES_MAX = 200


class RunSteps(NamedTuple):
    steps: tuple[Step, ...]
    """Those that have started."""
    total: int


class Question(NamedTuple):
    """Which part of the jobs to read."""

    window: Window
    offset: int = 0
    lanes: int = 50
    search: str = ""
    sort: TimelineSort = TimelineSort.WORST
    runs: int = 8
    """Running runs that are shown with their steps."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    question: Question
    overview: Overview
    attention: Attention
    timeline: Timeline
    queues: Queues
    executors: Executors
    steps: Mapping[str, RunSteps]
    """The steps of running runs, by run."""

    @property
    def now(self) -> Instant:
        return from_datetime(self.overview.now)

    def lane(self, row: int) -> Lane | None:
        """The lane at a place in the whole order; None where it was not read."""
        number = row - self.timeline.offset
        return self.timeline.lanes[number] if 0 <= number < len(self.timeline.lanes) else None

    def item(self, job_id: str) -> AttentionItem | None:
        """The worst that needs attention of a job."""
        return next((item for item in self.attention.items if item.job == job_id), None)


def read_snapshot(operations: Operations, question: Question) -> Snapshot:
    """Everything that one frame needs; the jobs are in the order in which the timeline has them."""
    overview = operations.overview()
    window = question.window
    timeline = operations.timeline(
        to_datetime(window.since),
        to_datetime(window.until),
        question.offset,
        min(question.lanes, LANES_MAX),
        question.search,
        cells=window.cells,
        sort=question.sort,
    )
    steps: dict[str, RunSteps] = {}
    for run in overview.running[: min(question.runs, RUNS_WITH_STEPS_MAX)]:
        try:
            detail = operations.run(run.run)
        except NotFound:
            continue  # retention has deleted it meanwhile
        steps[run.run] = RunSteps(detail.steps, len(detail.depends))
    return Snapshot(
        question, overview, operations.attention(), timeline, operations.queues(), operations.executors(), steps
    )
