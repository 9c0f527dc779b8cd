"""Builds the command lines of `bwrap` and `systemd-run` that confine a process.

Only listed paths are visible: programs and libraries, a few files of /etc, the working folder, and what the job names.
The scheduler's own files are hidden where a listed folder contains them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from evertick.executors.keeper.account import Account
from evertick.executors.keeper.spawn import Limits
from evertick.kinds import STATUS_FD, Program, StepError
from evertick.model.work import Sandbox, SandboxKind

SYSTEM_FOLDERS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_FILES: Final = (
    *("/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives"),
    *("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/localtime", "/etc/timezone", "/etc/mime.types"),
    *("/etc/hosts", "/etc/host.conf", "/etc/hostname", "/etc/resolv.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/protocols", "/etc/ca-certificates", "/etc/pki", "/etc/ssl/certs", "/etc/ssl/openssl.cnf"),
)
"""What programs need of /etc: names, addresses, time zones and trusted certificates; nothing secret."""
BOOTED_BY_SYSTEMD: Final = "/run/systemd/system"
TOOL_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Bind(NamedTuple):
    source: str
    """Without symbolic links."""
    target: str
    is_writable: bool


@dataclass(frozen=True, slots=True)
class Confinement:
    """The user and the sandbox of a process; by default those of the keeper."""

    account: Account | None = None
    sandbox: Sandbox | None = None
    hidden: tuple[str, ...] = ()
    """Folders and files of the scheduler that no sandbox shows."""
    shown: tuple[str, ...] = ()
    """Folders inside hidden ones that jobs may see."""
    unshowable: tuple[str, ...] = ()
    """Files that cannot be hidden, because others appear next to them: no folder that contains one is shown."""

    @property
    def changes_user(self) -> bool:
        return self.account is not None and not self.account.is_ours

    @property
    def is_plain(self) -> bool:
        return self.sandbox is None and not self.changes_user

    def check(self) -> None:
        """Raises `StepError` if this machine cannot confine a process so: nothing runs with less than it asks for."""
        if self.sandbox is None:
            return
        kind = self.sandbox.kind
        if os.geteuid() == 0 and (self.account is None or self.account.uid == 0):
            raise StepError(
                f"'sandbox: {kind}' needs 'user' where Evertick runs as root, because root reads the files of every "
                "user. Add 'user: nobody' or another account."
            )
        if kind is SandboxKind.BWRAP:
            _tool("bwrap", "sandbox: bwrap", "the package bubblewrap")
            return
        if not os.path.isdir(BOOTED_BY_SYSTEMD):
            reason = (
                f"'sandbox: systemd-run' needs a machine booted by systemd, and {BOOTED_BY_SYSTEMD} does not exist."
            )
            raise StepError(f"{reason} Use 'sandbox: bwrap', or a machine with systemd.")
        _tool("systemd-run", "sandbox: systemd-run", "the package systemd")
        if os.geteuid() != 0:
            raise StepError("'sandbox: systemd-run' needs Evertick to run as root. Use 'sandbox: bwrap' instead.")

    def words(
        self,
        program: Program,
        path: str,
        argv: tuple[str, ...],
        folder: str | None,
        env: Mapping[str, str],
        limits: Limits,
    ) -> tuple[str, ...]:
        """The command line that runs `path` with its arguments in the sandbox, if one is set."""
        self.check()
        inner = (path, *argv[1:])
        if self.sandbox is None:
            return argv
        if self.sandbox.kind is SandboxKind.SYSTEMD_RUN:
            return systemd_words(self, program, inner, folder, env, limits)
        inner = bwrap_words(self, program, inner, folder, env)
        return (*_limit_words(limits), *inner)


def bwrap_words(
    confinement: Confinement, program: Program, inner: tuple[str, ...], folder: str | None, env: Mapping[str, str]
) -> tuple[str, ...]:
    sandbox = confinement.sandbox
    assert sandbox is not None
    home = os.path.normpath(env.get("HOME") or "/")
    binds = binds_of(confinement, program, folder, home)
    placed: dict[str, tuple[str, ...]] = {"/tmp": ("--tmpfs", "/tmp"), "/var/tmp": ("--tmpfs", "/var/tmp")}
    placed |= {"/proc": ("--proc", "/proc"), "/dev": ("--dev", "/dev")}
    if home != "/" and not any(is_within(home, system) for system in (*SYSTEM_FOLDERS, *placed)):
        placed[home] = ("--tmpfs", home)
    for system in SYSTEM_FOLDERS:
        if os.path.islink(system):
            placed[system] = ("--symlink", os.readlink(system), system)
        elif os.path.isdir(system):
            placed[system] = ("--ro-bind", system, system)
    placed |= {file: ("--ro-bind", file, file) for file in SYSTEM_FILES if os.path.exists(file)}
    for bind in binds:
        placed[bind.target] = ("--bind" if bind.is_writable else "--ro-bind", bind.source, bind.target)
        placed |= {place: words for place, words in _covers(bind, confinement) if place not in placed}
    words = [_tool("bwrap", "sandbox: bwrap", "the package bubblewrap")]
    words += ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    words += [] if sandbox.network else ["--unshare-net"]
    # Outer folders first, so that inner ones are mounted on top.
    for place in sorted(placed, key=lambda place: (place.count("/"), place)):
        words += placed[place]
    where = folder or (home if home in placed else "/tmp")
    words += ["--remount-ro", "/", "--chdir", where, "--json-status-fd", str(STATUS_FD), "--"]
    return (*words, *inner)


def binds_of(confinement: Confinement, program: Program, folder: str | None, home: str) -> list[Bind]:
    """The paths that the job and its program need in the sandbox."""
    sandbox = confinement.sandbox
    assert sandbox is not None
    named = [*((path, True) for path in sandbox.writable), *((path, False) for path in sandbox.readable)]
    wanted = [(_target(path, folder, home), may) for path, may in named]
    if folder is not None:
        wanted.append((folder, False))
    # What the account cannot reach outside the sandbox is left out.
    account = confinement.account
    wanted += [(path, False) for path in program.reads if account is None or account.reaches(path)]
    binds: dict[str, Bind] = {}
    for target, is_writable in wanted:
        if target in binds:
            continue  # the first one counts: writable ones come first
        if not os.path.exists(target):
            raise StepError(
                f"the sandbox should show {target!r}, which does not exist. Create it, or change 'sandbox'."
            )
        source = os.path.realpath(target)
        if source == "/":
            raise StepError("the sandbox should show '/', which is everything. Name the folders that the job needs.")
        held = [path for path in confinement.unshowable if is_within(os.path.realpath(path), source)]
        if _is_hidden(source, confinement) or any(not _is_hidden(os.path.realpath(path), confinement) for path in held):
            raise StepError(
                f"the sandbox should show {target!r}, which contains files of the scheduler. "
                "Choose another folder for the job, or another state folder."
            )
        binds[target] = Bind(source, target, is_writable)
    return list(binds.values())


def _target(path: str, folder: str | None, home: str) -> str:
    path = home + path[1:] if path == "~" or path.startswith("~/") else path
    if folder is None and not os.path.isabs(path):
        raise StepError(f"the sandbox should show {path!r}, a relative path, but the job has no 'workingDir'. Add one.")
    return os.path.normpath(os.path.join(folder or "/", path))


def _is_hidden(source: str, confinement: Confinement) -> bool:
    if any(is_within(source, os.path.realpath(path)) for path in confinement.shown):
        return False
    return any(is_within(source, os.path.realpath(path)) for path in confinement.hidden)


def _covers(bind: Bind, confinement: Confinement) -> Iterable[tuple[str, tuple[str, ...]]]:
    """The mounts that hide the scheduler's own files in a folder that is shown."""
    reals = {os.path.realpath(path) for path in confinement.hidden}
    for real in sorted(reals):
        if not is_within(real, bind.source) or any(is_within(real, other) for other in reals - {real}):
            continue
        place = os.path.join(bind.target, os.path.relpath(real, bind.source))
        if os.path.isdir(real):
            yield place, ("--tmpfs", place)
        elif os.path.exists(real):
            yield place, ("--ro-bind", os.devnull, place)


