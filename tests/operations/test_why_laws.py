"""Whether `why` has a true answer for every time, whatever the planner decided."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evertick.model.instant import HOUR, MINUTE
from evertick.model.lifecycle import SKIPPED
from evertick.model.policy import Missed, Policy
from evertick.model.run import RunKey
from evertick.operations.verification import verify_store
from evertick.operations.why import explain_occurrence
from evertick.planning.planner import JobView, plan
from evertick.planning.schedules import compile_all, occurrences
from evertick.stores.memory import MemoryStore
from tests.operations.ledger import MIDNIGHT, fill, job

POLICIES = st.builds(
    Policy,
    missed=st.sampled_from(Missed),
    catchup_window_us=st.sampled_from([None, HOUR, 6 * HOUR]),
    max_delay_us=st.sampled_from([None, 90 * MINUTE]),
    backlog_max=st.integers(1, 5),
)


@given(POLICIES, st.integers(1, 30 * 60), st.integers(-120, 40 * 60))
def test_every_minute_is_answered_as_the_ledger_has_it(policy, away_minutes, asked_minutes):
    one = replace(job(), policy=policy)
    now = MIDNIGHT + away_minutes * MINUTE
    store = MemoryStore()
    decided = plan(JobView(one, MIDNIGHT - 1), now, 0)
    fill(store, *decided.entries, watermark=(decided.watermark - MIDNIGHT) / HOUR, one=one)
    assert verify_store(store).is_sound

    asked = MIDNIGHT + asked_minutes * MINUTE
    answer = explain_occurrence(store, one.id, RunKey(one.id, asked), {one.id: one}, now)
    due = asked in occurrences(compile_all(one.schedules), MIDNIGHT - 3 * HOUR, MIDNIGHT + 41 * HOUR)
    if not due:
        assert answer.outcome == "no occurrence"
    elif asked > now:
        assert answer.outcome == "due"
    elif asked < MIDNIGHT:
        assert answer.outcome == "unknown"
    else:
        assert answer.row is not None
        assert answer.row.key.scheduled_for <= asked <= (answer.row.through or answer.row.key.scheduled_for)
        assert (answer.row.state is SKIPPED) is answer.verdict.startswith("skipped: ")
    assert answer.sentences
