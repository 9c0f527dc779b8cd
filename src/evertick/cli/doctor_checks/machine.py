"""Checks of the machine: clock, time zones, limits and keepers."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from evertick.cli.doctor_checks import FAIL, OK, WARN, Results
from evertick.cli.output import counted
from evertick.definitions.watch import watch_failure
from evertick.model.duration import duration_text
from evertick.model.job import Job
from evertick.model.work import Container, SshCommand
from evertick.settings.parts import DockerSettings

UNSYNCHRONISED = 0x40
CLOCK_OFF_MAX_US = 500_000
ZONES_OLD_YEARS = 2
FILES_MIN = 1_024


class _Timex(ctypes.Structure):
    """The kernel's clock state; the fields that are read, and room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 512),
    )


def check_version() -> Results:
    from importlib.metadata import version

    python = ".".join(map(str, sys.version_info[:3]))
    yield OK, f"Evertick {version('evertick')} on Python {python}, {os.uname().sysname} {os.uname().release}"


def check_clock() -> Results:
    """Whether a time service synchronizes the clock."""
    now = datetime.now(UTC)
    if not 2026 <= now.year < 2100:
        yield FAIL, f"the clock is set to {now:%Y-%m-%d}", "set the clock"
        return
    found = _kernel_clock()
    if found is None:
        yield WARN, "the system does not report whether its clock is synchronized", "run a time service such as chrony"
        return
    is_synchronized, error_us = found
    if not is_synchronized:
        yield (
            WARN,
            "the clock is not synchronized",
            "enable a time service: timedatectl set-ntp true, or chrony; for a container, on its host",
        )
    elif error_us > CLOCK_OFF_MAX_US:
        yield WARN, f"the clock may be off by {duration_text(error_us)}", "chronyc tracking"
    else:
        yield OK, f"synchronized, within {duration_text(error_us)}"


def _kernel_clock() -> tuple[bool, int] | None:
    try:
        timex = _Timex()
        if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) < 0:
            return None
    except (OSError, AttributeError):
        return None
    return not timex.status & UNSYNCHRONISED, timex.maxerror


def check_zones(zone: str, origin: str) -> Results:
    """Whether the time zone data is complete and recent: governments change the rules."""
    from zoneinfo import TZPATH, ZoneInfo, available_timezones

    ZoneInfo(zone)
    known, version = len(available_timezones()), _zones_version(TZPATH)
    if known < 400:
        yield WARN, f"only {known} time zones are installed", "pip install -U tzdata"
    age = datetime.now(UTC).year - int(version[:4]) if version[:4].isdigit() else None
    if age is None:
        yield OK, f"{known} zones, version unknown"
    elif age >= ZONES_OLD_YEARS:
        yield WARN, f"the time zone data is old: version {version}", "update the system's tzdata package, or pip's"
    else:
        yield OK, f"{known} zones, version {version}"
    yield OK, f"default zone: {zone} ({origin})"


def _zones_version(places: tuple[str, ...]) -> str:
    """The version of the data in use: the system's, else the package's."""
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
            return "unknown"
    import tzdata  # type: ignore[import-untyped]

    return str(tzdata.IANA_VERSION)


def check_limits(folder: Path | None) -> Results:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < FILES_MIN:
        yield WARN, f"{files:,} open files per process", "raise it: ulimit -n 4096, or LimitNOFILE= in the systemd unit"
    else:
        yield OK, f"{files:,} open files per process"
    if folder is not None and folder.is_dir():
        yield from _edits(folder)
    if not Path("/bin/sh").exists():
        yield FAIL, "/bin/sh does not exist", "install a shell: jobs run their commands with it"


def check_kinds(jobs: Mapping[str, Job], docker: DockerSettings) -> Results:
    """Whether this machine has what the steps of these jobs need: OpenSSH, a container engine."""
    steps = [(job.id, step) for job in jobs.values() for step in job.work.all_steps]
    by_ssh = sorted({job_id for job_id, step in steps if isinstance(step.kind, SshCommand)})
    if by_ssh and shutil.which("ssh") is None:
        yield (
            FAIL,
            f"the program 'ssh' is not in PATH; needed by {counted(len(by_ssh), 'job')}, such as {by_ssh[0]!r}",
            "install the OpenSSH client: apt-get install openssh-client",
        )
    elif by_ssh:
        yield OK, f"OpenSSH is installed: {shutil.which('ssh')}"
    in_containers = sorted({job_id for job_id, step in steps if isinstance(step.kind, Container)})
    if in_containers or docker.socket is not None:
        yield from _engine(docker, in_containers)


def _engine(docker: DockerSettings, jobs: list[str]) -> Results:
    from evertick.wiring import probe_engine

    if docker.socket is None:
        yield (
            FAIL,
            f"containers are not allowed here; needed by {counted(len(jobs), 'job')}, such as {jobs[0]!r}",
            "set docker.socket to the socket of Docker or Podman, for example /run/docker.sock",
        )
        return
    found = probe_engine(docker.socket)
    if found.problem:
        yield (
            FAIL if jobs else WARN,
            f"the container engine does not answer: {found.problem}",
            "start Docker or 'podman system service', and let the account of the scheduler use its socket",
        )
    else:
        yield OK, f"the container engine answers: {found.name}"
    if docker.auth_file is not None and not os.access(docker.auth_file, os.R_OK):
        yield (
            FAIL,
            f"docker.auth_file cannot be read: {docker.auth_file}",
            "log in as the account of the scheduler: podman login --authfile FILE REGISTRY, or docker login REGISTRY",
        )


def check_keepers(state: Path) -> Results:
    """Whether the keepers, the processes that run this machine's jobs, answer."""
    from evertick.executors.keeper_process import probe_keepers

    answers = list(probe_keepers(state))
    for one in answers:
        if one.problem:
            yield (
                FAIL,
                f"{one.name} (process {one.pid or 'unknown'}): {one.problem}",
                "the scheduler replaces it after local.keeper_timeout; without a scheduler, kill it: its runs continue",
            )
    if not any(one.problem for one in answers):
        yield OK, f"{len(answers)} running and responding" if answers else "none running"


def _edits(folder: Path) -> Results:
    """Whether the scheduler notices an edit of a job file at once; tested the way the scheduler does it."""
    reason = watch_failure(folder)
    if reason is None:
        yield OK, "the scheduler notices edits of job files at once (inotify)"
    else:
        yield (
            WARN,
            f"{reason}; the scheduler scans the folder instead and may notice edits late",
            "move the job files to a local disk, or raise fs.inotify.max_user_watches and max_user_instances",
        )
