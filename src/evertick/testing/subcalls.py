"""Steps that wait for runs, of other jobs or of their own items: which run an attempt requests, and its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from evertick.model.job import Job
from evertick.model.lifecycle import FAILED, SUCCEEDED, TIMED_OUT, RunState, Trigger
from evertick.model.run import LedgerRow, RunKey
from evertick.model.steps import RUNNING, StepRecord, steps_text
from evertick.model.subrun import sub_run_key
from evertick.model.work import SubJob, spreads_items
from evertick.planning.items import item_name
from evertick.testing.invariants import Violation

_SAID: Final = (SUCCEEDED, FAILED, TIMED_OUT)
NUMBER: Final = 1
"""Simulated steps are tried once."""


class Call(NamedTuple):
    """A step that waits for a run: of another job, or of an item of its own."""

    step: str
    job_id: str

    def key_for(self, parent: RunKey, attempt: int) -> RunKey:
        return sub_run_key(self.job_id, parent, attempt, self.step, NUMBER)

    def steps_for(self, parent: RunKey, attempt: int) -> str:
        """How the steps of an attempt stand that waits."""
        return steps_text([StepRecord(self.step, RUNNING, attempt, sub_run=self.key_for(parent, attempt).run_id)])

    def is_item_of(self, parent: RunKey) -> bool:
        return self.job_id == parent.job_id


def call_of(job: Job, trigger: str) -> Call | None:
    """What a run of the job asks for; None: it asks for nothing."""
    if trigger == Trigger.ITEM:
        return None
    for step in job.work.steps:
        if spreads_items(step) and job.routing.may_spread_items:
            return Call(item_name(step.name, 0), job.id)
        if isinstance(step.kind, SubJob):
            return Call(step.name, step.kind.job_id)
    return None


class SubRunWatch:
    """Remembers the outcomes that steps received, and compares them with the ledger at the end."""

    def __init__(self, rows: Mapping[RunKey, LedgerRow] | None = None) -> None:
        self._rows: Mapping[RunKey, LedgerRow] = {} if rows is None else rows
        self._told: dict[RunKey, RunState] = {}
        self._refused: set[RunKey] = set()
        """Runs that were not in the ledger when their steps heard that they had failed: they need not become so."""

    @property
    def reported(self) -> int:
        """How many steps have heard how their run ended."""
        return len(self._told)

    def report(self, key: RunKey, state: RunState) -> RunState:
        """A step receives the outcome of its run; returns the outcome of the step."""
        before = self._told.setdefault(key, state)
        if state is FAILED and key not in self._rows:
            self._refused.add(key)
        if before is not state:
            raise Violation(f"{key.run_id}: its step was told that it had {before}, and then that it had {state}")
        return SUCCEEDED if state is SUCCEEDED else FAILED

    def check(self, rows: Mapping[RunKey, LedgerRow]) -> None:
        """Check that the ledger agrees with the outcomes that steps received."""
        for key, state in self._told.items():
            row = rows.get(key)
            if row is None and state is not FAILED:
                raise Violation(f"{key.run_id} is not in the ledger, and its step was told that it had {state}")
            # A node that dies before the end is written leaves a run that is lost, or is made again, and then cancelled
            # because its parent has gone on. What its executor said of it is never turned into something else.
            is_said = state in _SAID and key not in self._refused
            if row is not None and row.state in _SAID and is_said and row.state is not state:
                raise Violation(f"{key.run_id} is {row.state}, and its step was told that it had {state}")
