"""The statements of the hot path for each database: texts built once, run with the driver's own parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from operator import itemgetter
from typing import Final

from evertick.stores.sql.rows import Params

ENTRY_COLUMNS: Final = (
    *("scheduled_for", "job_id", "origin", "bucket", "state", "is_open", "trigger_kind", "decided_at", "decided_by"),
    *("reason", "through", "occurrences", "detail", "params", "changed_at", "facts"),
)
CHANGE_COLUMNS: Final = (
    *("state", "is_open", "fence", "changed_at", "attempt", "reason", "trigger_kind", "executor", "started_at"),
    *("finished_at", "retry_at", "exit_code", "detail", "steps", "definition", "earlier", "facts"),
    *("scheduled_for", "job_id", "origin"),
)
_ALWAYS_SET: Final = frozenset({"state", "is_open", "fence", "changed_at"})
_SET: Final = CHANGE_COLUMNS[:-3]
KEY_COLUMNS: Final = CHANGE_COLUMNS[-3:]
LINE_COLUMNS: Final = (
    *("job_id", "scheduled_for", "origin", "state", "trigger_kind", "decided_at", "decided_by", "reason", "through"),
    *("occurrences", "detail", "params", "fence", "attempt", "executor", "started_at", "finished_at", "retry_at"),
    *("exit_code", "changed_at", "steps", "definition", "earlier", "facts"),
)
"""In the order of `LedgerRow`, its key spread out."""
JOB_COLUMNS: Final = (
    *("job_id", "watermark", "held", "fingerprint", "paused_at", "pause_note", "retired_at", "last_success_at"),
    *("error", "has_failed", "since", "skip_next", "definition", "asked_at", "deadlines_through", "late_since"),
)
HOUR_COLUMNS: Final = ("hour", "state", "trigger_kind", "reason", "share", "entries", "occurrences")
REQUEST_COLUMNS: Final = ("id", "kind", "job_id", "payload", "submitted_at", "submitted_by", "answer")

CHUNK: Final = 250
"""Rows of a literal table in one statement: SQLite allows 500, and plans stay small."""

IS_OPEN: Final = "is_open + 0 > 0"
"""The guard of `record`, with the fence: an ended run stays as it is, and an older fence does not write.

Written so that no planner makes anything of it: each would take those that are open for few, as they nearly always are
when it counts them, and look through all of them for each change. The key finds the one line at once.
"""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Where the databases' SQL differs."""

    mark: str
    """The driver's parameter."""
    greatest: str
    upsert: str
    """The clause after the values of an insert that may conflict with a row; {keys} and {sets} are filled in."""
    proposed: str
    """How that clause names the value to insert; {column} is filled in."""
    keep: str
    """The same for an insert that keeps the existing row; {keys} and {key} are filled in."""
    has_values: bool = False
    """A list of values can be used as a table with named columns: planned faster than as many selects."""
    text_cast: str = ""
    number_cast: str = ""
    share_lock: str = ""
    row_lock: str = ""
    """Appended to a select; {alias} names the table whose rows are locked."""

    def marks(self, count: int) -> str:
        return ", ".join([self.mark] * count)

    def insert(self, table: str, columns: Sequence[str]) -> str:
        return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({self.marks(len(columns))})"

    def insert_or(self, table: str, keys: Sequence[str], columns: Sequence[str], **sets: str) -> str:
        """Insert, or replace the columns that are not keys; `sets` has expressions for other changes."""

        def told(column: str) -> str:
            new, old = self.proposed.format(column=column), f"{table}.{column}"
            return f"{column} = {sets.get(column, '{new}').format(old=old, new=new)}"

        replaced = ", ".join(told(column) for column in columns if column not in keys)
        tail = self.upsert.format(keys=", ".join(keys), sets=replaced)
        return f"{self.insert(table, columns)} {tail}"

    def insert_new(self, table: str, keys: Sequence[str], columns: Sequence[str]) -> str:
        return f"{self.insert(table, columns)} {self.keep.format(keys=', '.join(keys), key=keys[0])}"

    def literal_table(self, alias: str, count: int, **columns: str) -> str:
        """A table of `count` rows of parameters; the columns are said to be `text` or `number`."""
        casts = {"text": self.text_cast, "number": self.number_cast}
        if self.has_values:
            typed = ", ".join(f"{self.mark}{casts[kind]}" for kind in columns.values())
            rest = f", ({self.marks(len(columns))})" * (count - 1)
            return f"(VALUES ({typed}){rest}) AS {alias} ({', '.join(columns)})"
        first = ", ".join(f"{self.mark}{casts[kind]} AS {name}" for name, kind in columns.items())
        other = ", ".join(f"{self.mark}{casts[kind]}" for kind in columns.values())
        return "(SELECT " + first + f" UNION ALL SELECT {other}" * (count - 1) + f") AS {alias}"


