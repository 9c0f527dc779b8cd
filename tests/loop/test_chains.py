"""Jobs that run after other jobs."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

from evertick.loop.messages import PauseJob, ResumeJob, UpstreamEnded
from evertick.model.facts import read_facts
from evertick.model.instant import MINUTE, SECOND, to_text
from evertick.model.job import After, AfterEnd, AfterMode
from evertick.model.ledger import RequestKind
from evertick.model.lifecycle import FAILED
from evertick.model.policy import Retry
from evertick.operations.requests import message_of
from tests.loop.harness import WAIT, Act, World, at, job, world

SHORT = re.compile(r"[A-Za-z0-9@:.~_-]{1,59}")


def after(*upstream: str, mode: AfterMode = AfterMode.ALL, on: AfterEnd = AfterEnd.SUCCESS, name: str = "z"):
    """A job that only runs after others."""
    return replace(job(name), schedules=(), after=After(upstream, mode, on))


def claim(here: World) -> list[str]:
    """What the dispatcher does each second: bring unanswered requests to the loop."""
    requests = [request for request in here.store.claim(None, 100) if request.kind is RequestKind.CHAIN]
    here.say(*map(message_of, requests))
    return [request.id for request in requests]


def test_a_success_starts_the_job_after_it():
    here = world(job("a"), after("a"))
    here.run_until("09:00:05")
    claim(here)
    here.run_for(5 * SECOND)
    assert here.ledger("z") == ["09:00 succeeded chained"]
    assert claim(here) == []


@pytest.mark.parametrize(
    ("on", "after_success", "after_failure"),
    [
        pytest.param(AfterEnd.SUCCESS, True, False, id="success"),
        pytest.param(AfterEnd.FAILURE, False, True, id="failure"),
        pytest.param(AfterEnd.END, True, True, id="end"),
    ],
)
def test_the_end_that_counts_starts_the_job_after_it(on, after_success, after_failure):
    for outcome, starts in ((None, after_success), (FAILED, after_failure)):
        here = world(job("a"), after("a", on=on))
        if outcome is not None:
            here.act("a", Act(state=outcome))
        here.run_until("09:00:05")
        claim(here)
        here.run_for(5 * SECOND)
        assert here.ledger("z") == (["09:00 succeeded chained"] if starts else [])


def test_a_failure_counts_when_no_attempt_is_left():
    here = world(job("a", retry=Retry(1, 2 * MINUTE)), after("a", on=AfterEnd.FAILURE))
    here.act("a", Act(state=FAILED))
    here.run_until("09:01")
    assert claim(here) == []
    here.run_for(10 * MINUTE)
    assert len(claim(here)) == 1
    here.run_for(5 * SECOND)
    assert here.ledger("z") == ["09:00 succeeded chained"]


def test_all_of_several_may_end_in_different_ways():
    here = world(job("a"), job("b"), after("a", "b", on=AfterEnd.END))
    here.act("b", Act(state=FAILED))
    here.run_until("09:00:05")
    claim(here)
    here.run_for(5 * SECOND)
    (row,) = here.rows("z")
    assert len(read_facts(row.facts).parents) == 2


def test_a_skipped_occurrence_is_not_an_end():
    here = world(job("a"), after("a", on=AfterEnd.END))
    here.act("a", Act(lasts_us=90 * MINUTE))
    here.run_until("10:00:05")
    assert claim(here) == []


def test_an_end_that_no_longer_counts_is_ignored():
    """The job was edited while the message was under way, or the node that sent it had an older definition."""
    here = world(job("a"), after("a", on=AfterEnd.FAILURE))
    here.say(UpstreamEnded("c1", "z", "a", here.now))
    here.run_for(SECOND)
    assert here.ledger("z") == []


def test_the_runs_it_came_from_are_fields_and_not_its_id():
    here = world(job("a"), job("b"), after("a", "b"))
    here.run_until("09:00:05")
    claim(here)
    here.run_for(5 * SECOND)
    (row,) = here.rows("z")
    assert {parent.run for parent in read_facts(row.facts).parents} == {
        f"{name}@{to_text(at('09:00'))}" for name in ("a", "b")
    }
    assert SHORT.fullmatch(row.key.run_id)


def test_an_occurrence_that_waited_names_the_runs_it_waited_for():
    here = world(job("a"), replace(job("z"), after=After(("a",))))
    here.act("a", Act(lasts_us=MINUTE))
    here.run_until("09:02")
    claim(here)
    here.run_for(5 * SECOND)
    row = here.rows("z")[0]
    assert [parent.run for parent in read_facts(row.facts).parents] == [f"a@{to_text(at('09:00'))}"]


def test_ids_stay_short_however_long_the_chain_is():
    names = [f"warehouse-load-{number}" for number in range(8)]
    links = [after(before, name=name) for before, name in pairwise(names)]
    here = world(job(names[0]), *links)
    here.run_until("09:00:05")
    for _ in links:
        claim(here)
        here.run_for(5 * SECOND)
    ids = [row.key.run_id for name in names for row in here.rows(name)]
    assert len(ids) == len(names)
    assert all(SHORT.fullmatch(one) for one in ids), ids


def test_a_failure_does_not():
    here = world(job("a"), after("a"))
    here.act("a", Act(state=FAILED))
    here.run_until("09:00:05")
    assert claim(here) == []
    assert here.ledger("z") == []


def test_a_join_waits_for_all_of_them():
    here = world(job("a"), job("b"), after("a", "b"))
    here.act("b", Act(lasts_us=10 * MINUTE))
    here.run_until("09:05")
    claim(here)
    here.run_for(SECOND)
    assert here.ledger("z") == []
    here.run_until("09:11")
    claim(here)
    here.run_for(5 * SECOND)
    assert here.ledger("z") == ["09:00 succeeded chained"]


def test_any_of_them_is_enough_with_mode_any():
    here = world(job("a"), job("b"), after("a", "b", mode=AfterMode.ANY))
    here.act("b", Act(lasts_us=None))
    here.run_until("09:00:05")
    claim(here)
    here.run_for(5 * SECOND)
    assert here.ledger("z") == ["09:00 succeeded chained"]


def test_a_success_claimed_again_before_it_was_used_counts_once():
    here = world(job("a"), job("b"), after("a", "b"))
    here.act("b", Act(lasts_us=None))
    here.run_until("09:00:05")
    assert claim(here) == claim(here)
    here.finish("b")
    claim(here)
    claim(here)
    here.run_for(5 * SECOND)
    assert here.ledger("z") == ["09:00 succeeded chained"]


def test_the_success_and_the_word_of_it_are_written_together_so_a_crash_loses_neither():
    here = world(job("a"), after("a"))
    here.run_until("09:00:05")
    here.restart(after=SECOND)
    claim(here)
    here.run_for(5 * SECOND)
    assert here.ledger("z") == ["09:00 succeeded chained"]


def test_a_join_half_done_survives_a_restart():
    here = world(job("a"), job("b"), after("a", "b"))
    here.act("b", Act(lasts_us=10 * MINUTE))
    here.run_until("09:05")
    claim(here)
    here.restart(after=SECOND)
    here.run_until("09:11")
    claim(here)
    here.run_for(5 * SECOND)
    assert here.ledger("z") == ["09:00 succeeded chained"]


def test_a_chain_of_three():
    here = world(job("a"), after("a", name="y"), after("y", name="z"))
    here.run_until("09:00:05")
    claim(here)
    here.run_for(5 * SECOND)
    claim(here)
    here.run_for(5 * SECOND)
    assert (here.ledger("y"), here.ledger("z")) == (["09:00 succeeded chained"], ["09:00 succeeded chained"])


def test_an_occurrence_of_its_own_schedule_waits_for_the_job_before_it():
    here = world(job("a"), replace(job("z"), after=After(("a",)), policy=replace(job("z").policy, overlap=WAIT)))
    here.act("a", Act(lasts_us=10 * MINUTE))
    here.run_until("09:05")
    assert here.ledger("z") == ["09:00 waiting"]
    here.run_until("09:10:05")
    claim(here)
    here.run_for(5 * SECOND)
    assert here.ledger("z") == ["09:00 succeeded"]
    assert claim(here) == []


def test_a_paused_job_runs_after_it_is_resumed():
    here = world(job("a"), after("a"))
    here.say(PauseJob("p", "z"))
    here.run_until("09:00:05")
    claim(here)
    here.run_for(SECOND)
    assert here.ledger("z") == []
    here.say(ResumeJob("r", "z"))
    here.run_for(5 * SECOND)
    assert here.ledger("z") == ["09:00 succeeded chained"]


def test_word_for_a_job_that_no_longer_runs_after_it_is_answered_and_ignored():
    here = world(job("a"), job("z"))
    here.say(UpstreamEnded("c1", "z", "a", here.now))
    assert here.ledger("z") == []
