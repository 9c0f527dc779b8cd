"""docs/benchmarks.md: the recorded results of `make bench` and of `make soak`, and the goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from bench.__main__ import BENCHMARKS
from bench.figures import figures
from bench.harness import Target, whole

from tests.results import Results, read_results, sentence
from tests.soak.account import growth_limit_mib, is_flat

HEADINGS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "storm": ("Lateness, throughput and memory", ("lateness", "throughput")),
    "peers": ("Many processes at the same instant", ("peers",)),
    "idle": ("Idle", ("idle",)),
    "runs": ("Process starts", ("runs",)),
    "fleet": ("Fleet", ("fleet",)),
    "slow_jobs": ("A fast job beside slow ones", ()),
    "api_load": ("API under load", ()),
    "api_pages": ("Answers of the API at a million runs", ()),
    "first_paint": ("The page at a million runs", ()),
    "interactions": ("Interactions at a million runs", ()),
    "slow_line": ("The page on a slow line", ()),
    "cli": ("Commands", ()),
    "import": ("Import", ()),
    "cron_next": ("Cron: the next fire time", ()),
    "hour_window": ("Cron: all fire times of one hour", ()),
    "million": ("A million schedules", ()),
    "loop": ("One iteration of the loop", ()),
}
"""In the order of the page: the heading of each benchmark, and its plots."""
MEMORY: Final = {
    True: "Memory was flat: no process grew by more than 3 MiB or 3 %, whichever is more.",
    False: "**Memory was not flat**: a process grew by more than 3 MiB and 3 %.",
}
LATE: Final = {"p50": "p50", "p99": "p99", "worst": "max"}


def benchmarks_page() -> str:
    found = {name: results for name in HEADINGS if (results := read_results(f"bench/{name}")) is not None}
    sections = [_section(*HEADINGS[name], results) for name, results in found.items()]
    missing = ", ".join(f"`{name}`" for name in BENCHMARKS if name not in found)
    return f"""# Benchmarks

`make bench` measures Evertick beside its peers on one machine, contenders in turns, and writes this page from the
results that it records in `docs/results/bench`. `make plots` writes the page from the recorded results;
`make bench BENCH_ONLY=storm` runs one benchmark. Measure on a quiet machine: *load* is the number of processes that
wanted a core. With more of them than cores, the figures depend on the other processes as much as on Evertick.

{_load_warning(list(found.values()))}
{"Not recorded yet: " + missing + "." + chr(10) if missing else ""}
## Goals

{_goals(found)}

{chr(10).join(sections)}
{_soak(read_results("soak"))}"""


def _load_warning(found: Sequence[Results]) -> str:
    loads = [(max(one.rows[0]["load"]), one.machine["cores"]) for one in found]
    busy = [load for load, cores in loads if load > cores]
    if not busy:
        return ""
    return (
        f"> **The machine was busy.** {len(busy)} of these {len(loads)} benchmarks ran beside other work, with a load "
        f"of up to {max(busy):.0f} on {loads[0][1]} cores. Lateness and rates are worse than on a quiet machine, for "
        "every contender; CPU and memory change less.\n"
    )


def _section(heading: str, plots: Sequence[str], results: Results) -> str:
    row = results.rows[0]
    load = " to ".join(f"{one:.1f}" for one in row["load"])
    tables = "\n\n".join(_table(table) for table in row["tables"])
    return f"""## {heading}
{"".join(_plot(name) for name in plots)}
{tables}

{sentence(results)} Load {load}; it took {row["seconds"]:,.0f} s.
"""


def _plot(name: str) -> str:
    return f"\n![{figures()[name].title}](images/bench/{name}.svg)\n"


def _table(table: Mapping[str, Any]) -> str:
    lines = [table["columns"], ["---", *["---:"] * (len(table["columns"]) - 1)], *table["rows"]]
    shown = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    notes = "".join(f"\n- {note}" for note in table["notes"])
    return f"**{table['title']}**\n\n{shown}\n" + (f"{notes}\n" if notes else "")


def _goals(found: Mapping[str, Results]) -> str:
    targets = [(name, _target(plain)) for name, results in found.items() for plain in results.rows[0]["targets"]]
    targets += [("soak", target) for target in _memory_targets(read_results("soak"))]
    if len(found) == len(HEADINGS):
        targets.append(("all", whole(sum(results.rows[0]["seconds"] for results in found.values()))))
    met = sum(target.is_met for _, target in targets)
    lines = "\n".join(
        f"| {'met' if one.is_met else '**missed**'} | {one.what} | {one.measured:,.1f} {one.unit} | "
        f"{'at least' if one.at_least else 'at most'} {one.limit:,g} {one.unit} | `{name}` |"
        for name, one in sorted(targets, key=lambda each: each[1].is_met)
    )
    head = "| | goal | measured | limit | benchmark |\n|---|---|---:|---:|---|"
    return f"{met} of {len(targets)} goals were met.\n\n{head}\n{lines}"


def _target(plain: Mapping[str, Any]) -> Target:
    return Target(**{name: value for name, value in plain.items() if name != "is_met"})


def _memory_targets(soaked: Results | None) -> list[Target]:
    memory = {} if soaked is None else soaked.rows[0]["memory"]
    return [
        Target(
            f"growth of the {name} without kills",
            one["last_mib"] - one["first_mib"],
            growth_limit_mib(one["first_mib"]),
            "MiB",
        )
        for name, one in memory.items()
    ]


def _soak(results: Results | None) -> str:
    if results is None:
        return ""
    row = results.rows[0]
    kills = [process for _, process in row["kills"]]
    counted = ", ".join(f"{kills.count(process)} of the {process}" for process in dict.fromkeys(kills))
    answers = ", ".join(f"{count:,} {result}" for result, count in row["answers"].items())
    memory = "\n".join(
        f"| {name} | {one['first_mib']:,.1f} | {one['last_mib']:,.1f} |" for name, one in row["memory"].items()
    )
    late = [f"{name} {row['late_ms'][key] / 1_000:.1f} s" for name, key in LATE.items()]
    load = row["load"]
    return f"""## Soak

`make soak` serves {row["jobs"]:,} jobs that start real processes once a minute, asks the API 20 times a second, keeps
the page open in a browser, and kills the scheduler, the API and the keeper with `kill -9` at random instants. The last
third of the time has no kills. When its first part has filled what processes keep within limits (10,000 events, for
example), memory must not grow. Every due time is calculated without Evertick and compared
with the ledger and with what the processes wrote.

![{figures()["soak"].title}](images/bench/soak.svg)

| | |
|---|---|
| due in {row["seconds"] / 60:.0f} minutes | {row["due"]:,} occurrences |
| lost | {len(row["lost"])} |
| started twice | {len(row["started_twice"])} |
| ended | {", ".join(f"{count:,} {state}" for state, count in row["states"].items())} |
| kills | {len(kills)}: {counted} |
| runs that went down with the keeper and were tried again | {row["retried"]:,} |
| start minus due time, the time after kills included | {", ".join(late)} |
| answers of the API | {answers}; p50 {row["answer_ms"]["p50"]:,.0f} ms, p99 {row["answer_ms"]["p99"]:,.0f} ms |
| load of the machine | {load[0]:.1f} to {load[2]:.1f}, median {load[1]:.1f} |

| memory when all is full, MiB | first third | last third |
|---|---:|---:|
{memory}

{MEMORY[is_flat(row["memory"])]}

{sentence(results)}
"""
