"""Does a program that a job starts receive everything about its run?"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from evertick import RunContext
from evertick.executors.keeper.environment import item_variables, member_variables, run_variables, write_member_file
from evertick.executors.protocol import LaunchMessage
from evertick.model.instant import from_text
from evertick.model.run import RunKey
from evertick.model.work import Item, ItemValue

NINE = from_text("2026-03-02T09:00:00Z")


def test_a_program_finds_its_run_and_its_member_in_the_environment(tmp_path):
    order = LaunchMessage(RunKey("report", NINE), 2, 7, "manual", '{"day": 1}', NINE, "")
    write_member_file(tmp_path, "ex-a", {"zone": "eu"})
    environ = {**run_variables(order, order.key.run_id), **member_variables(tmp_path / "member.json")}
    context = RunContext.from_environment(environ)
    assert (context.job_id, context.run_id, context.attempt, context.fence) == ("report", order.key.run_id, 2, 7)
    assert context.scheduled_for == context.previous_success == datetime(2026, 3, 2, 9, tzinfo=UTC)
    assert (context.trigger, dict(context.params)) == ("manual", {"day": "1"})
    assert (context.member, dict(context.labels)) == ("ex-a", {"zone": "eu"})


def test_on_a_schedulers_own_machine_there_is_no_member(tmp_path):
    assert member_variables(tmp_path / "member.json") == member_variables(None) == {}
    (tmp_path / "member.json").write_text("[1")
    assert member_variables(tmp_path / "member.json") == {}


@pytest.mark.parametrize(
    "item",
    [None, "a b", '{"region": "eu"}', "[1]", {"region": "eu", "size": "s"}],
    ids=["none", "text", "x", "y", "map"],
)
def test_an_item_of_a_step_has_its_value(item):
    value = ItemValue("", tuple(item.items())) if isinstance(item, dict) else ItemValue(item or "")
    environ = {
        **run_variables(LaunchMessage(RunKey("report", 0), 1, 7, "manual", "", None, ""), "report@x"),
        **item_variables(None if item is None else Item("all", 3, value), "report@x"),
    }
    context = RunContext.from_environment(environ)
    assert context.item == item


def test_a_process_of_no_run_gets_an_error():
    with pytest.raises(LookupError, match="EVERTICK_RUN_ID is not set"):
        RunContext.from_environment({})
