"""The truth tables of the documentation: what the code does with missed occurrences and with changes of the clock.

Nothing here is written down by hand but the questions: every cell is what the loop, or the cron engine, answers.
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
    "`catchupWindow: 1d`": f"{HOURLY}\ncatchupWindow: 1d",
    "`catchupWindow: 1d`, `overlapPolicy: all`": f"{HOURLY}\ncatchupWindow: 1d\noverlapPolicy: all",
    "`catchupWindow: 1d`, `overlapPolicy: latest`": f"{HOURLY}\ncatchupWindow: 1d\noverlapPolicy: latest",
    "`catchupWindow: 90m`, `overlapPolicy: all`": f"{HOURLY}\ncatchupWindow: 90m\noverlapPolicy: all",
    "`missed: first`": f"{HOURLY}\nmissed: first",
    "`missed: latest`": f"{HOURLY}\nmissed: latest",
    "`missed: all`, `overlap: parallel(3)`": f"{HOURLY}\nmissed: all\noverlap: parallel(3)",
    "`misfire: DO_NOTHING`": f"{HOURLY}\nmisfire: DO_NOTHING",
    "`misfire: FIRE_ONCE_NOW`": f"{HOURLY}\nmisfire: FIRE_ONCE_NOW",
    "`schedule: {cron: ...}`": 'schedule: {cron: "0 * * * *"}',
    "`schedule: {cron: ..., missedExecution: run}`": 'schedule: {cron: "0 * * * *", missedExecution: run}',
    "`schedule: {cron: ..., missedExecution: skip}`": 'schedule: {cron: "0 * * * *", missedExecution: skip}',
    "`catchupWindow: 1d`, `overlapPolicy: all`, `window: {maxDelayMinutes: 45}`": (
        f"{HOURLY}\ncatchupWindow: 1d\noverlapPolicy: all\nwindow: {{maxDelayMinutes: 45}}"
    ),
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
    "it was down until 11:00:01": _down_until_one_is_due,
    "the machine slept": _asleep,
    "the job was paused, and resumed": _paused,
    "the job was disabled, and enabled": _disabled,
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
    return f"""# What becomes of missed occurrences

A job is due every hour. From 08:30 to 11:30 nobody planned it, so 09:00, 10:00 and 11:00 were missed; where the
scheduler was back at 11:00:01, 11:00 was on time, within the grace. Each run takes ten seconds. This table is what the
scheduler does, not what somebody wrote: it is made by running the scheduling loop through each scenario,
and every ledger it leaves is proved sound.

{table}

- **runs**: a run with trigger `catchup`, one after another where the rule does not allow more at once, oldest first.
- **skipped**: an entry in the ledger with that reason; `evertick why` explains it.
- A job that is met for the first time has no past: it begins with now, whatever is written.
- `catchupWindow` counts back from the moment the scheduler is there again; what is older is skipped.
- Under `overlapPolicy: latest` one run starts after a downtime: an on-time occurrence is newer than every missed one.
- A one-off (`at`) that was known before and missed runs late, unless `missed: none` is written. One that is past by
  more than the grace when it is first seen is `missed`.

How to choose is in [Catch up what was missed](../how-to/catch-up.md).
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
        head = ["expression", "zone", "night", "fires, on the local clock (offset)", "what it shows"]
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
        parts.append(f"## Zones with ways of their own\n\n{table(others)}")
    body = "\n\n".join(parts)
    return f"""# What changes of the clock do to a cron expression

On most days there is nothing to say. On the others the local clock leaves out some times and shows some twice; these
are the rules, and what they make of real nights. The tables are made by the cron engine from the cases of its own
tests.

{body}

`evertick cron explain` says what the coming year does to an expression of yours. [Cron, exactly](../cron.md) has the
rest.
"""


RULE_TEXTS = {
    "rule 1": "an expression is *wildcard* if its second, minute or hour begins with `*`; else it has a *fixed time*",
    "rule 2": "a wildcard fires at every instant whose local time matches",
    "rule 3": "a fixed time that was left out fires once, at the first instant after the change",
    "rule 4": "a fixed time that comes twice fires in the first pass only",
    "rule 5": "changes of three hours and more are corrections: nothing is made up, what repeats fires again",
    "rule 6": "day, month and weekday are those of the time that was asked for",
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

Everything that Evertick raises on purpose is an `EvertickError`, and its text names the thing, the reason and the next
step. The kinds say whose fault it is: the user's can be mended by whoever wrote the job or the command, the world's
may pass by themselves.

```text
{tree[0].rstrip()}
```

{table}

`DefinitionError` carries `file`, `line`, `column`, `field`, `reason` and `hint`; `InvalidArgument` carries `field`,
`reason` and `hint`; `NotFound` carries `suggestions`, the nearest names. The exit codes are those of the
[command line](exit-codes.md). Import them from `evertick`.

Two others belong to the [library](../library.md): `TimeoutError` when what was waited for has not ended in time (it
goes on), and `StopRequested` inside a function that is asked to end.
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
