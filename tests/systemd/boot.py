"""`python -m tests.systemd.boot COMMAND...`: run a command where systemd is process 1, and nothing outside notices.

Namespaces of their own for processes, mounts, cgroups, names and messages; a bus, and no units but ours. Needs root.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

UNITS = Path("/run/evertick-units")
"""Inside: where a test puts units, and systemd looks for them."""
WAIT_SECONDS = 30.0
TARGETS = ("boot", "sysinit", "basic", "shutdown", "umount", "multi-user", "network-online", "time-sync")
BUS = """[Service]
Type=notify
NotifyAccess=main
ExecStart=/usr/bin/dbus-daemon --system --address=systemd: --nofork --nopidfile --systemd-activation
"""
BOOT = f"""set -e
mount --make-rprivate /
umount -R -l /proc
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
umount -R -l /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir -p /run/systemd /run/dbus
cp -r "$1" {UNITS}
export container=evertick SYSTEMD_UNIT_PATH={UNITS}
exec /lib/systemd/systemd --system --unit=boot.target --log-target=console --log-level=notice --show-status=no
"""


def write_units(folder: Path) -> None:
    for name in TARGETS:
        (folder / f"{name}.target").write_text("[Unit]\nDefaultDependencies=no\n")
    with (folder / "boot.target").open("a") as unit:
        unit.write("Requires=dbus.socket\n")
    lonely = "[Unit]\nDefaultDependencies=no\n"
    (folder / "dbus.socket").write_text(f"{lonely}[Socket]\nListenStream=/run/dbus/system_bus_socket\n")
    (folder / "dbus.service").write_text(f"{lonely}{BUS}")


def unified_cgroup() -> Path:
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return Path(next(where for _, where, kind, *_ in mounts if kind == "cgroup2"))


def main(command: list[str]) -> int:
    missing = [name for name in ("unshare", "nsenter", "dbus-daemon", "systemd-run") if shutil.which(name) is None]
    if os.geteuid() != 0 or missing:
        sys.exit(f"It needs root, and these programs: {', '.join(missing) or 'none is missing'}.")
    own = unified_cgroup() / f"evertick-{os.getpid()}"
    own.mkdir()
    with tempfile.TemporaryDirectory() as folder:
        units = Path(folder, "units")
        units.mkdir()
        write_units(units)
        apart = ("unshare", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup", "--kill-child")
        outer = subprocess.Popen(
            ["sh", "-c", f'echo $$ > {own}/cgroup.procs; exec "$@"', "sh", *apart, "sh", "-c", BOOT, "sh", str(units)],
            stdin=subprocess.DEVNULL,
        )
        try:
            inside = ("nsenter", "-t", str(_booted(outer)), "-m", "-p", "-u", "-i", "-C", f"--wd={os.getcwd()}")
            return subprocess.run([*inside, *command], check=False).returncode
        finally:
            outer.send_signal(signal.SIGKILL)
            outer.wait()
            _remove(own)


def _booted(outer: subprocess.Popen[bytes]) -> int:
    """The process that is number 1 inside, once its bus is there."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline and outer.poll() is None:
        pids = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
        if pids and Path(f"/proc/{pids[0]}/root/run/dbus/system_bus_socket").exists():
            return int(pids[0])
        time.sleep(0.05)
    raise SystemExit("systemd did not start here")


def _remove(cgroup: Path) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while cgroup.exists() and time.monotonic() < deadline:
        for folder in sorted(cgroup.rglob("*/"), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
        with contextlib.suppress(OSError):
            cgroup.rmdir()
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
