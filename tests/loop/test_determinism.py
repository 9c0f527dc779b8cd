"""The same messages at the same times have the same effects; and every occurrence is accounted for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evertick.loop.decide import decide
from evertick.loop.messages import (
    BackfillJob,
    CancelRun,
    ForwardedReport,
    PauseJob,
    ResumeJob,
    RunFinished,
)
from evertick.loop.state import State
from evertick.model.instant import MINUTE, SECOND
from evertick.model.ledger import RequestKind, bucket_of
from evertick.model.lifecycle import FAILED, TERMINAL, RunState
from evertick.model.policy import Missed
from evertick.model.run import RunKey
from evertick.model.schedule import CronSpec, EverySpec
from evertick.settings.parts import LoopSettings
from tests.loop.executor import Act
from tests.loop.harness import LATEST, REPLACE, SKIP, WAIT, World, at, catching_up, job, parallel, retries, world
from tests.planning.planner_model import instants_of
from tests.present import present

MINUTELY = EverySpec(MINUTE)
POLICIES = {
    "none": {"overlap": SKIP},
    "skip": catching_up("skip"),
    "all": catching_up("all", backlog_max=20),
    "latest": catching_up("latest"),
    "replace": {"overlap": REPLACE, "missed": Missed.LATEST},
    "parallel": {"overlap": parallel(2), "missed": Missed.ALL, "backlog_max": 20},
}
acts = st.builds(
    Act,
    lasts_us=st.sampled_from([0, SECOND, 40 * SECOND, 5 * MINUTE]),
    state=st.sampled_from([Act().state, FAILED]),
    refused=st.sampled_from([False, False, False, True]),
    stop_takes_us=st.sampled_from([0, 20 * SECOND]),
)
spans = st.sampled_from([SECOND, 4 * SECOND, 59 * SECOND, 2 * MINUTE, 7 * MINUTE])
steps = st.one_of(
    st.tuples(st.just("run"), spans),
    st.tuples(st.just("stall"), spans),
    st.tuples(st.just("restart"), spans),
    st.tuples(st.just("crash"), spans),
    st.tuples(st.just("jump"), st.sampled_from([-3 * MINUTE, -10 * SECOND, 10 * SECOND, 5 * MINUTE])),
    st.tuples(st.just("pause"), st.sampled_from(sorted(POLICIES))),
    st.tuples(st.just("resume"), st.sampled_from(sorted(POLICIES))),
    st.tuples(st.just("trigger"), st.sampled_from(sorted(POLICIES))),
    st.tuples(st.just("cancel"), st.sampled_from(sorted(POLICIES))),
    st.tuples(st.just("disable"), st.sampled_from(sorted(POLICIES))),
    st.tuples(st.just("enable"), st.sampled_from(sorted(POLICIES))),
    st.tuples(st.just("lose"), st.sampled_from(sorted(POLICIES))),
    st.tuples(st.just("steal"), st.sampled_from(sorted(POLICIES))),
    st.tuples(st.just("gain"), st.sampled_from(sorted(POLICIES))),
    st.tuples(st.just("ledger"), st.booleans()),
)

within_one_process = steps.filter(lambda step: step[0] not in ("restart", "crash"))


def flush(here: World) -> None:
    here.is_ledger_away = False
    here.write()
    here.settle()


def gain(here: World, name: str) -> None:
    """Own the bucket of a job, hear what its runs came to meanwhile."""
    flush(here)
    if not here.state.owns(name):
        here.say(here.gain([bucket_of(name)]))
    for request in here.store.claim([bucket_of(name)], 1_000):
        if request.kind is RequestKind.REPORT:
            told = json.loads(request.payload)
            key = RunKey.from_run_id(told["run_id"])
            report = RunFinished(key, told["attempt"], told["at"], RunState(told["state"]), told["exit_code"])
            here.say(ForwardedReport(request.id, report))


def play(here: World, script: list[tuple[str, Any]]) -> None:
    for number, (what, value) in enumerate(script):
        match what:
            case "run":
                here.run_for(value)
            case "stall":
                here.stall(value)
                here.settle()
            case "jump":
                here.jump(value)
                here.settle()
            case "restart":
                flush(here)
                here.restart(after=value)
            case "crash":  # with a ledger that is away, what was not written yet dies too
                here.is_ledger_away = False
                here.restart(after=value)
            case "disable":
                here.define(replace(here.jobs[value], enabled=False))
            case "enable":
                here.define(replace(here.jobs[value], enabled=True))
            case "lose":
                here.say(here.lost(bucket_of(value)))
            case "steal":
                flush(here)
                here.steal(bucket_of(value))
            case "gain":
                gain(here, value)
            case "pause":
                here.say(PauseJob(f"q{number}", value))
            case "resume":
                here.say(ResumeJob(f"q{number}", value))
            case "trigger":
                here.trigger(value, f"q{number}")
            case "cancel":
                here.say(CancelRun(f"q{number}", value))
            case "ledger":
                here.is_ledger_away = value
                here.write()
                here.settle()


def come_to_rest(here: World) -> None:
    """Let everything end: the ledger is back, nobody is paused, runs are short."""
    flush(here)
    here.run_for(2 * here.settings.flush_us)  # so that it notices what was stolen
    for name in POLICIES:
        gain(here, name)
        here.act(name, Act())
        here.define(replace(here.jobs[name], enabled=True))
        here.say(ResumeJob(f"rest-{name}", name))
    newest = max(here.state.watermark_of(one) for one in here.state.jobs.values())
    here.run_until(max(here.now, newest) + 6 * MINUTE + 30 * SECOND)


def accounted(here: World, name: str) -> list[int]:
    """Every instant that the ledger speaks of, gaps opened up, in order."""
    specs = here.jobs[name].schedules
    return sorted(
        instant
        for row in here.rows(name)
        if not row.key.origin
        for instant in instants_of(specs, row.key.scheduled_for - 1, row.through or row.key.scheduled_for)
    )


@pytest.mark.slow
@settings(max_examples=present(settings.default).max_examples * 3 // 5)
@given(
    script=st.lists(steps, max_size=25),
    ways=st.lists(acts, min_size=1, max_size=4),
    batches=st.sampled_from([1, 4]),
    remembers_after_us=st.sampled_from([0, 3 * SECOND]),
)
def test_whatever_happens_every_occurrence_is_decided_once_and_comes_to_an_end(
    script, ways, batches, remembers_after_us
):
    here = world(
        *(job(name, MINUTELY, retry=retries(1), **policy) for name, policy in POLICIES.items()),
        settings=LoopSettings(batches=batches),
    )
    here.executor.remembers_after_us = remembers_after_us
    for name in POLICIES:
        here.act(name, *ways, Act())
    play(here, script)
    come_to_rest(here)
    assert here.forgotten() == []
    for name in POLICIES:
        watermark = here.state.watermark_of(here.state.jobs[name])
        assert accounted(here, name) == instants_of((MINUTELY,), at("08:30"), watermark), name
        left = [line for row, line in zip(here.rows(name), here.ledger(name), strict=True) if row.state not in TERMINAL]
        due = [line for line in left if at(line.split()[0]) < here.now - MINUTE]
        assert due == [], f"{name}: nobody ends these"
    assert here.spins == 0


def replayed(here: World) -> list[list[object]]:
    """What a fresh process decides when it hears the same words at the same times."""
    state = State(here.settings, "node", here.incarnation, here.born_at)
    return [list(decide(state, messages, now).effects) for messages, now, _ in here.turns]


@settings(max_examples=present(settings.default).max_examples * 2 // 5)
@given(
    st.lists(steps.filter(lambda step: step[0] not in ("restart", "crash")), max_size=15),
    st.lists(acts, min_size=1, max_size=3),
)
def test_the_same_messages_at_the_same_times_have_the_same_effects(script, ways):
    here = world(
        *(job(name, MINUTELY, CronSpec("*/7 * * * * *", "UTC"), retry=retries(2), **policy)
          for name, policy in POLICIES.items()),
        settings=LoopSettings(batches=2),
    )  # fmt: skip
    for name in POLICIES:
        here.act(name, *ways)
    play(here, script)
    here.say(BackfillJob("b", "all", [at("07:00"), at("07:01")], WAIT))
    here.run_for(30 * SECOND)
    assert replayed(here) == [effects for _, _, effects in here.turns]


def test_a_recorded_hour_of_many_jobs_is_replayed_to_the_letter():
    here = world(*(job(f"j{number}", EverySpec((number + 3) * SECOND), overlap=LATEST) for number in range(40)))
    here.run_for(2 * MINUTE)
    assert len(here.launches) > 200
    assert replayed(here) == [effects for _, _, effects in here.turns]
