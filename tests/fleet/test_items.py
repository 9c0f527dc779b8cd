"""Items of a step on a fleet: where they run, what they receive, and what they return."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from evertick.model.instant import SECOND
from evertick.model.lifecycle import Trigger
from evertick.model.run import LedgerRow, RunKey
from evertick.model.steps import StepRecord, read_steps
from evertick.store import RunFilter
from evertick.stores import open_store
from tests.cli.invoke import completed
from tests.fleet.local_fleet import LocalFleet, Process, wait_for
from tests.processes.proof import verified

pytestmark = pytest.mark.slow

NAMES = ("ex-a", "ex-b", "ex-c")
LEASE_US = 20 * SECOND
"""One test waits until it has run out; no machine is so slow that it does so in another."""
JOBS = {
    "spread": """
        runsOn: {pool: wide}
        params: {GREETING: hello}
        steps:
          - {name: list, command: "printf '%s\\\\n' a b c d e f", output: LIST}
          - name: all
            each: {from: list, maxParallel: 3}
            command: |
              echo "$GREETING $EVERTICK_RUN_ITEM on $EVERTICK_RUN_MEMBER of $EVERTICK_RUN_PARENT for $LIST" >&2
              echo "$EVERTICK_RUN_ITEM.$EVERTICK_RUN_INDEX.$EVERTICK_RUN_TRIGGER.$EVERTICK_RUN_DATE"
            output: ALL
          - {name: last, command: 'echo "$ALL"', depends: all, output: SAID}
    """,
    "together": """
        runsOn: {pool: wide}
        steps:
          - {name: all, each: {values: [a, b, c], spread: false}, command: echo $EVERTICK_RUN_MEMBER, output: ALL}
    """,
    "secret": """
        runsOn: {pool: wide}
        env: {TOKEN: {env: ITEMS_TOKEN}}
        steps:
          - {name: list, command: 'printf "%s\\\\n" plain "$TOKEN"', output: LIST}
          - {name: all, each: {from: list}, command: echo $EVERTICK_RUN_MEMBER, output: ALL, depends: list}
    """,
    "long": """
        runsOn: {pool: wide}
        steps:
          - {name: all, each: [a], command: "head -c 5000 /dev/zero | tr '\\\\0' x", output: ALL}
    """,
    "some": """
        runsOn: {pool: wide}
        steps:
          - name: all
            each: {values: [good, bad], continueOnFailure: true}
            command: 'test "$EVERTICK_RUN_ITEM" = good || test -e FLAG'
    """,
    "lasting": """
        runsOn: {pool: wide}
        steps:
          - name: all
            each: {values: [a, b, c], maxParallel: 3}
            command: 'trap "sleep 1; echo the end; exit 1" TERM; touch FLAG.$EVERTICK_RUN_ITEM; sleep 1000 & wait'
    """,
    "waiting": """
        runsOn: {pool: wide}
        steps:
          - name: all
            each: {values: [a, b, c], maxParallel: 3}
            command: 'until test -e FLAG; do sleep 0.05; done; echo $EVERTICK_RUN_MEMBER.$EVERTICK_RUN_ATTEMPT'
            output: ALL
    """,
    "orphaned": """
        runsOn: {pool: wide}
        steps:
          - name: all
            each: {values: [a, b, c, d], maxParallel: 3}
            command: 'until test -e FLAG; do sleep 0.05; done; echo $EVERTICK_RUN_ITEM'
            output: ALL
    """,
    "edited": """
        runsOn: {pool: wide}
        steps:
          - name: all
            each: {values: [a, b, c, d], maxParallel: 2}
            command: 'until test -e FLAG; do sleep 0.05; done; echo before.$EVERTICK_RUN_ITEM'
            output: ALL
    """,
    "narrow": """
        runsOn: {pool: narrow}
        overlap: parallel(3)
        resources: {licenses: 1}
        steps:
          - {name: all, each: [a, b], command: echo $EVERTICK_RUN_MEMBER, output: ALL}
    """,
}


class Place:
    """A folder of jobs, a fleet of members, and a scheduler."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.local_fleet = LocalFleet(folder / "fleet")
        self.local_fleet.folder.mkdir()
        self.jobs = folder / "jobs"
        self.jobs.mkdir()
        for name, text in JOBS.items():
            lines = [
                line[8:].replace("FLAG", str(self.flag(name))) if "FLAG" in line else line[8:]
                for line in text.strip("\n").splitlines()
            ]
            (self.jobs / f"{name}.yaml").write_text("\n".join(lines) + "\n")
        self.url = f"sqlite:///{self.jobs / '.evertick' / 'ledger.db'}"

    def flag(self, job: str) -> Path:
        return self.folder / f"{job}.flag"

    def start(self) -> None:
        self.local_fleet.start()
        for name in NAMES:
            self.local_fleet.join(name, "--label", "pool=wide", lease_us=LEASE_US)
        self.local_fleet.join(
            "ex-n",
            "--label",
            "pool=narrow",
            "--slots",
            "1",
            "--resource",
            "licenses=1",
            lease_us=LEASE_US,
        )
        words = ("serve", str(self.jobs), "--fleet", self.local_fleet.url, "--no-web", "--patience", "1")
        environ = {"ITEMS_TOKEN": "sesame-open-wide", "EVERTICK_FLEET_LEASE": f"{LEASE_US // SECOND}s"}
        self.scheduler = Process(*words, log=self.folder / "serve.log", env=environ)
        wait_for(lambda: (self.jobs / ".evertick" / "ledger.db").exists(), "the ledger")
        self.local_fleet.wait_for_all()

    def say(self, *words: str) -> str:
        done = completed(*words, "--folder", str(self.jobs))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def trigger(self, job: str) -> RunKey:
        before = {row.key for row in self.rows(job)}
        self.say("trigger", job)
        (key,) = wait_for(lambda: {row.key for row in self.rows(job)} - before, f"a run of {job}")
        return key

    def rows(self, job: str, *triggers: Trigger) -> list[LedgerRow]:
        store = open_store(self.url)
        try:
            return list(store.query(RunFilter(job_ids=[job], triggers=triggers), limit=1_000).rows)
        finally:
            store.close()

    def items(self, job: str) -> list[LedgerRow]:
        return self.rows(job, Trigger.ITEM)

    def row(self, key: RunKey) -> LedgerRow:
        return next(row for row in self.rows(key.job_id) if row.key == key)

    def ended(self, key: RunKey, state: str = "succeeded") -> LedgerRow:
        wait_for(lambda: self.row(key).finished_at is not None, f"the end of {key.run_id}")
        row = self.row(key)
        assert row.state == state, (row, read_steps(row.steps))
        return row

    def close(self) -> None:
        self.scheduler.stop()
        self.local_fleet.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    here = Place(tmp_path_factory.mktemp("items"))
    try:
        here.start()
        yield here
    finally:
        here.close()


