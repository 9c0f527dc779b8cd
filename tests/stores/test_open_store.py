"""Does a URL open its store, and does an invalid one say what to write instead?"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evertick.errors import SettingsError
from evertick.location import lock_path
from evertick.stores import EXAMPLES, open_store

ELSEWHERE = ("psycopg", "pymysql", "sqlalchemy.dialects.postgresql", "sqlalchemy.dialects.mysql")
"""What only the stores on a server need."""


def test_memory_needs_no_place():
    store = open_store("memory:")
    assert type(store).__name__ == "MemoryStore"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        pytest.param("sqlite:///evertick.db", "evertick.db", id="three slashes: in the working folder"),
        pytest.param("sqlite:////tmp/x/evertick.db", "/tmp/x/evertick.db", id="four slashes: anywhere"),
        pytest.param("sqlite:///a%20b.db", "a b.db", id="escapes"),
    ],
)
def test_a_sqlite_url_names_its_file_and_the_lock_beside_it(url, path):
    assert lock_path(url) == Path(path + ".lock")


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        pytest.param("files:///srv/pipelines", "/srv/pipelines", id="anywhere"),
        pytest.param("files:pipelines", "pipelines", id="in the working folder"),
        pytest.param("FILES:///srv/a%20b", "/srv/a b", id="any case, escapes"),
    ],
)
def test_a_files_url_names_its_folder_and_the_lock_in_it(url, folder):
    assert lock_path(url) == Path(folder) / ".scheduler.lock"


@pytest.mark.parametrize("url", ["postgresql://u@h/d", "mysql://u@h/d", "memory:"])
def test_stores_that_keep_order_themselves_have_no_lock_file(url):
    assert lock_path(url) is None


def test_a_folder_and_a_file_are_opened(tmp_path):
    for url, kind in [(f"files://{tmp_path}/f", "FilesStore"), (f"sqlite:///{tmp_path}/s.db", "SqliteStore")]:
        store = open_store(url)
        assert type(store).__name__ == kind
        store.close()


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_spelling_of_postgresql_reaches_its_driver(monkeypatch, scheme):
    monkeypatch.setattr("evertick.stores.sql.postgres.PostgresStore", lambda url, **_options: url)
    opened: object = open_store(f"{scheme}://u:p@h/d")
    assert opened == "postgresql+psycopg://u:p@h/d"


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "mysql+pymysql", "mariadb+pymysql"])
def test_every_spelling_of_mysql_reaches_its_driver(monkeypatch, scheme):
    monkeypatch.setattr("evertick.stores.sql.mysql.MysqlStore", lambda url, **_options: url)
    opened: object = open_store(f"{scheme}://u:p@h/d?charset=utf8mb4")
    assert opened == "mysql+pymysql://u:p@h/d?charset=utf8mb4"


@pytest.mark.parametrize(
    "url", ["", "evertick.db", "oracle://u:secret@h/d", "/srv/evertick.db", "postgresql+asyncpg://h/d"]
)
def test_an_unknown_scheme_is_answered_with_examples_and_without_the_password(url):
    with pytest.raises(SettingsError) as refused:
        open_store(url)
    assert all(example in str(refused.value) for example in EXAMPLES)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        pytest.param("memory:somewhere", "memory:", id="memory with a place"),
        pytest.param("sqlite:", "sqlite:///evertick.db", id="sqlite without a file"),
        pytest.param("sqlite://var/lib/evertick.db", "three slashes", id="sqlite with a host"),
        pytest.param("files:", "files:///srv/pipelines", id="files without a folder"),
        pytest.param("files://srv/pipelines", "three slashes", id="files with a host"),
    ],
)
def test_a_url_without_a_usable_place_says_what_to_write(url, advice):
    with pytest.raises(SettingsError, match=advice):
        open_store(url)


@pytest.mark.parametrize(
    ("url", "driver", "extra"),
    [("postgresql://u:secret@h/d", "psycopg", "postgres"), ("mysql://u:secret@h/d", "pymysql", "mysql")],
)
def test_a_missing_driver_says_which_extra_to_install(monkeypatch, url, driver, extra):
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(SettingsError) as refused:
        open_store(url)
    assert f"pip install 'evertick[{extra}]'" in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "spared"),
    [
        pytest.param("memory:", ("sqlalchemy", "sqlite3", *ELSEWHERE), id="memory"),
        # Alembic changes the tables of a released schema; a new ledger has nothing to change.
        pytest.param("sqlite:///{folder}/new.db", ("alembic", *ELSEWHERE), id="a new sqlite file"),
    ],
)
def test_asking_for_a_store_imports_only_that_one(url, spared, tmp_path):
    program = (
        f"import sys; from evertick.stores import open_store; open_store({url.format(folder=tmp_path)!r}); "
        f"print([name for name in {spared!r} if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
