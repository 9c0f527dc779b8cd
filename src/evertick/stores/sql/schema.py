"""The tables of a ledger in a database; `migrations` creates them and migrates older ones."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

METADATA: Final = sa.MetaData()


class MediumText(sa.Text):
    """A text of 16 MB on MySQL, whose plain one ends at 64 KB; SQLAlchemy's own comes with all of its dialect."""

    __visit_name__ = "MEDIUMTEXT"


# Keys compare byte by byte on every database: an order by locale, case or trailing blanks would make pages skip
# lines and two jobs one. MySQL and MariaDB name that collation differently, so their session sets it as a default.
KEY: Final = sa.String(255).with_variant(sa.Text(collation="C"), "postgresql").with_variant(sa.Text(), "sqlite")
PLACES: Final = sa.String(4_000).with_variant(sa.Text(collation="C"), "postgresql").with_variant(sa.Text(), "sqlite")
WORD: Final = sa.String(32).with_variant(sa.Text(), "postgresql").with_variant(sa.Text(), "sqlite")
TEXT: Final = sa.Text().with_variant(MediumText(), "mysql", "mariadb")
INSTANT: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

# A table that is its own primary key index: an insert touches one tree less, and time-ordered rows lie together.
_CLUSTERED: Final[dict[str, Any]] = {"sqlite_with_rowid": False}

RUNS: Final = sa.Table(
    "evertick_runs",
    METADATA,
    # Time first: new lines go to the end of the tree however large the history is, and the oldest leave it at the
    # front. As a unique key it is the same as (job, instant, origin).
    sa.Column("scheduled_for", INSTANT, primary_key=True, autoincrement=False),
    sa.Column("job_id", KEY, primary_key=True),
    sa.Column("origin", KEY, primary_key=True),
    sa.Column("bucket", sa.SmallInteger, nullable=False),
    sa.Column("state", WORD, nullable=False),
    # Beside `state`, so that PostgreSQL need not touch an index when a run goes from one open state to the next.
    sa.Column("is_open", sa.SmallInteger, nullable=False),
    sa.Column("trigger_kind", WORD, nullable=False),
    sa.Column("decided_at", INSTANT, nullable=False),
    sa.Column("decided_by", KEY, nullable=False),
    sa.Column("reason", WORD),
    sa.Column("through", INSTANT),
    sa.Column("occurrences", INSTANT, nullable=False),
    sa.Column("detail", TEXT, nullable=False),
    sa.Column("params", TEXT, nullable=False),
    sa.Column("fence", INSTANT, nullable=False, server_default=sa.text("0")),
    sa.Column("attempt", sa.Integer, nullable=False, server_default=sa.text("0")),
    sa.Column("executor", PLACES, nullable=False, server_default=sa.text("''")),
    sa.Column("started_at", INSTANT),
    sa.Column("finished_at", INSTANT),
    sa.Column("retry_at", INSTANT),
    sa.Column("exit_code", sa.Integer),
    sa.Column("changed_at", INSTANT, nullable=False),
    sa.Column("steps", TEXT),
    sa.Column("definition", WORD),
    sa.Column("earlier", TEXT),
    sa.Column("facts", TEXT),
    **_CLUSTERED,
)
sa.Index("evertick_runs_by_job", RUNS.c.job_id, RUNS.c.scheduled_for, RUNS.c.origin)
sa.Index("evertick_runs_open", RUNS.c.is_open, RUNS.c.bucket)
# Most runs are the schedule's own; of the others a page is found without walking those.
BY_TRIGGER: Final = "evertick_runs_by_trigger"
NOT_SCHEDULED: Final = RUNS.c.trigger_kind != sa.literal_column("'scheduler'")
sa.Index(BY_TRIGGER, RUNS.c.trigger_kind, RUNS.c.scheduled_for, RUNS.c.job_id, RUNS.c.origin)
# Computed by SQLite and MySQL themselves, and not there on PostgreSQL: the state of a run that did not end well.
ENDED_AS: Final = sa.literal_column("evertick_runs.ended_as", WORD)
BY_END: Final = "evertick_runs_by_end"
DIALECTS_BY_END: Final = frozenset({"sqlite", "mysql", "mariadb"})


def runs_by_end() -> sa.Table:
    """The table of runs with that column and its index."""
    text = "CASE WHEN is_open = 0 AND state <> 'succeeded' THEN state END"
    runs = RUNS.to_metadata(sa.MetaData())
    runs.append_column(sa.Column("ended_as", WORD, sa.Computed(text, persisted=False)))
    sa.Index(BY_END, runs.c.ended_as, runs.c.scheduled_for, runs.c.job_id, runs.c.origin)
    return runs


GAPS: Final = sa.Table(
    "evertick_gaps",
    METADATA,
    # The lines of the ledger that cover a stretch, once more and by their end: a plain line must be checked against
    # them, and there are so few that this costs nothing.
    sa.Column("job_id", KEY, primary_key=True),
    sa.Column("through", INSTANT, primary_key=True, autoincrement=False),
    sa.Column("scheduled_for", INSTANT, primary_key=True, autoincrement=False),
    sa.Column("origin", KEY, primary_key=True),
    **_CLUSTERED,
)
sa.Index("evertick_gaps_by_end", GAPS.c.through)

