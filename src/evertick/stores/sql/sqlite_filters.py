"""The filters of the ledger as SQLite reads them: what `reads` says with SQLAlchemy, as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from evertick.model.lifecycle import OPEN, SUCCEEDED, TERMINAL, RunState, Trigger
from evertick.model.run import RunKey
from evertick.store import RunFilter
from evertick.stores.sql.rows import chunks
from evertick.stores.sql.statements import LINE_COLUMNS

NAMES_PER_QUERY: Final = 500
NOT_AN_ITEM: Final = f"trigger_kind != '{Trigger.ITEM.value}'"
COLUMNS: Final = ", ".join(f"evertick_runs.{name}" for name in LINE_COLUMNS)

Text: TypeAlias = tuple[str, tuple[object, ...]]
"""A statement with its values."""

_NOT_WELL: Final = TERMINAL - {SUCCEEDED}
_RUNS: Final = f"SELECT {COLUMNS} FROM evertick_runs"
_GAPS: Final = (
    f"SELECT {COLUMNS} FROM evertick_gaps JOIN evertick_runs ON evertick_runs.scheduled_for = "
    "evertick_gaps.scheduled_for AND evertick_runs.job_id = evertick_gaps.job_id "
    "AND evertick_runs.origin = evertick_gaps.origin"
)
_KEY: Final = ("scheduled_for", "job_id", "origin")


def marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))


def conditions(where: RunFilter) -> tuple[list[str], tuple[object, ...]]:
    """What a filter says about a line, except of its job and of where the window begins."""
    told: list[str] = []
    values: list[object] = []

    def one_of(column: str, chosen: Iterable[object]) -> None:
        some = tuple(chosen)
        told.append(f"evertick_runs.{column} IN ({marks(some)})")
        values.extend(some)

    if where.states:
        one_of("state", [state.value for state in where.states])
        if OPEN.issuperset(where.states):
            told.append("evertick_runs.is_open = 1")
    if where.triggers:
        one_of("trigger_kind", [trigger.value for trigger in where.triggers])
    if where.reasons:
        one_of("reason", [reason.value for reason in where.reasons])
    if where.until is not None:
        told.append("evertick_runs.scheduled_for < ?")
        values.append(where.until)
    if where.occurrences_only:
        told.append("evertick_runs.origin = ''")
    if where.executors:
        one_of("executor", sorted(where.executors))
    if where.gaps is not None:
        told.append(f"evertick_runs.occurrences {'>' if where.gaps else '='} 1")
    if where.leaves_out_items:
        told.append(f"evertick_runs.{NOT_AN_ITEM}")
    return told, tuple(values)


def is_found_by_end(where: RunFilter) -> bool:
    """Whether the lines that a filter finds are those of runs that did not end well, of all jobs."""
    return not where.job_ids and bool(where.states) and _NOT_WELL.issuperset(where.states)


def ended_as(states: Collection[RunState]) -> str:
    """Of runs that ended in one of these states, other than well; found by an index of their own."""
    return f"evertick_runs.ended_as IN ({', '.join(sorted(repr(state.value) for state in states))})"


def page_texts(where: RunFilter, after: RunKey | None, limit: int) -> list[list[Text]]:
    """The statements of a page: parts that follow each other, each one or several that are merged.

    A gap may begin before `since` and reach past it: those are found by their own table, and lie before the others.
    """
    if where.gaps:
        parts = [([_gaps(where)], "evertick_gaps")]
    elif where.since is None or where.gaps is False:
        parts = [(_lines(where), "evertick_runs")]
    else:
        parts = [([_reaching_gaps(where)], "evertick_gaps"), (_lines(where), "evertick_runs")]
    jobs = _jobs(where)
    pages = [[_page(one, table, where, after, limit, some) for one in texts for some in jobs] for texts, table in parts]
    return pages if where.oldest_first else pages[::-1]


_Part: TypeAlias = tuple[str, list[str], tuple[object, ...]]
"""The head of a statement, its conditions, and their values."""


def _lines(where: RunFilter) -> list[_Part]:
    """What is rare among all jobs comes through an index of its own, a statement for each kind."""
    if is_found_by_end(where):
        found = []
        for state in sorted(set(where.states)):
            head, told, values = _since(replace(where, states=[state]))
            found.append((head, [*told, ended_as([state])], values))
        return found
    if not where.job_ids and where.triggers and Trigger.SCHEDULER not in where.triggers:
        parts = [_since(replace(where, triggers=[trigger])) for trigger in sorted(set(where.triggers))]
        # SQLite takes a partial index only where its condition is said word for word.
        return [(head, [*told, "evertick_runs.trigger_kind != 'scheduler'"], values) for head, told, values in parts]
    return [_since(where)]


def _since(where: RunFilter) -> _Part:
    told, values = conditions(where)
    if where.since is None:
        return _RUNS, told, values
    return _RUNS, [*told, "evertick_runs.scheduled_for >= ?"], (*values, where.since)


def _gaps(where: RunFilter) -> _Part:
    told, values = conditions(where)
    if where.since is None:
        return _GAPS, told, values
    return _GAPS, [*told, "evertick_gaps.through >= ?"], (*values, where.since)


def _reaching_gaps(where: RunFilter) -> _Part:
    """The gaps that began before `since` and reach it."""
    head, told, values = _gaps(where)
    return head, [*told, "evertick_gaps.scheduled_for < ?"], (*values, where.since)


def _jobs(where: RunFilter) -> Sequence[Sequence[str]]:
    """The jobs to ask for at once; one empty list where any job will do."""
    return list(chunks(sorted(set(where.job_ids)), NAMES_PER_QUERY)) or [[]]


def _page(part: _Part, table: str, where: RunFilter, after: RunKey | None, limit: int, jobs: Sequence[str]) -> Text:
    head, told, values = part
    told, given = list(told), list(values)
    if after is not None:
        beyond = ">" if where.oldest_first else "<"
        # The bound on the time alone lets an index begin there.
        told += [
            f"evertick_runs.scheduled_for {beyond}= ?",
            f"(evertick_runs.scheduled_for, evertick_runs.job_id, evertick_runs.origin) {beyond} (?, ?, ?)",
        ]
        given += [after.scheduled_for, after.scheduled_for, after.job_id, after.origin]
    if jobs:
        told.append(f"evertick_runs.job_id IN ({marks(jobs)})")
        given += jobs
    only = f" WHERE {' AND '.join(told)}" if told else ""
    # Gaps in the order of their own table, or SQLite would walk all lines to find them.
    order = ", ".join(f"{table}.{column}{'' if where.oldest_first else ' DESC'}" for column in _KEY)
    return f"{head}{only} ORDER BY {order} LIMIT ?", (*given, limit)
