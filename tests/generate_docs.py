"""Which pages are written from the code, so that they cannot tell another story: `python -m tests.generate_docs`.

With `--check` nothing is written; the exit code says whether a page is stale. To add a page, write a function
that returns its text and enter it in GENERATED.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from evertick.model.lifecycle import (
    ACTIVE,
    OPEN,
    TERMINAL,
    TRANSITIONS,
    JobStatus,
    RunState,
    SkipReason,
    Trigger,
    diagram,
)
from evertick.model.run_variables import RUN_VARIABLES
from tests.cli.pages import commands_page, exit_codes_page
from tests.definitions.fields_page import fields_page
from tests.generate_types import types_text
from tests.settings.settings_page import settings_page
from tests.truth_tables import catchup_page, dst_page, errors_page

ROOT = Path(__file__).parent.parent
BANNER = "<!-- Written by `make docs` from the code. Edit the code, then run it again. -->"

STATES: Mapping[RunState, str] = {
    RunState.PLANNED: "In the ledger, and its time has not come; or it has, and the launch is about to happen.",
    RunState.WAITING: "Its time has come and something holds it back: an earlier run of its job, or an executor "
    "that is full or away.",
    RunState.LAUNCHING: "Handed to an executor, which has not yet said that it started.",
    RunState.RUNNING: "The executor said that it started.",
    RunState.RETRYING: "An attempt ended badly and the next one is waiting for its delay.",
    RunState.SUCCEEDED: "It ended, and ended well.",
    RunState.FAILED: "It ended badly, and no attempt is left.",
    RunState.TIMED_OUT: "It was ended because it took longer than it was given.",
    RunState.CANCELLED: "Somebody ended it, its job was removed, or a newer run replaced it.",
    RunState.LOST: "Its executor went away, and what became of it cannot be known.",
    RunState.SKIPPED: "It was never launched; the reason is one of those below.",
}
SKIP_REASONS: Mapping[SkipReason, str] = {
    SkipReason.OVERLAP: "The job was active, and its overlap policy is to skip.",
    SkipReason.SUPERSEDED: "A newer occurrence, or an edit of the schedule, took its place.",
    SkipReason.MISSED: "It fell due while nobody was there to run it, and the job does not keep such occurrences.",
    SkipReason.LATE: "It could have run only after the longest delay that the job allows.",
    SkipReason.PAUSED: "The job was paused at that time, and was resumed without catching up.",
    SkipReason.ALREADY_SUCCEEDED: "A run had succeeded since the occurrence before it, which was all the job wanted.",
    SkipReason.CONDITION: "The condition that the job names did not hold.",
    SkipReason.CAP: "The backlog was longer than its limit; the oldest occurrences gave way.",
    SkipReason.DISABLED: "The job was disabled.",
    SkipReason.NO_EXECUTOR: "No executor matched what the job asks for.",
    SkipReason.SATURATED: "Every executor that could take it was full until the end of the job's `window`.",
}
TRIGGERS: Mapping[Trigger, str] = {
    Trigger.SCHEDULER: "Its schedule, on time.",
    Trigger.CATCHUP: "Its schedule, late: it fell due while the scheduler or the job was not there.",
    Trigger.BACKFILL: "Somebody asked for a stretch of the past.",
    Trigger.MANUAL: "Somebody asked for it at the command line or on the page.",
    Trigger.API: "A program asked for it.",
    Trigger.WEBHOOK: "Another system called.",
    Trigger.RETRY: "Somebody asked for an ended run to be done again.",
    Trigger.CHAINED: "Another job ended.",
    Trigger.SUBJOB: "A step of another job is this job.",
}
JOB_STATUSES: Mapping[JobStatus, str] = {
    JobStatus.IDLE: "Nothing is active; it waits for its next occurrence.",
    JobStatus.RUNNING: "At least one run is active.",
    JobStatus.PAUSED: "Nothing is planned until it is resumed.",
    JobStatus.ERROR: "Its last run failed, or its definition is wrong.",
    JobStatus.DISABLED: "Its definition says not to run it.",
    JobStatus.FINISHED: "It has no further occurrence.",
}


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def codes(states: Iterable[RunState]) -> str:
    """States in the order of their life, as code."""
    chosen = frozenset(states)
    return " ".join(f"`{state}`" for state in RunState if state in chosen)


def lifecycle() -> str:
    """docs/lifecycle.md: the table of transitions, drawn and explained."""
    states = ([f"`{s}`", STATES[s], codes(TRANSITIONS[s]) or "nothing: it ended"] for s in RunState)
    return f"""# The life of a run