SQLITE: Final = Dialect(
    mark="?",
    greatest="max",
    upsert="ON CONFLICT ({keys}) DO UPDATE SET {sets}",
    proposed="excluded.{column}",
    keep="ON CONFLICT ({keys}) DO NOTHING",
)
POSTGRES: Final = Dialect(
    mark="%s",
    greatest="greatest",
    upsert="ON CONFLICT ({keys}) DO UPDATE SET {sets}",
    proposed="excluded.{column}",
    keep="ON CONFLICT ({keys}) DO NOTHING",
    has_values=True,
    text_cast="::text",
    number_cast="::bigint",
    share_lock=" FOR SHARE",
    row_lock=" FOR UPDATE OF {alias}",
)
MYSQL: Final = Dialect(
    mark="%s",
    greatest="greatest",
    # VALUES() is the form that MySQL and MariaDB share.
    upsert="ON DUPLICATE KEY UPDATE {sets}",
    proposed="VALUES({column})",
    # Not INSERT IGNORE, which would also swallow a value that does not fit.
    keep="ON DUPLICATE KEY UPDATE {key} = {key}",
    share_lock=" LOCK IN SHARE MODE",
    row_lock=" FOR UPDATE",
)


class Statements:
    """The statements whose text does not depend on the call, and those that depend only on a number of rows."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        mark = dialect.mark
        key = " AND ".join(f"{column} = {mark}" for column in KEY_COLUMNS)
        grow = f"{dialect.greatest}({{old}}, {{new}})"
        sets = ", ".join(
            f"{column} = {mark}" if column in _ALWAYS_SET else f"{column} = coalesce({mark}, {column})"
            for column in _SET
        )
        self.insert_entry = dialect.insert("evertick_runs", ENTRY_COLUMNS)
        self.insert_gap = dialect.insert("evertick_gaps", ("job_id", "through", "scheduled_for", "origin"))
        self.last_gap_end = "SELECT max(through) FROM evertick_gaps"
        self.change = f"UPDATE evertick_runs SET {sets} WHERE {key} AND {IS_OPEN} AND fence <= {mark}"
        self.withdraw = f"DELETE FROM evertick_runs WHERE {key} AND state = 'planned'"
        self.upsert_job = dialect.insert_or(
            "evertick_jobs", ["job_id"], [*JOB_COLUMNS, "bucket"], watermark=grow, bucket="{old}"
        )
        self.rewind = f"UPDATE evertick_jobs SET watermark = {mark} WHERE job_id = {mark}"
        self.upsert_floor = dialect.insert_or(
            "evertick_floors", ["bucket"], ["bucket", "planned_through"], planned_through=grow
        )
        self.upsert_schedule = dialect.insert_or(
            "evertick_schedules", ["job_id", "since"], ["job_id", "since", "specs"]
        )
        self.upsert_definition = dialect.insert_or(
            "evertick_definitions", ["job_id", "digest"], ["job_id", "digest", "since", "text"], since=grow
        )
        self.upsert_stored_job = dialect.insert_or("evertick_stored_jobs", ["job_id"], ["job_id", "text"])
        self.delete_stored_job = f"DELETE FROM evertick_stored_jobs WHERE job_id = {mark}"
        self.upsert_blackout = dialect.insert_or("evertick_blackouts", ["id"], ["id", "text"])
        self.delete_blackout = f"DELETE FROM evertick_blackouts WHERE id = {mark}"
        self.insert_request = dialect.insert_new("evertick_requests", ["id"], [*REQUEST_COLUMNS, "bucket", "is_open"])
        self.answer = f"UPDATE evertick_requests SET answer = {mark}, is_open = 0 WHERE id = {mark} AND is_open = 1"
        self.add_to_counter = dialect.insert_or(
            "evertick_counters", ["name", "share"], ["name", "share", "value"], value="{old} + {new}"
        )
        self.add_to_hour = dialect.insert_or(
            "evertick_hour_counts",
            HOUR_COLUMNS[:-2],
            HOUR_COLUMNS,
            entries="{old} + {new}",
            occurrences="{old} + {new}",
        )
        self.delete_empty_hours = (
            f"DELETE FROM evertick_hour_counts WHERE hour >= {mark} AND hour <= {mark} AND entries = 0"
            " AND occurrences = 0"
        )
        self.insert_lease = dialect.insert_new("evertick_leases", ["name"], ["name", "holder", "epoch", "expires_at"])
        self.delete_run = f"DELETE FROM evertick_runs WHERE {key} AND is_open = 0"
        self.delete_gap = (
            f"DELETE FROM evertick_gaps WHERE job_id = {mark} AND through = {mark}"
            f" AND scheduled_for = {mark} AND origin = {mark}"
        )
        self.delete_schedule = f"DELETE FROM evertick_schedules WHERE job_id = {mark} AND since = {mark}"
        self.delete_definition = f"DELETE FROM evertick_definitions WHERE job_id = {mark} AND digest = {mark}"
        self.insert_entries = cache(self._insert_entries)
        self.change_of = cache(self._change_of)
        self.existing = cache(self._existing)
        self.gaps_reaching = cache(self._gaps_reaching)
        self.lines_inside = cache(self._lines_inside)
        self.ended_between = cache(self._ended_between)
        self.lease_rows = cache(self._lease_rows)
        self.set_leases = cache(self._set_leases)

    def _insert_entries(self, count: int) -> str:
        return self.insert_entry + f", ({self.dialect.marks(len(ENTRY_COLUMNS))})" * (count - 1)

    def _change_of(self, is_known: tuple[bool, ...]) -> tuple[str, Callable[[Params], Params]]:
        """The statement for changes with these known columns, and the function that takes its values from a row."""
        mark = self.dialect.mark
        columns = [name for name, known in zip(_SET, is_known, strict=False) if known or name in _ALWAYS_SET]
        sets = ", ".join(f"{name} = {mark}" for name in columns)
        key = " AND ".join(f"{name} = {mark}" for name in KEY_COLUMNS)
        places = [CHANGE_COLUMNS.index(name) for name in (*columns, *KEY_COLUMNS, "fence")]
        return f"UPDATE evertick_runs SET {sets} WHERE {key} AND {IS_OPEN} AND fence <= {mark}", itemgetter(*places)

    def _existing(self, count: int, locked: bool) -> str:
        """What is known of the runs with these keys (scheduled_for, job_id, origin)."""
        wanted = self.dialect.literal_table("k", count, k_at="number", k_job="text", k_origin="text")
        return (
            "SELECT r.job_id, r.scheduled_for, r.origin, r.decided_by, r.state, r.fence, r.reason, r.occurrences, "
            f"r.trigger_kind FROM {wanted} JOIN evertick_runs r "
            "ON r.scheduled_for = k.k_at AND r.job_id = k.k_job AND r.origin = k.k_origin"
            + (self.dialect.row_lock.format(alias="r") if locked else "")
        )

    def _gaps_reaching(self, count: int) -> str:
        """The gaps of these jobs (job_id, at) that end at or after an instant."""
        wanted = self.dialect.literal_table("k", count, k_job="text", k_at="number")
        return (
            f"SELECT g.job_id, g.scheduled_for, g.through FROM {wanted} JOIN evertick_gaps g "
            "ON g.job_id = k.k_job AND g.through >= k.k_at AND g.origin = ''"
        )

    def _lines_inside(self, count: int) -> str:
        """Which of these stretches (job_id, first, last) hold a line of the schedule, other than at their first."""
        wanted = self.dialect.literal_table("k", count, k_job="text", k_first="number", k_last="number")
        return (
            f"SELECT k.k_job, k.k_first FROM {wanted} WHERE EXISTS (SELECT 1 FROM evertick_runs r "
            "WHERE r.job_id = k.k_job AND r.scheduled_for > k.k_first AND r.scheduled_for <= k.k_last "
            "AND r.origin = '')"
        )

    def _ended_between(self, count: int) -> str:
        """How many lines ended that were due in these stretches (first, behind the last), by kind."""
        wanted = self.dialect.literal_table("k", count, k_first="number", k_end="number")
        kind = "k.k_first, r.state, r.trigger_kind, r.reason"
        return (
            f"SELECT {kind}, count(*), sum(r.occurrences) FROM {wanted} JOIN evertick_runs r "
            "ON r.scheduled_for >= k.k_first AND r.scheduled_for < k.k_end WHERE r.is_open = 0 "
            f"GROUP BY {kind}"
        )

    def _lease_rows(self, count: int, lock: str) -> str:
        """Leases by name, in the order in which every node locks them."""
        return (
            "SELECT name, holder, epoch, expires_at FROM evertick_leases "
            f"WHERE name IN ({self.dialect.marks(count)}) ORDER BY name{lock}"
        )

    def _set_leases(self, count: int) -> str:
        mark = self.dialect.mark
        return (
            f"UPDATE evertick_leases SET holder = {mark}, epoch = epoch + {mark}, expires_at = {mark} "
            f"WHERE name IN ({self.dialect.marks(count)})"
        )