def steps_of(row: LedgerRow) -> dict[str, StepRecord]:
    return {step.name: step for step in read_steps(row.steps)}


def output_of(row: LedgerRow, step: str = "all") -> list[str]:
    found = json.loads(steps_of(row)[step].output or "")
    assert isinstance(found, list)
    return found


def test_items_run_on_all_members_and_their_outputs_are_in_order(place):
    key = place.trigger("spread")
    row = place.ended(key)
    told = [one.split(".") for one in output_of(row)]
    assert [(item, number, trigger) for item, number, trigger, _ in told] == [
        (item, str(number), "manual") for number, item in enumerate("abcdef")
    ]
    items = sorted(step for step in read_steps(row.steps) if step.item_of == "all")
    assert {step.executor for step in items} == {f"fleet:{name}" for name in NAMES}
    assert [(step.state, step.exit_code, step.tries, step.item) for step in items] == [
        ("succeeded", 0, 1, item) for item in "abcdef"
    ]
    assert all(step.sub_run and step.started_at and step.finished_at and step.max_rss_bytes for step in items)
    assert json.loads(steps_of(row)["last"].output or "") == output_of(row)


def test_the_log_of_an_item_is_read_by_the_id_of_its_parent(place):
    key = place.trigger("spread")
    row = place.ended(key)
    member = steps_of(row)["all[1]"].executor.removeprefix("fleet:")
    said = wait_for(lambda: place.say("logs", key.run_id, "--step", "all[1]"), "the log")
    assert f"hello b on {member} of {key.run_id} for a\nb\nc\nd\ne\nf\n" in said


def test_runs_of_items_are_listed_only_where_they_are_asked_for(place):
    key = place.trigger("spread")
    place.ended(key)
    listed = json.loads(place.say("history", "spread", "-o", "json"))["items"]
    assert all(run["trigger"] != "item" for run in listed)
    items = json.loads(place.say("history", "spread", "--trigger", "item", "--limit", "1000", "-o", "json"))["items"]
    own = [run for run in items if run["scheduled_for"] == listed[0]["scheduled_for"]]
    assert len(own) == 6
    assert f"an item of {key.run_id}" in place.say("why", own[0]["run"])


def test_the_scheduler_prints_the_start_of_a_run_and_not_of_its_items(place):
    place.ended(place.trigger("spread"))
    printed = (place.folder / "serve.log").read_text()
    assert printed.count("started    spread\n") == len(place.rows("spread"))


def test_items_that_are_kept_together_run_on_the_member_of_their_run(place):
    key = place.trigger("together")
    row = place.ended(key)
    assert output_of(row) == [row.executor.removeprefix("fleet:")] * 3
    assert place.items("together") == []


def test_an_item_whose_value_holds_a_secret_stays_where_its_run_is(place):
    """So does every other: the list is in the environment of each, and holds the secret too."""
    key = place.trigger("secret")
    row = place.ended(key)
    assert output_of(row) == [row.executor.removeprefix("fleet:")] * 2
    assert place.items("secret") == []


