"""docs/reliability.md: the fault table and the results of the last long runs."""

from __future__ import annotations

from tests.faults.table import FAULTS
from tests.results import Results, read_results, sentence


def reliability_page() -> str:
    faults, fuzz = read_results("faults"), read_results("fuzz")
    rows = {row["name"]: row for row in (faults.rows if faults else ())}
    lines = []
    for fault in FAULTS:
        row = rows.get(fault.name)
        if row is None:
            how = "only by `make test`" if fault.tests else "not run"
            lines.append(f"| {fault.name} | {fault.done} | {how} | | {fault.seen} |")
        elif row["failed"]:
            lines.append(
                f"| {fault.name} | {fault.done} | {row['times']:,} | **failed**: {', '.join(row['failed'])} | |"
            )
        else:
            lines.append(f"| {fault.name} | {fault.done} | {row['times']:,} | {fault.kept} | {fault.seen} |")
    tests = [f"| {one.name} | {', '.join(f'`{test}`' for test in one.tests)} |" for one in FAULTS if one.tests]
    return f"""# Reliability

What was done to Evertick, how often, and what was lost. `make faults` runs these faults on real processes, databases
and files; `make docs` writes this page from the results. `make test` runs each of them once. *Times* counts the faults
where a test counts them, otherwise the tests that ran. A row without a number was not part of the last `make faults`;
one that says *not run* has no test yet.

{f"{sentence(faults)} {_commits(faults)}" if faults else "Not run yet."}

| fault | what was done | times | what was lost | what the user sees |
|---|---|---|---|---|
{chr(10).join(lines)}

Besides, the [simulator](simulator.md) runs the scheduler through thousands of seeded worlds with these faults at once.

## Hostile input

`make fuzz` sends hostile input to every parser, every protocol and the API: [what is sent](security.md#fuzzing). No
input may crash or hang its target, and no request may be answered with a server error.

{_fuzz_table(fuzz)}

## The tests

| fault | tests |
|---|---|
{chr(10).join(tests)}
"""


def _commits(faults: Results) -> str:
    """Which rows are not of the commit that was measured last."""
    others = [f"{row['name']} ({row['commit']})" for row in faults.rows if row["commit"] != faults.commit]
    return f"Rows of other commits: {', '.join(others)}." if others else "All rows are of that commit."


def _fuzz_table(results: Results | None) -> str:
    if results is None:
        return "Not run yet."
    lines = [
        f"| {row['target']} | {row['inputs']:,} | "
        f"{', '.join(f'{name} {count:,}' for name, count in row['ends'].items())} | {row['slowest_ms']} |"
        for row in results.rows
    ]
    return f"""{sentence(results)}

| target | inputs | how they ended | slowest, ms of CPU time |
|---|---|---|---|
{chr(10).join(lines)}"""