Every occurrence of every schedule has its place in the ledger, and every entry of the ledger is in one of these
states. This page is made from the one table in the code that says which changes there can be.

```mermaid
{diagram()}
```

## States

{table(["state", "meaning", "may become"], states)}

- **Open**: {codes(OPEN)}. Something is still to happen.
- **Active**: {codes(ACTIVE)}. The run occupies its job; the overlap rule counts it.
- **Terminal**: {codes(TERMINAL)}. Never left and never overwritten.

A launch that the executor refuses goes back to `waiting` and is tried again; it is never lost. A second attempt
always passes through `retrying`.

## Why an occurrence was skipped

A skip is a result, not a failure: it raises no alert and is not retried. A long stretch of skipped occurrences may
be one entry, a *gap*, with its first and last instant and their number.

{table(["reason", "meaning"], ([f"`{reason}`", SKIP_REASONS[reason]] for reason in SkipReason))}

## Why a run exists

{table(["trigger", "what asked for it"], ([f"`{trigger}`", TRIGGERS[trigger]] for trigger in Trigger))}

## How a job is shown

{table(["status", "meaning"], ([f"`{status}`", JOB_STATUSES[status]] for status in JobStatus))}
"""


def openapi_page() -> str:
    """docs/reference/openapi.json: the API, for programs."""
    from evertick.api.app import make_routes
    from evertick.api.openapi import describe

    return json.dumps(describe(make_routes()), indent=1, ensure_ascii=False) + "\n"


def types_page() -> str:
    """web/src/api/schema.ts: the API, for the page."""
    return types_text(json.loads(openapi_page()))


def run_variables_page() -> str:
    """docs/reference/run-variables.md: what a run finds in its environment."""
    rows = ([f"`{name}`", meaning] for name, meaning in RUN_VARIABLES.items())
    return f"""# Variables of a run

What every process of a run finds in its environment beside the job's own variables. The names begin with
`EVERTICK_RUN_`; no [setting](../settings.md) has a variable that does.

{table(["variable", "what it holds"], rows)}
"""


GENERATED: Mapping[str, Callable[[], str]] = {
    "docs/lifecycle.md": lifecycle,
    "docs/reference/catchup-table.md": catchup_page,
    "docs/reference/commands.md": commands_page,
    "docs/reference/dst-table.md": dst_page,
    "docs/reference/errors.md": errors_page,
    "docs/reference/exit-codes.md": exit_codes_page,
    "docs/reference/fields.md": fields_page,
    "docs/reference/openapi.json": openapi_page,
    "docs/reference/run-variables.md": run_variables_page,
    "docs/settings.md": settings_page,
    "web/src/api/schema.ts": types_page,
}


def page(path: str) -> str:
    """The whole text of a generated page; a file for programs has no banner."""
    text = GENERATED[path]()
    return text if path.endswith((".json", ".ts")) else f"{BANNER}\n\n{text}"


def stale_pages(root: Path = ROOT) -> list[str]:
    """The pages that differ from what the code says now."""
    return [path for path in GENERATED if not (root / path).exists() or (root / path).read_text() != page(path)]


def main(arguments: Sequence[str]) -> int:
    stale = stale_pages()
    for path in stale:
        if "--check" in arguments:
            sys.stderr.write(f"{path} is stale. Next: make docs\n")
        else:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(page(path))
            sys.stderr.write(f"{path} written\n")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
