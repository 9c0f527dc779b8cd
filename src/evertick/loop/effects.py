"""What the loop asks the world to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from evertick.model.instant import Instant
from evertick.model.job import Job
from evertick.model.ledger import Batch
from evertick.model.lifecycle import Trigger
from evertick.model.report import AttemptQuestion
from evertick.model.run import Change, RunKey
from evertick.model.schedule import ScheduleSpec
from evertick.model.subrun import SubRunEnd
from evertick.model.work import Value


class Commit(NamedTuple):
    """Write the batch, in the order of the numbers; answered by `BatchCommitted` or `BatchFenced`."""

    number: int
    batch: Batch
    schedules: Mapping[str, tuple[ScheduleSpec, ...]] = MappingProxyType({})
    """For jobs with a gap in the batch: if the ledger has entries inside the gap, it is written around them."""


class Record(NamedTuple):
    """Write the outcomes of runs, after every commit requested before; answered by `ChangesRecorded`."""

    number: int
    changes: Sequence[Change]


class Launch(NamedTuple):
    """Start an attempt now; answered by `RunStarted`, `RunFinished`, `RunLost` or `LaunchRefused`."""

    key: RunKey
    attempt: int
    fence: int
    job: Job
    trigger: Trigger
    params: str
    previous_success_at: Instant | None
    executor: str = ""
    """Where it was placed: this machine, or members of the fleet."""
    valid_until: Instant | None = None
    """When the lease of its bucket ends, as known when it was decided; None: there is no other node."""
    is_confirmed: bool = True
    """Whether the ledger has recorded the launch; otherwise the record follows the launch."""
    borrows: bool = False
    """Whether it uses the resources of the run that waits for it."""


class Stop(NamedTuple):
    """Stop an attempt; the executor reports its end like any other."""

    key: RunKey
    attempt: int
    detail: str


class Reconcile(NamedTuple):
    """Ask the executors about these attempts, which an earlier process may have started."""

    runs: Sequence[AttemptQuestion]


class LookUpSubRuns(NamedTuple):
    """Read the state of these runs, for which steps wait; answered by `SubRunsSeen`."""

    keys: Sequence[RunKey]


class ReportSubRunEnd(NamedTuple):
    """Tell a step that waits for a run of another job how that run ended."""

    key: RunKey
    attempt: int
    step: str
    number: int
    end: SubRunEnd


class LookUpPlacements(NamedTuple):
    """Read where a job ran last; answered by `PlacementsSeen`."""

    job_id: str


class LookUpOutcomes(NamedTuple):
    """Read how the last runs of these jobs ended, for a run that is due; answered by `OutcomesSeen`."""

    key: RunKey
    job_ids: Sequence[str]


class LookUpStops(NamedTuple):
    """Read which of these runs their owners want stopped; answered by `StopsSeen`."""

    keys: Sequence[RunKey]
    executor: str
    """Where they run; entries that have moved elsewhere are ignored."""


class Audit(NamedTuple):
    """Read open entries that were due by `until`, after every write requested before; answered by `OpenRunsSeen`."""

    number: int
    until: Instant
    after: RunKey | None
    limit: int


class ReadReports(NamedTuple):
    """Read what other nodes reported for these buckets; answered by those reports, then by `ReportsRead`."""

    number: int
    buckets: Sequence[int]


class Release(NamedTuple):
    """Release these buckets to other nodes, after everything requested before is written."""

    buckets: Sequence[int]


class Log(NamedTuple):
    """An event, in the words of the glossary."""

    event: str
    fields: Mapping[str, object]
    is_alarming: bool = False


class Notify(NamedTuple):
    """Send a notification about a run."""

    job: Job
    event: str
    key: RunKey
    url: Value
    detail: str = ""
    """What is known about it, as text."""


class Resync(NamedTuple):
    """Read all definitions again; answered by `DefinitionsResynced`."""


Effect: TypeAlias = (
    Commit
    | Record
    | Launch
    | Stop
    | Reconcile
    | LookUpPlacements
    | LookUpSubRuns
    | LookUpOutcomes
    | LookUpStops
    | Audit
    | ReadReports
    | ReportSubRunEnd
    | Release
    | Log
    | Notify
    | Resync
)


class Decision(NamedTuple):
    effects: Sequence[Effect]
    wake_at: Instant
    """Run the loop again then, or when there is a message."""
