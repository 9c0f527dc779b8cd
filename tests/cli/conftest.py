"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.invoke import NOW, make_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where a scheduler has run for a day, at half past seven."""
    make_folder(tmp_path)
    monkeypatch.setattr("evertick.cli.times.now", lambda: NOW)
    return tmp_path
