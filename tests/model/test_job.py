"""Which jobs have a rule that can keep a due run from starting."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evertick.model.calendar import CalendarRule
from evertick.model.constraint import RequirePreviousSuccess
from evertick.model.instant import MINUTE
from evertick.model.job import After, Job
from evertick.model.policy import Missed, Overlap, OverlapKind, Policy
from evertick.model.routing import KUBERNETES, Routing
from evertick.model.schedule import CalendarSpec, CronSpec

HOURLY = CronSpec("0 * * * *", "UTC")
PLAIN = Job("a", schedules=(HOURLY,))


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"schedules": (HOURLY, CalendarSpec(HOURLY, CalendarRule(), "UTC"))}, id="a calendar"),
        pytest.param({"after": After(("b",))}, id="upstream jobs"),
        pytest.param({"constraints": (RequirePreviousSuccess(),)}, id="a constraint"),
        pytest.param({"queue": "db"}, id="a queue"),
        pytest.param({"routing": Routing(executor="fleet")}, id="members to choose from"),
        pytest.param({"policy": Policy(max_delay_us=MINUTE)}, id="a bound on its delay"),
        pytest.param({"policy": Policy(skip_if_successful=True)}, id="a success before it"),
    ],
)
def test_a_rule_of_the_definition_can_keep_a_run_from_starting(rule):
    assert not replace(PLAIN, **rule).is_unconditional


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({}, id="none"),
        pytest.param({"routing": Routing(executor=KUBERNETES)}, id="a cluster, which chooses by itself"),
        pytest.param({"priority": 9}, id="a priority"),
        pytest.param({"policy": Policy(missed=Missed.ALL, overlap=Overlap(OverlapKind.WAIT))}, id="missed and overlap"),
    ],
)
def test_any_other_rule_leaves_only_an_earlier_run_in_its_way(rule):
    assert replace(PLAIN, **rule).is_unconditional
