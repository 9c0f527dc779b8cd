"""Which steps of a run may start, and the state of the run as a whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.planning.workflow import StepOutcome, find_cycle, ready_steps, run_outcome, unreachable_steps

SUCCEEDED, FAILED, SKIPPED = StepOutcome.SUCCEEDED, StepOutcome.FAILED, StepOutcome.SKIPPED
DIAMOND = {"fetch": (), "left": ("fetch",), "right": ("fetch",), "join": ("left", "right")}


@st.composite
def graphs(draw):
    """Steps that depend only on earlier ones: never a cycle."""
    names = [f"s{number}" for number in range(draw(st.integers(1, 12)))]
    return {
        name: tuple(draw(st.lists(st.sampled_from(names[:place]), unique=True, max_size=4))) if place else ()
        for place, name in enumerate(names)
    }


@pytest.mark.parametrize(
    ("outcomes", "ready"),
    [
        pytest.param({}, ("fetch",), id="first the one that needs nothing"),
        pytest.param({"fetch": SUCCEEDED}, ("left", "right"), id="then both behind it"),
        pytest.param({"fetch": SUCCEEDED, "left": SUCCEEDED}, ("right",), id="a join waits for all"),
        pytest.param(dict.fromkeys(("fetch", "left", "right"), SUCCEEDED), ("join",), id="and then starts"),
        pytest.param({"fetch": FAILED}, (), id="nothing behind a failure"),
        pytest.param({"fetch": SKIPPED}, (), id="nor behind a skip"),
        pytest.param(dict.fromkeys(DIAMOND, SUCCEEDED), (), id="nothing when all have ended"),
    ],
)
def test_a_diamond_of_steps(outcomes, ready):
    assert ready_steps(DIAMOND, outcomes) == ready


def test_a_tolerated_failure_lets_those_behind_it_start():
    assert ready_steps(DIAMOND, {"fetch": FAILED}, tolerated={"fetch"}) == ("left", "right")


@pytest.mark.parametrize(
    ("running", "max_active", "ready"),
    [
        pytest.param((), 1, ("left",), id="one at a time, in the order written"),
        pytest.param(("left",), 1, (), id="no room"),
        pytest.param(("left",), 2, ("right",), id="room for one more, not the running one"),
        pytest.param(("left",), None, ("right",), id="no bound"),
    ],
)
def test_a_bound_on_steps_at_once(running, max_active, ready):
    assert ready_steps(DIAMOND, {"fetch": SUCCEEDED}, running=running, max_active=max_active) == ready


@pytest.mark.parametrize(
    ("depends", "cycle"),
    [
        pytest.param(DIAMOND, None, id="a diamond has none"),
        pytest.param({"a": ("a",)}, ("a", "a"), id="a step that waits for itself"),
        pytest.param({"a": ("b",), "b": ("a",)}, ("a", "b", "a"), id="two that wait for each other"),
        pytest.param({"x": ("a",), "a": ("b",), "b": ("a",)}, ("a", "b", "a"), id="the way in is left out"),
        pytest.param({"a": ("nobody",)}, None, id="an unknown name is another error"),
    ],
)
def test_cycles(depends, cycle):
    assert find_cycle(depends) == cycle


def test_a_chain_of_ten_thousand_steps_has_no_cycle_and_closing_it_has_one():
    chain = {f"s{number}": (f"s{number + 1}",) for number in range(10_000)}
    assert find_cycle(chain) is None
    closed = find_cycle({**chain, "s10000": ("s0",)})
    assert closed is not None
    assert len(closed) == 10_002


@pytest.mark.parametrize(
    ("outcomes", "tolerated", "unreachable"),
    [
        pytest.param({"fetch": FAILED}, (), ("left", "right", "join"), id="everything behind the root"),
        pytest.param({"fetch": SUCCEEDED, "left": FAILED}, (), ("join",), id="the join, not the other side"),
        pytest.param({"fetch": FAILED}, ("fetch",), (), id="nothing behind a tolerated failure"),
        pytest.param({"fetch": SKIPPED}, ("fetch",), ("left", "right", "join"), id="tolerated, but never ran"),
    ],
)
def test_steps_that_can_never_start(outcomes, tolerated, unreachable):
    assert unreachable_steps(DIAMOND, outcomes, tolerated) == unreachable


@pytest.mark.parametrize(
    ("outcomes", "tolerated", "result"),
    [
        pytest.param({}, (), None, id="not begun"),
        pytest.param({"fetch": SUCCEEDED}, (), None, id="under way"),
        pytest.param(dict.fromkeys(DIAMOND, SUCCEEDED), (), SUCCEEDED, id="all succeeded"),
        pytest.param({**dict.fromkeys(DIAMOND, SUCCEEDED), "join": FAILED}, (), FAILED, id="the last failed"),
        pytest.param({**dict.fromkeys(DIAMOND, SUCCEEDED), "left": FAILED}, ("left",), SUCCEEDED, id="tolerated"),
        pytest.param({**dict.fromkeys(DIAMOND, SKIPPED), "fetch": FAILED}, (), FAILED, id="the rest skipped"),
    ],
)
def test_how_a_run_ends(outcomes, tolerated, result):
    assert run_outcome(DIAMOND, outcomes, tolerated) == result


@given(graphs(), st.data())
def test_walking_any_graph_to_its_end_starts_each_step_at_most_once_and_after_what_it_needs(depends, data):
    tolerated = data.draw(st.sets(st.sampled_from(sorted(depends))))
    bound = data.draw(st.none() | st.integers(1, 3))
    outcomes: dict[str, StepOutcome] = {}
    while run_outcome(depends, outcomes, tolerated) is None:
        ready = ready_steps(depends, outcomes, tolerated=tolerated, max_active=bound)
        dead = unreachable_steps(depends, outcomes, tolerated)
        assert not set(ready) & set(dead)
        assert ready or dead, "a run that neither goes on nor ends"
        assert bound is None or len(ready) <= bound
        for step in ready:
            assert step not in outcomes
            assert set(depends[step]) <= set(outcomes)
            outcomes[step] = data.draw(st.sampled_from([SUCCEEDED, FAILED]))
        outcomes |= dict.fromkeys(unreachable_steps(depends, outcomes, tolerated), SKIPPED)
    ended_well = all(
        outcomes[step] is SUCCEEDED or (outcomes[step] is FAILED and step in tolerated) for step in depends
    )
    assert run_outcome(depends, outcomes, tolerated) is (SUCCEEDED if ended_well else FAILED)


@given(graphs())
def test_a_graph_without_a_way_back_has_no_cycle(depends):
    assert find_cycle(depends) is None
