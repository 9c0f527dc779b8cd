"""Step 1: the ledger, and what belongs to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

if TYPE_CHECKING:
    from evertick.stores.sql.migrations.making import Making

# Copied from the schema of its day on purpose: a released step must go on making what it made.
_KEY = sa.String(255).with_variant(sa.Text(collation="C"), "postgresql").with_variant(sa.Text(), "sqlite")
_WORD = sa.String(32).with_variant(sa.Text(), "postgresql").with_variant(sa.Text(), "sqlite")
_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb")
_INSTANT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_CLUSTERED: dict[str, Any] = {"sqlite_with_rowid": False}


def _key(name: str, kind: Any = _KEY) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _is(name: str, kind: Any, default: str | None = None) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, server_default=None if default is None else sa.text(default))


def _may_be(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=True)


def apply(making: Making) -> None:
    _make_runs(making)
    _make_jobs(making)
    _make_requests(making)
    making.table(
        "evertick_leases",
        *(_key("name"), _is("holder", _KEY), _is("epoch", _INSTANT), _is("expires_at", _INSTANT)),
        **_CLUSTERED,
    )
    making.table(
        "evertick_counters", _key("name"), _key("share", sa.SmallInteger()), _is("value", _INSTANT), **_CLUSTERED
    )


def _make_runs(making: Making) -> None:
    making.table(
        "evertick_runs",
        _key("scheduled_for", _INSTANT),
        _key("job_id"),
        _key("origin"),
        _is("bucket", sa.SmallInteger()),
        _is("state", _WORD),
        _is("is_open", sa.SmallInteger()),
        _is("trigger_kind", _WORD),
        _is("decided_at", _INSTANT),
        _is("decided_by", _KEY),
        _may_be("reason", _WORD),
        _may_be("through", _INSTANT),
        _is("occurrences", _INSTANT),
        _is("detail", _TEXT),
        _is("params", _TEXT),
        _is("fence", _INSTANT, "0"),
        _is("attempt", sa.Integer(), "0"),
        _is("executor", _KEY, "''"),
        _may_be("started_at", _INSTANT),
        _may_be("finished_at", _INSTANT),
        _may_be("retry_at", _INSTANT),
        _may_be("exit_code", sa.Integer()),
        _is("changed_at", _INSTANT),
        **_CLUSTERED,
    )
    making.index("evertick_runs_by_job", "evertick_runs", ["job_id", "scheduled_for", "origin"])
    making.index("evertick_runs_open", "evertick_runs", ["is_open", "bucket"], where="is_open = 1")
    making.table(
        "evertick_gaps",
        *(_key("job_id"), _key("through", _INSTANT), _key("scheduled_for", _INSTANT), _key("origin")),
        **_CLUSTERED,
    )
    making.index("evertick_gaps_by_end", "evertick_gaps", ["through"])


def _make_jobs(making: Making) -> None:
    making.table(
        "evertick_jobs",
        _key("job_id"),
        _is("bucket", sa.SmallInteger()),
        _is("watermark", _INSTANT),
        _is("held", sa.SmallInteger()),
        _is("fingerprint", _KEY),
        _may_be("paused_at", _INSTANT),
        _is("pause_note", _TEXT),
        _may_be("retired_at", _INSTANT),
        _may_be("last_success_at", _INSTANT),
        _is("error", _TEXT),
        _is("has_failed", sa.SmallInteger()),
        _is("since", _INSTANT),
        **_CLUSTERED,
    )
    making.index("evertick_jobs_by_bucket", "evertick_jobs", ["bucket"])
    making.table("evertick_schedules", _key("job_id"), _key("since", _INSTANT), _is("specs", _TEXT), **_CLUSTERED)
    making.table("evertick_floors", _key("bucket", sa.SmallInteger()), _is("planned_through", _INSTANT))


def _make_requests(making: Making) -> None:
    making.table(
        "evertick_requests",
        _key("id"),
        _is("kind", _WORD),
        _is("job_id", _KEY),
        _is("bucket", sa.SmallInteger()),
        _is("payload", _TEXT),
        _is("submitted_at", _INSTANT),
        _is("submitted_by", _KEY),
        _is("is_open", sa.SmallInteger()),
        _may_be("answer", _TEXT),
        **_CLUSTERED,
    )
    making.index("evertick_requests_open", "evertick_requests", ["is_open", "submitted_at"], where="is_open = 1")
