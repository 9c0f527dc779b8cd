"""The tables of the documentation about missed occurrences, clock changes and errors.

Only the questions are written by hand: the loop or the cron engine computes every cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from evertick import errors
from evertick.cli.exits import EXIT_CODES
from evertick.definitions.parser import parse_definition
from evertick.errors import EvertickError
from evertick.loop.messages import PauseJob, ResumeJob
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.job import Job
from evertick.planning.verify import verify_ledger
from tests.loop.harness import Act, World, at, world
from tests.planning.test_cron_dst import RULES, ZONES, fires

HOURLY = 'schedule: "0 * * * *"'
WRITTEN: Mapping[str, str] = {
    "nothing": HOURLY,
    "`missed: first`": f"{HOURLY}\nmissed: first",
    "`missed: latest`": f"{HOURLY}\nmissed: latest",
    "`missed: latest`, `overlap: latest`": f"{HOURLY}\nmissed: latest\noverlap: latest",
    "`missed: all`": f"{HOURLY}\nmissed: all",
    "`missed: all`, `overlap: wait`": f"{HOURLY}\nmissed: all\noverlap: wait",
    "`missed: all`, `overlap: wait`, `catchupWindow: 90m`": (
        f"{HOURLY}\nmissed: all\noverlap: wait\ncatchupWindow: 90m"
    ),
    "`missed: all`, `overlap: parallel(3)`": f"{HOURLY}\nmissed: all\noverlap: parallel(3)",
    "`missed: all`, `overlap: wait`, `window: {maxDelayMinutes: 45}`": (
        f"{HOURLY}\nmissed: all\noverlap: wait\nwindow: {{maxDelayMinutes: 45}}"
    ),
    "`catchupWindow: 1d`": f"{HOURLY}\ncatchupWindow: 1d",
    "`catchupWindow: 1d`, `overlapPolicy: all`": f"{HOURLY}\ncatchupWindow: 1d\noverlapPolicy: all",
    "`catchupWindow: 1d`, `overlapPolicy: latest`": f"{HOURLY}\ncatchupWindow: 1d\noverlapPolicy: latest",
    "`misfire: DO_NOTHING`": f"{HOURLY}\nmisfire: DO_NOTHING",
    "`misfire: FIRE_ONCE_NOW`": f"{HOURLY}\nmisfire: FIRE_ONCE_NOW",
    "`schedule: {cron: ...}`": 'schedule: {cron: "0 * * * *"}',
    "`schedule: {cron: ..., missedExecution: run}`": 'schedule: {cron: "0 * * * *", missedExecution: run}',
    "`schedule: {cron: ..., missedExecution: skip}`": 'schedule: {cron: "0 * * * *", missedExecution: skip}',
}


def _down(job: Job) -> World:
    here = world(job)
    here.act("a", Act(lasts_us=10 * SECOND))
    here.restart(after=3 * HOUR)
    return here


def _down_until_one_is_due(job: Job) -> World:
    here = world(job)
    here.act("a", Act(lasts_us=10 * SECOND))
    here.restart(after=at("11:00:01") - here.now)
    return here


def _asleep(job: Job) -> World:
    here = world(job)
    here.act("a", Act(lasts_us=10 * SECOND))
    here.run_until("08:30:10")
    here.stall(3 * HOUR)
    return here


def _paused(job: Job) -> World:
    here = world(job)
    here.act("a", Act(lasts_us=10 * SECOND))
    here.run_until("08:30:10")
    here.say(PauseJob("p", "a"))
    here.run_until("08:30:20")
    here.stall(3 * HOUR)
    here.settle()
    here.say(ResumeJob("r", "a"))
    return here


def _disabled(job: Job) -> World:
    here = world(job)
    here.act("a", Act(lasts_us=10 * SECOND))
    here.run_until("08:30:10")
    here.define(replace(job, enabled=False))
    here.run_until("08:30:20")
    here.stall(3 * HOUR)
    here.settle()
    here.define(job)
    return here


SCENARIOS: Mapping[str, Callable[[Job], World]] = {
    "the scheduler was down": _down,
    "the scheduler was down until 11:00:01": _down_until_one_is_due,
    "the machine slept": _asleep,
    "the job was paused and resumed": _paused,
    "the job was disabled and enabled": _disabled,
}


class Fate(NamedTuple):
    written: str
    scenario: str
    lines: tuple[str, ...]
    """`09:00 succeeded catchup`, as the ledger says."""


def fates() -> Iterator[Fate]:
    """What becomes of the occurrences of 09:00, 10:00 and 11:00, when nobody planned from 08:30 on."""
    for written, text in WRITTEN.items():
        parsed = parse_definition(f"{text}\nname: a\ntimezone: UTC\ncommand: 'true'\n", "a.yaml")
        assert parsed.job is not None, parsed.errors
        for scenario, happen in SCENARIOS.items():
            here = happen(parsed.job)
            here.run_for(2 * MINUTE)
            store = here.store
            snapshot = store.load()
            assert verify_ledger(store.schedules(), snapshot.jobs, snapshot.floors, here.rows()).is_sound
            yield Fate(written, scenario, tuple(here.ledger()))


def cell(lines: tuple[str, ...]) -> str:
    """`09:00 runs; 10:00 and 11:00 skipped: overlap`, with neighbours told together."""
    told: dict[str, list[str]] = {}
    for line in lines:
        time, state, *rest = line.split()
        word = "runs" if state == "succeeded" else f"skipped: `{rest[0]}`" if state == "skipped" else state
        told.setdefault(word, []).append(time)
    return "; ".join(f"{', '.join(times)} {_fitting(word, times)}" for word, times in told.items()) or "nothing"


def _fitting(word: str, times: list[str]) -> str:
    return "run" if word == "runs" and len(times) > 1 else word


def catchup_page() -> str:
    rows: dict[str, list[str]] = {}
    for fate in fates():
        rows.setdefault(fate.written, []).append(cell(fate.lines))
    head = ["written in the job", *SCENARIOS]
    lines = [head, ["---"] * len(head), *([written, *cells] for written, cells in rows.items())]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"""# Catch-up table

