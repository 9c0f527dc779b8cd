"""Whether a built distribution is complete: it has the page, and type checkers see its types."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIMIT_SECONDS = 540
PROGRAM = """
import asyncio
from datetime import timedelta

from evertick import RunContext, Scheduler

scheduler = Scheduler(store="memory:")


@scheduler.job(every=timedelta(hours=1), retries=2)
def add(one: int = 1, other: int = 2) -> int:
    return one + other


@scheduler.job(cron="0 3 * * *", timezone="Europe/Berlin")
async def report(context: RunContext) -> str:
    return context.run_id


async def main() -> None:
    async with scheduler:
        ended = await scheduler.trigger_now("add", {"one": 40})
        print(ended.detail, ended.is_success, [job.job for job in await scheduler.list_schedules()])


total: int = add(1, other=3)
asyncio.run(main())
"""
WRONG = PROGRAM.replace("total: int = add(1, other=3)", 'total: str = add("1", another=3)')


def call(*command: str | Path, cwd: Path, without_node: bool = False) -> str:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("EVERTICK_", "PYTHON"))}
    if without_node:
        environ["PATH"] = str(Path(sys.executable).parent)
        assert shutil.which("npm", path=environ["PATH"]) is None
    done = subprocess.run(
        list(map(str, command)),
        cwd=cwd,
        env=environ,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def clean_export(folder: Path) -> Path:
    """The files of the checkout, and nothing that was built of them."""
    listed = call("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    assert not (folder / "src/evertick/web/static").exists()
    return folder


def page_in(names: list[str]) -> bool:
    has_script = any(name.startswith("evertick/web/static/assets/index-") for name in names)
    return has_script and {"evertick/web/static/index.html", "evertick/py.typed"} <= set(names)


@pytest.mark.slow
def test_what_is_built_of_a_clean_checkout_has_the_page_and_the_types(tmp_path):
    export = clean_export(tmp_path / "export")
    call(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, export, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert page_in(zipfile.ZipFile(wheel).namelist())

    # An sdist has the built page: whoever installs it needs no Node.
    call(sys.executable, "-m", "hatchling", "build", "-t", "sdist", cwd=export)
    (packed,) = (export / "dist").glob("*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path / "sdist", filter="data")
    (unpacked,) = (tmp_path / "sdist").iterdir()
    call(sys.executable, "-m", "hatchling", "build", "-t", "wheel", cwd=unpacked, without_node=True)
    (again,) = (unpacked / "dist").glob("*.whl")
    assert page_in(zipfile.ZipFile(again).namelist())

    fresh = tmp_path / "fresh"
    venv.create(fresh)
    # Most of what it installs is never imported here: to compile it all would take longer than the rest of the test.
    pip = (sys.executable, "-m", "pip", "--python", fresh / "bin/python")
    call(*pip, "install", "-q", "--no-compile", wheel, cwd=tmp_path)
    seen = call(
        fresh / "bin/python", "-P", "-c", "import evertick.web as web; print(web.__file__, web.site())", cwd=tmp_path
    )
    assert str(fresh) in seen
    assert "None" not in seen.split()[1]

    (tmp_path / "program.py").write_text(PROGRAM)
    assert call(fresh / "bin/python", "program.py", cwd=tmp_path).strip() == "42 True ['add', 'report']"
    check = (sys.executable, "-m", "mypy", "--strict", "--python-executable", str(fresh / "bin/python"))
    assert "Success" in call(*check, "program.py", cwd=tmp_path)
    (tmp_path / "wrong.py").write_text(WRONG)
    told = subprocess.run([*check, "wrong.py"], cwd=tmp_path, capture_output=True, text=True, check=False).stdout
    assert "Unexpected keyword argument" in told, "the decorator keeps the signature of what it decorates"
    assert "Incompatible types in assignment" in told
