"""Plain job files as users write them, loaded and run unchanged."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from evertick.model.lifecycle import SUCCEEDED
from evertick.settings import Settings
from tests.serving.served import Served

pytestmark = pytest.mark.slow

FILES = {
    "one-timetable": """
name: one-timetable
schedule: "0 * * * *"
catchupWindow: "6h"
overlapPolicy: all
command: "true"
""",
    "two-timetables": """
name: two-timetables
schedule:
  - "0 * * * *"
  - "30 9 * * *"
catchupWindow: "6h"
overlapPolicy: all
command: "true"
""",
    "morning": """
name: morning
schedule: "0 9 * * *"
catchupWindow: "12h"
overlapPolicy: skip
steps:
  - name: generate
    command: python report.py
""",
    "hourly": """
name: hourly
schedule: "0 * * * *"
catchupWindow: "3d"
overlapPolicy: all
steps:
  - name: etl
    command: python etl.py
""",
}


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("jobs")
    for name, text in FILES.items():
        (folder / f"{name}.yaml").write_text(text)
    for name in ("report", "etl"):
        (folder / f"{name}.py").write_text(f"print('{name} was here')")
    with pytest.MonkeyPatch.context() as patch:
        # Where a program is looked for, and where it works, is what the scheduler was given.
        patch.setenv("HOME", str(folder))
        patch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        served = Served(folder, Settings())
        yield served
        served.stop()


@pytest.mark.parametrize("name", FILES)
def test_a_plain_job_runs(served, name):
    assert served.run(name).state is SUCCEEDED


@pytest.mark.parametrize(("name", "step", "said"), [("morning", "generate", "report"), ("hourly", "etl", "etl")])
def test_its_program_is_found_beside_it(served, name, step, said):
    assert served.log(served.run(name).key, step) == f"{said} was here\n"