def systemd_words(
    confinement: Confinement,
    program: Program,
    inner: tuple[str, ...],
    folder: str | None,
    env: Mapping[str, str],
    limits: Limits,
) -> tuple[str, ...]:
    """A transient service for one process. It inherits no descriptor but its output."""
    sandbox, account = confinement.sandbox, confinement.account
    assert sandbox is not None
    assert account is not None
    if program.script is not None or program.payload is not None or program.has_result or program.has_exit_note:
        raise StepError("'sandbox: systemd-run' runs commands only. Use 'command', or 'sandbox: bwrap'.")
    home = os.path.normpath(env.get("HOME") or "/")
    binds = binds_of(confinement, program, folder, home)
    properties = {
        "Type": "exec",
        "NoNewPrivileges": "yes",
        "CapabilityBoundingSet": "",
        "ProtectSystem": "strict",
        "ProtectHome": "tmpfs",
        "ProtectProc": "invisible",
        "PrivateTmp": "yes",
        "PrivateDevices": "yes",
        "PrivateIPC": "yes",
        "ProtectKernelTunables": "yes",
        "ProtectControlGroups": "yes",
        "RestrictSUIDSGID": "yes",
        "KillMode": "control-group",
        "PrivateNetwork": "no" if sandbox.network else "yes",
    }
    words = [_tool("systemd-run", "sandbox: systemd-run", "the package systemd")]
    words += ["--quiet", "--wait", "--collect", "--pipe", f"--uid={account.uid}", f"--gid={account.gid}"]
    words += [f"--working-directory={folder or '/'}"]
    words += [f"--property={name}={value}" for name, value in properties.items()]
    words += [f"--property=InaccessiblePaths=-{_quoted(path)}" for path in confinement.hidden]
    for bind in binds:
        name = "BindPaths" if bind.is_writable else "BindReadOnlyPaths"
        words.append(f"--property={name}={_quoted(bind.source)}:{_quoted(bind.target)}")
    if limits.memory_bytes is not None:
        words.append(f"--property=LimitAS={limits.memory_bytes}")
    if limits.files is not None:
        words.append(f"--property=LimitNOFILE={limits.files}")
    # Names only: every user can read values on a command line.
    words += [f"--setenv={name}" for name in sorted(env)]
    # systemd expands variables in a command line; arguments must not change.
    return (*words, "--", *(word.replace("$", "$$") for word in inner))


def _quoted(path: str) -> str:
    """Escape a path for a unit's list of paths, where blanks and colons separate and `%` begins a specifier."""
    return path.replace("\\", "\\\\").replace(" ", "\\x20").replace(":", "\\:").replace("%", "%%")


def _limit_words(limits: Limits) -> tuple[str, ...]:
    """Limits are set before the sandbox starts: set from outside they would come too late."""
    wanted = [f"--as={limits.memory_bytes}"] if limits.memory_bytes is not None else []
    wanted += [f"--nofile={limits.files}"] if limits.files is not None else []
    return (_tool("prlimit", "local.memory and local.files", "the package util-linux"), *wanted, "--") if wanted else ()


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _tool(name: str, needed_for: str, package: str) -> str:
    """Found in the keeper's PATH, never in the job's."""
    found = shutil.which(name, path=os.environ.get("PATH") or TOOL_PATH)
    if found is None:
        raise StepError(f"'{needed_for}' needs the program {name!r}, which is not installed. Install {package}.")
    return str(Path(found).absolute())