JOBS: Final = sa.Table(
    "evertick_jobs",
    METADATA,
    sa.Column("job_id", KEY, primary_key=True),
    sa.Column("bucket", sa.SmallInteger, nullable=False),
    sa.Column("watermark", INSTANT, nullable=False),
    sa.Column("held", sa.SmallInteger, nullable=False),
    sa.Column("fingerprint", KEY, nullable=False),
    sa.Column("paused_at", INSTANT),
    sa.Column("pause_note", TEXT, nullable=False),
    sa.Column("retired_at", INSTANT),
    sa.Column("last_success_at", INSTANT),
    sa.Column("error", TEXT, nullable=False),
    sa.Column("has_failed", sa.SmallInteger, nullable=False),
    sa.Column("since", INSTANT, nullable=False),
    sa.Column("skip_next", sa.SmallInteger, nullable=False, server_default=sa.text("0")),
    sa.Column("definition", WORD),
    sa.Column("asked_at", INSTANT),
    sa.Column("deadlines_through", INSTANT),
    sa.Column("late_since", INSTANT),
    **_CLUSTERED,
)
sa.Index("evertick_jobs_by_bucket", JOBS.c.bucket)

SCHEDULES: Final = sa.Table(
    "evertick_schedules",
    METADATA,
    sa.Column("job_id", KEY, primary_key=True),
    sa.Column("since", INSTANT, primary_key=True, autoincrement=False),
    sa.Column("specs", TEXT, nullable=False),
    **_CLUSTERED,
)

DEFINITIONS: Final = sa.Table(
    "evertick_definitions",
    METADATA,
    sa.Column("job_id", KEY, primary_key=True),
    sa.Column("digest", WORD, primary_key=True),
    sa.Column("since", INSTANT, nullable=False),
    sa.Column("text", TEXT, nullable=False),
    **_CLUSTERED,
)

STORED_JOBS: Final = sa.Table(
    "evertick_stored_jobs",
    METADATA,
    sa.Column("job_id", KEY, primary_key=True),
    sa.Column("text", TEXT, nullable=False),
    **_CLUSTERED,
)

BLACKOUTS: Final = sa.Table(
    "evertick_blackouts",
    METADATA,
    sa.Column("id", KEY, primary_key=True),
    sa.Column("text", TEXT, nullable=False),
    **_CLUSTERED,
)

FLOORS: Final = sa.Table(
    "evertick_floors",
    METADATA,
    sa.Column("bucket", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("planned_through", INSTANT, nullable=False),
)

LEASES: Final = sa.Table(
    "evertick_leases",
    METADATA,
    sa.Column("name", KEY, primary_key=True),
    sa.Column("holder", KEY, nullable=False),
    sa.Column("epoch", INSTANT, nullable=False),
    sa.Column("expires_at", INSTANT, nullable=False),
    **_CLUSTERED,
)

REQUESTS: Final = sa.Table(
    "evertick_requests",
    METADATA,
    sa.Column("id", KEY, primary_key=True),
    sa.Column("kind", WORD, nullable=False),
    sa.Column("job_id", KEY, nullable=False),
    sa.Column("bucket", sa.SmallInteger, nullable=False),
    sa.Column("payload", TEXT, nullable=False),
    sa.Column("submitted_at", INSTANT, nullable=False),
    sa.Column("submitted_by", KEY, nullable=False),
    sa.Column("is_open", sa.SmallInteger, nullable=False),
    sa.Column("answer", TEXT),
    **_CLUSTERED,
)
sa.Index("evertick_requests_open", REQUESTS.c.is_open, REQUESTS.c.submitted_at)

COUNTERS: Final = sa.Table(
    "evertick_counters",
    METADATA,
    # Several rows per name: nodes that write at once add to different ones and do not wait for each other.
    sa.Column("name", KEY, primary_key=True),
    sa.Column("share", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("value", INSTANT, nullable=False),
    **_CLUSTERED,
)

HOURS: Final = sa.Table(
    "evertick_hour_counts",
    METADATA,
    # Ended entries, by the hour in which they were due and by kind; shares as those of the counters.
    sa.Column("hour", INSTANT, primary_key=True, autoincrement=False),
    sa.Column("state", WORD, primary_key=True),
    sa.Column("trigger_kind", WORD, primary_key=True),
    sa.Column("reason", WORD, primary_key=True),
    sa.Column("share", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("entries", INSTANT, nullable=False),
    sa.Column("occurrences", INSTANT, nullable=False),
    **_CLUSTERED,
)

VERSIONS: Final = sa.Table(
    "evertick_schema",
    METADATA,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("evertick", sa.String(32), nullable=False),
    sa.Column("serves", sa.Integer, nullable=True),
)

DIALECTS_WITH_PARTIAL: Final = frozenset({"sqlite", "postgresql"})
PARTIAL: Final[dict[str, sa.ColumnElement[bool]]] = {
    "evertick_runs_open": RUNS.c.is_open == 1,
    BY_TRIGGER: NOT_SCHEDULED,
    BY_END: sa.literal_column("ended_as").is_not(None),
    "evertick_requests_open": REQUESTS.c.is_open == 1,
}
"""Which rows an index holds where it may be partial: few runs are open. MySQL has no such thing and indexes all.

Not options of the indexes themselves: `postgresql_where` loads that dialect in every process, whatever its ledger is.
"""