def test_an_output_over_the_limit_fails_its_item_and_names_the_limit(place):
    key = place.trigger("long")
    row = place.ended(key, "failed")
    assert "more than 4,096 characters" in steps_of(row)["all[0]"].detail
    assert "each: {spread: false}" in steps_of(row)["all[0]"].detail


def test_a_retry_from_the_failed_step_repeats_the_failed_items_only(place):
    key = place.trigger("some")
    place.ended(key, "failed")
    place.flag("some").touch()
    before = {row.key for row in place.rows("some")}
    place.say("retry", key.run_id, "--from-failed")
    (again,) = wait_for(lambda: {row.key for row in place.rows("some")} - before, "the retry")
    steps = steps_of(place.ended(again))
    assert (steps["all[0]"].reused_from, steps["all[1]"].reused_from) == (key.run_id, "")
    assert len(place.items("some")) == 3


def test_cancelling_the_run_ends_its_items(place):
    key = place.trigger("lasting")
    wait_for(lambda: sum(row.state == "running" for row in place.items("lasting")) == 3, "three items")
    wait_for(lambda: all(place.flag("lasting").with_suffix(f".flag.{one}").exists() for one in "abc"), "three traps")
    place.say("cancel", key.run_id)
    row = place.ended(key, "cancelled")
    # With the run all of it has ended: the next one may start.
    assert [row.state for row in place.items("lasting")] == ["cancelled"] * 3
    assert all(step.executor for step in read_steps(row.steps) if step.item_of)
    assert "the end" in wait_for(lambda: place.say("logs", key.run_id, "--step", "all[2]"), "the log")


def test_a_single_slot_and_a_single_license_are_enough(place):
    """Three runs want the slot and the license of one member, each for itself and for its items."""
    keys = [place.trigger("narrow") for _ in range(3)]
    for key in keys:
        assert output_of(place.ended(key)) == ["ex-n"] * 2


def test_the_keeper_of_the_run_is_killed_and_no_item_of_its_attempt_goes_on(place):
    """Nobody could collect them: the next attempt asks for all items anew, and those before it are stopped."""
    key = place.trigger("orphaned")
    wait_for(lambda: sum(row.state == "running" for row in place.items("orphaned")) == 3, "three items")
    before = {row.key for row in place.items("orphaned")}
    os.kill(place.local_fleet.keeper_of(place.row(key).executor.removeprefix("fleet:")), 9)
    wait_for(lambda: place.row(key).attempt == 2, "a second attempt")
    wait_for(lambda: all(row.finished_at for row in place.items("orphaned") if row.key in before), "their end")
    place.flag("orphaned").touch()
    assert output_of(place.ended(key)) == ["a", "b", "c", "d"]
    states = {row.key: row.state for row in place.items("orphaned")}
    assert {states.pop(one) for one in before} == {"cancelled"}
    assert list(states.values()) == ["succeeded"] * 4


def test_a_run_whose_job_is_edited_ends_as_it_began(place):
    """Its remaining items stay with it: another member would run the new definition."""
    key = place.trigger("edited")
    wait_for(lambda: sum(row.state == "running" for row in place.items("edited")) == 2, "two items")
    file = place.jobs / "edited.yaml"
    file.write_text(file.read_text().replace("maxParallel: 2", "maxParallel: 1").replace("before.", "after."))
    wait_for(lambda: "changed    edited" in (place.folder / "serve.log").read_text(), "the edit")
    place.flag("edited").touch()
    row = place.ended(key)
    assert output_of(row) == [f"before.{one}" for one in "abcd"]
    elsewhere = [row for row in place.items("edited") if row.state == "succeeded"]
    assert len(elsewhere) == 2


def test_a_member_that_is_killed_loses_nothing(place):
    """Its item runs on another member, and the run, which was elsewhere, goes on."""
    key = place.trigger("waiting")
    wait_for(lambda: sum(row.state == "running" for row in place.items("waiting")) == 3, "three items")
    home = place.row(key).executor.removeprefix("fleet:")
    gone = next(
        row.executor.removeprefix("fleet:") for row in place.items("waiting") if not row.executor.endswith(home)
    )
    keeper = place.local_fleet.keeper_of(gone)
    place.local_fleet.members[gone].kill()
    os.kill(keeper, 9)
    shutil.rmtree(place.local_fleet.folder / gone / "keeper-0", ignore_errors=True)
    wait_for(lambda: any(row.attempt == 2 for row in place.items("waiting")), "a second attempt of an item")
    place.flag("waiting").touch()
    told = output_of(place.ended(key))
    assert sorted(one.rpartition(".")[2] for one in told) == ["1", "1", "2"]
    assert gone not in {one.rpartition(".")[0] for one in told}


def test_the_ledger_of_all_this_is_right(place):
    verified(place.url)
