"""The hourly counts in a database: added in the transaction that ends the entries, read, compared and rebuilt."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from evertick.model.instant import HOUR, Instant
from evertick.model.ledger import WrongCount
from evertick.model.lifecycle import SKIPPED
from evertick.store import Tally
from evertick.stores.hour_counts import Cells, HourCounts, HourKind, count_rows, equal_cells, wrong_counts
from evertick.stores.sql.rows import Params, Select, chunks, to_count, to_kind
from evertick.stores.sql.schema import HOURS, RUNS
from evertick.stores.sql.statements import CHUNK, Statements

_HOUR = sa.literal_column(str(HOUR), sa.BigInteger)
_KIND = (HOURS.c.state, HOURS.c.trigger_kind, HOURS.c.reason)


def count_params(ended: HourCounts, share: int) -> list[Params]:
    """Rows of `HOUR_COLUMNS`, in the order in which every node writes them."""
    return sorted(
        (hour, state.value, trigger.value, "" if reason is None else reason.value, share, *count)
        for (hour, state, trigger, reason), count in ended.items()
    )


def outcomes(connection: sa.Connection, statements: Statements, bounds: Sequence[Instant]) -> Sequence[Tally]:
    """The rule of `LedgerReader.outcomes`; the connection must show one moment of the ledger."""
    cells = Cells(bounds)
    for group in equal_cells(bounds):
        cell = ((HOURS.c.hour - group.start) // sa.literal(group.width_us, sa.BigInteger)).label("cell")
        statement = sa.select(cell, *_KIND, sa.func.sum(HOURS.c.entries), sa.func.sum(HOURS.c.occurrences))
        statement = statement.where(HOURS.c.hour >= group.start, HOURS.c.hour < group.end).group_by(cell, *_KIND)
        for number, *kind, entries, occurrences in connection.execute(statement):
            cells.add(group.first + int(number), to_kind(kind), int(entries), int(occurrences))
    for some in chunks(cells.rests(), CHUNK):
        params = tuple(at for rest in some for at in rest)
        for bound, *kind, entries, occurrences in connection.exec_driver_sql(
            statements.ended_between(len(some)), params
        ):
            cells.move_rest(int(bound), to_kind(kind), int(entries), int(occurrences))
    for at, *kind, entries, occurrences in connection.execute(_select_open(bounds[0], bounds[-1])):
        cells.add_at(at, to_kind(kind), int(entries), int(occurrences))
    return cells.tallies()


def _select_open(since: Instant, until: Instant) -> Select:
    kind = (RUNS.c.scheduled_for, RUNS.c.state, RUNS.c.trigger_kind, RUNS.c.reason)
    statement = sa.select(*kind, sa.func.count(), sa.func.sum(RUNS.c.occurrences))
    statement = statement.where(RUNS.c.is_open == sa.literal_column("1"))
    statement = statement.where(RUNS.c.scheduled_for >= since, RUNS.c.scheduled_for < until).group_by(*kind)
    return statement.with_hint(RUNS, "FORCE INDEX (evertick_runs_open)", "mysql")


def find_wrong_counts(connection: sa.Connection) -> Sequence[WrongCount]:
    """The rule of `LedgerReader.wrong_counts`; the connection must show one moment of the ledger."""
    kept = sa.select(HOURS.c.hour, *_KIND, sa.func.sum(HOURS.c.entries), sa.func.sum(HOURS.c.occurrences))
    kept = kept.group_by(HOURS.c.hour, *_KIND)
    return wrong_counts(*(count_rows(map(to_count, connection.execute(one))) for one in (kept, _select_counts())))


def recount(connection: sa.Connection) -> None:
    """Replace all counts by what the entries say; no other transaction may add to them meanwhile."""
    connection.execute(sa.delete(HOURS))
    counted = _select_counts().add_columns(sa.literal_column("0"))
    columns = ("hour", "state", "trigger_kind", "reason", "entries", "occurrences", "share")
    connection.execute(sa.insert(HOURS).from_select(columns, counted))


def _select_counts() -> Select:
    """What the entries say, in the order of `HourKind` and `HourCount`."""
    hour = (RUNS.c.scheduled_for - RUNS.c.scheduled_for % _HOUR).label("hour")
    skipped = RUNS.c.state == sa.literal_column(f"'{SKIPPED.value}'")
    reason = sa.case((skipped, sa.func.coalesce(RUNS.c.reason, "")), else_="").label("why")
    kind = (hour, RUNS.c.state, RUNS.c.trigger_kind, reason)
    statement = sa.select(*kind, sa.func.count(), sa.func.sum(RUNS.c.occurrences))
    return statement.where(RUNS.c.is_open == sa.literal_column("0")).group_by(*kind)


def removed_counts(old: Sequence[tuple[HourKind, int]]) -> HourCounts:
    """What is taken off when these entries are removed: their kinds, with the occurrences of each."""
    found = HourCounts()
    for kind, occurrences in old:
        found.add(kind, -1, -occurrences)
    return found
