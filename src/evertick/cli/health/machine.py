"""Whether the machine is fit: its clock, its zones, its limits."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from evertick.cli.health.finding import FAIL, OK, WARN
from evertick.definitions.watch import watch_failure

Told = Iterator[tuple[str, ...]]

UNSYNCHRONISED = 0x40
CLOCK_OFF_MAX_US = 500_000
ZONES_OLD_YEARS = 2
FILES_MIN = 1_024


class _Timex(ctypes.Structure):
    """What the kernel says about its clock; the fields that are read, and room for all others."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 512),
    )


def check_version() -> Told:
    from importlib.metadata import version

    python = ".".join(map(str, sys.version_info[:3]))
    yield OK, f"Evertick {version('evertick')} on Python {python}, {os.uname().sysname} {os.uname().release}"


def check_clock() -> Told:
    """Whether somebody keeps the clock right: a schedule is only as good as it."""
    now = datetime.now(UTC)
    if not 2026 <= now.year < 2100:
        yield FAIL, f"the clock says {now:%Y-%m-%d}", "set the clock: every schedule is read by it"
        return
    found = _kernel_clock()
    if found is None:
        yield WARN, "this system does not say whether its clock is kept right", "run a time service such as chrony"
        return
    is_kept, error_us = found
    if not is_kept:
        yield (
            WARN,
            "nothing keeps the clock of this machine right",
            "turn on a time service: timedatectl set-ntp true, or chrony; in a container, on its host",
        )
    elif error_us > CLOCK_OFF_MAX_US:
        yield WARN, f"the clock may be off by {error_us / 1_000_000:.1f} s", "look at chronyc tracking"
    else:
        yield OK, f"kept right by a time service, to {error_us / 1_000:.0f} ms"


def _kernel_clock() -> tuple[bool, int] | None:
    try:
        timex = _Timex()
        if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) < 0:
            return None
    except (OSError, AttributeError):
        return None
    return not timex.status & UNSYNCHRONISED, timex.maxerror


def check_zones(zone: str, origin: str) -> Told:
    """Whether the rules of the time zones are there and young: governments change them."""
    from zoneinfo import TZPATH, ZoneInfo, available_timezones

    ZoneInfo(zone)
    known, version = len(available_timezones()), _zones_version(TZPATH)
    if known < 400:
        yield WARN, f"only {known} time zones are known", "pip install -U tzdata"
    age = datetime.now(UTC).year - int(version[:4]) if version[:4].isdigit() else None
    if age is None:
        yield OK, f"{known} zones, of an unknown version"
    elif age >= ZONES_OLD_YEARS:
        yield WARN, f"the rules of the zones are of {version}", "update the package tzdata of the system, or of pip"
    else:
        yield OK, f"{known} zones, version {version}"
    yield OK, f"what names no zone is read in {zone} ({origin})"


def _zones_version(places: tuple[str, ...]) -> str:
    """Of the data that is used: the system's goes before the package's."""
    for place in map(Path, places):
        if (place / "UTC").exists():
            for name, prefix in (("tzdata.zi", "# version "), ("+VERSION", "")):
                try:
                    with (place / name).open(encoding="ascii", errors="replace") as stream:
                        first = stream.readline().strip()
                except OSError:
                    continue
                if first.startswith(prefix):
                    return first.removeprefix(prefix)
            return "an unknown version"
    import tzdata  # type: ignore[import-untyped]

    return str(tzdata.IANA_VERSION)


def check_limits(folder: Path | None) -> Told:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < FILES_MIN:
        yield WARN, f"a process may have {files:,} files open", "raise it: ulimit -n 4096, or LimitNOFILE= of the unit"
    else:
        yield OK, f"a process may have {files:,} files open"
    if folder is not None and folder.is_dir():
        yield from _edits(folder)
    if not Path("/bin/sh").exists():
        yield FAIL, "there is no /bin/sh", "install a shell: commands of jobs are given to it"


def check_keepers(state: Path) -> Told:
    """Whether the processes that run the jobs of this machine answer."""
    from evertick.executors.keeper_process import probe_keepers

    answers = list(probe_keepers(state))
    for one in answers:
        if one.problem:
            yield (
                FAIL,
                f"{one.name} (process {one.pid or 'unknown'}): {one.problem}",
                "the scheduler replaces it after local.keeper_timeout; if there is none, kill it: its runs go on",
            )
    if not any(one.problem for one in answers):
        yield OK, f"{len(answers)} at work, and they answer" if answers else "none is at work"


def _edits(folder: Path) -> Told:
    """Whether a scheduler would notice an edit of a job file at once; tried as it does it."""
    reason = watch_failure(folder)
    if reason is None:
        yield OK, "edits of job files are noticed at once (inotify)"
    else:
        yield (
            WARN,
            f"{reason}; the scheduler scans the folder for edits, and may notice one late",
            "keep the job files on a local disk, or raise fs.inotify.max_user_watches and max_user_instances",
        )
