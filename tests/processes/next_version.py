"""The version after this one, made for tests: a copy with a higher number, one more step of the schema, and its use."""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
VERSION = "99.0.0"

STEP = """

def add_marks(editor):
    editor.add_column("evertick_runs", sa.Column("mark", sa.String(40), nullable=True))
    editor.add_table(sa.Table("evertick_marks", sa.MetaData(), sa.Column("batch", sa.String(200), primary_key=True)))


STEPS = (*STEPS, Step(add_marks, is_breaking={is_breaking}))
"""

# Every line that the next version enters is marked, and each of its batches has a row in the new table.
USE = """

_commit_of_the_version_before = SqlStore._commit


def _marking(self, connection, batch):
    done = _commit_of_the_version_before(self, connection, batch)
    for entry in batch.entries:
        key = "scheduled_for = %s AND job_id = %s AND origin = %s"
        connection.exec_driver_sql(f"UPDATE evertick_runs SET mark = 'next' WHERE {key}", key_row(entry.key))
    if batch.entries:
        connection.exec_driver_sql("DELETE FROM evertick_marks WHERE batch = %s", (batch.by,))
        connection.exec_driver_sql("INSERT INTO evertick_marks (batch) VALUES (%s)", (batch.by,))
    return done


SqlStore._commit = _marking
"""


def make_next_version(folder: Path, *, is_breaking: bool = False) -> Path:
    """A folder to import it from, before the present one."""
    shutil.copytree(ROOT / "src" / "evertick", folder / "evertick", ignore=shutil.ignore_patterns("__pycache__"))
    metadata = folder / f"evertick-{VERSION}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: evertick\nVersion: {VERSION}\n")
    stores = folder / "evertick" / "stores" / "sql"
    _append(stores / "migrations.py", STEP.format(is_breaking=is_breaking))
    _append(stores / "store.py", USE)
    return folder


def _append(path: Path, text: str) -> None:
    path.write_text(path.read_text() + text)