A job is due every hour, and a run takes ten seconds. From 08:30 to 11:30 no scheduler planned it, so 09:00, 10:00 and
11:00 were missed. If the scheduler is back at 11:00:01, 11:00 is on time, within the grace. This table shows what
the scheduler does: `make docs` runs the scheduling loop through each scenario and verifies every resulting ledger.

{table}

- **run, runs**: a run with the trigger `catchup`, oldest first.
- **skipped**: an entry in the ledger with that reason; `evertick why` explains it.
- A new job has no past: nothing is caught up, whatever its rules.
- `catchupWindow` counts back from the time at which the scheduler is running again. Older occurrences are skipped.
- Under `overlap: latest` one run starts after a downtime: an occurrence that is on time is newer than every missed one.
- A one-off time (`at`) that was known before and missed runs late, unless `missed: none` is written. If it is past by
  more than the grace when the scheduler first sees it, it is `missed`.

[Catch up missed runs](../how-to/catch-up.md) explains how to choose. `overlapPolicy`, `misfire` and
`missedExecution` are [names from other schedulers](../migrating/synonyms.md).
"""


def dst_page() -> str:
    def row(case: object) -> tuple[str, list[str]]:
        text, zone, start, end, expected = case.values  # type: ignore[attr-defined]
        found = fires(text, zone, start, end)
        assert found == expected
        words = str(case.id)  # type: ignore[attr-defined]
        rule, _, what = words.partition(": ") if words.startswith("rule") else ("", "", words)
        shown = ", ".join(f"{one[3:8]} ({one[8:]})" for one in found) or "not at all"
        return rule, [f"`{text}`", zone, start[:10], shown, what]

    def table(cases: list[object]) -> str:
        head = ["expression", "zone", "night", "fires, local time (offset)", "note"]
        lines = [head, ["---"] * len(head), *(row(case)[1] for case in cases)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    by_rule: dict[str, list[object]] = {}
    for case in [*RULES, *ZONES]:
        by_rule.setdefault(row(case)[0], []).append(case)
    parts = [
        f"## {rule.capitalize()}: {RULE_TEXTS[rule]}\n\n{table(by_rule[rule])}"
        for rule in RULE_TEXTS
        if rule in by_rule
    ]
    others = by_rule.get("", [])
    if others:
        parts.append(f"## Special zones\n\n{table(others)}")
    body = "\n\n".join(parts)
    return f"""# Clock-change table

When clocks change, some local times do not occur and some occur twice. These are the rules, and what they do in real
nights. The cron engine generates the tables from its own tests.

{body}

`evertick cron explain` shows the effect of the coming year on an expression. [Cron expressions](../cron.md) has the
syntax.
"""


RULE_TEXTS = {
    "rule 1": "an expression is *wildcard* if its second, minute or hour begins with `*`; otherwise it is *fixed-time*",
    "rule 2": "a wildcard expression fires at every instant whose local time matches",
    "rule 3": "a fixed time that is skipped fires once, at the first instant after the change",
    "rule 4": "a fixed time that occurs twice fires in the first pass only",
    "rule 5": "changes of three hours or more are corrections: skipped times do not fire, repeated times fire again",
    "rule 6": "day, month and weekday are those of the written time",
}


# --- errors


def errors_page() -> str:
    tree = re.search(r"^    EvertickError\n(?:    .*\n)+", errors.__doc__ or "", re.M)
    assert tree is not None
    rows = [
        [f"`{kind.__name__}`", (kind.__doc__ or "").strip().splitlines()[0], str(_exit_code(kind)), _bases(kind)]
        for kind in _every(EvertickError)
    ]
    head = ["error", "meaning", "exit code", "is a"]
    table = "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *rows])
    return f"""# Errors

Every error that Evertick raises on purpose is an `EvertickError`. Its text names the thing, the reason and the next
step. The author of a job or command can fix the *user's* errors; the *world's* errors may pass by themselves.

```text
{tree[0].rstrip()}
```

{table}

`DefinitionError` carries `file`, `line`, `column`, `field`, `reason` and `hint`; `InvalidArgument` carries `field`,
`reason` and `hint`; `NotFound` carries `suggestions`, the nearest names. The exit codes are those of the
[command line](exit-codes.md). Import them from `evertick`.

The [library](../library.md) raises two more: `TimeoutError` if a run has not ended in time (it continues), and
`StopRequested` inside a function that should stop.
"""


def _every(kind: type[EvertickError]) -> Iterator[type[EvertickError]]:
    yield kind
    for below in kind.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from _every(below)


def _bases(kind: type) -> str:
    return "" if kind is EvertickError else f"`{kind.__bases__[0].__name__}`"


def _exit_code(kind: type[EvertickError]) -> int:
    return next(code for known, code in EXIT_CODES if issubclass(kind, known))
