"""Fixtures of the executor tests."""

from __future__ import annotations

import pytest

from tests.executors.local_runs import Place


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path / "state")
    yield place
    place.close()
