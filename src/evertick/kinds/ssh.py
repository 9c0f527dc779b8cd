"""The program of an SSH step: a process that runs OpenSSH, and what the shell of the other machine is given to do.

Nothing of the job is in an argument of a process, here or there, except the arguments of its own command: the text for
the remote shell, with the environment and its secrets, goes through standard input.
"""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from evertick.kinds import Program, StepError
from evertick.kinds.python import interpreter_folders
from evertick.model.instant import SECOND
from evertick.model.work import SshCommand

RUNNER: Final = str(Path(__file__).with_name("ssh_runner.py"))
HEARTBEAT_SECONDS: Final = 10
SILENCE_SECONDS: Final = 60
"""The remote side ends the command after this long without a heartbeat: a cut connection may never be closed there."""
TICK_SECONDS: Final = 5
"""How often the remote side looks for heartbeats."""

_BOOTSTRAP: Final = """exec /bin/sh -c 'echo "{mark} ready" >&2; IFS= read -r line && eval "$line"'"""
"""All that the login shell of the other machine reads; every common shell understands it."""

# Options that come first win over the configuration of the account, which may say how to reach the host.
_OPTIONS: Final = (
    "BatchMode=yes",
    "StrictHostKeyChecking=yes",
    "UpdateHostKeys=no",
    "VerifyHostKeyDNS=no",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "ForwardAgent=no",
    "ForwardX11=no",
    "ClearAllForwardings=yes",
    "PermitLocalCommand=no",
    "ControlMaster=no",
    "ControlPath=none",
    "RequestTTY=no",
    "RemoteCommand=none",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
    "ConnectionAttempts=1",
    "LogLevel=ERROR",
)


def ssh_program(ssh: SshCommand, env: Mapping[str, str], folder: str, grace_seconds: float) -> Program:
    """`env` is the command's environment on the other machine; `folder` is where relative paths of files begin."""
    mark = secrets.token_hex(16)
    # The remote side must have killed its processes before the process here is killed.
    grace = max(1, int(grace_seconds) - 1)
    request = {
        "argv": ssh_words(ssh, folder, mark),
        "target": f"{ssh.user}@{ssh.host}" if ssh.user else ssh.host,
        "mark": mark,
        "text": remote_text(ssh, env, mark, grace),
        "heartbeat": HEARTBEAT_SECONDS,
        # Until then the command may still run there.
        "silence": SILENCE_SECONDS + TICK_SECONDS + grace,
    }
    # -I: neither the variables nor the folder of the job change which modules this process imports.
    argv = (sys.executable, "-I", "-S", RUNNER)
    payload = json.dumps(request).encode("utf-8", "surrogatepass")
    return Program(argv, payload=payload, has_exit_note=True, reads=(*interpreter_folders(), RUNNER))


def ssh_words(ssh: SshCommand, folder: str, mark: str) -> list[str]:
    """The call of OpenSSH; the host's key is always checked."""
    options = [*_OPTIONS, f"ConnectTimeout={max(1, ssh.connect_timeout_us // SECOND)}"]
    if ssh.key is not None:
        options.append(f'IdentityFile="{_path(ssh.key, folder)}"')
    if ssh.known_hosts is not None:
        options += [f'UserKnownHostsFile="{_path(ssh.known_hosts, folder)}"', "GlobalKnownHostsFile=/dev/null"]
    words = ["ssh", "-T", *(word for option in options for word in ("-o", option))]
    if ssh.user is not None:
        words += ["-l", ssh.user]
    if ssh.port is not None:
        words += ["-p", str(ssh.port)]
    return [*words, "--", ssh.host, _BOOTSTRAP.format(mark=mark)]


def remote_text(ssh: SshCommand, env: Mapping[str, str], mark: str, grace: int) -> str:
    """One line for the remote shell: set the environment, run the command, and end it with the connection.

    sshd gives each command a process group of its own. The group ends when standard input ends, which OpenSSH closes on
    a stop, or when no heartbeat arrives. Names that begin with `evertick_` are free: jobs cannot set them.
    """
    ticks = SILENCE_SECONDS // TICK_SECONDS
    exports = [f"export {_checked(name)}={_quoted(value)};" for name, value in env.items()]
    folder = ssh.working_dir or ""
    # A relative folder begins at home, where the shell of sshd is.
    folder = folder.removeprefix("~/") if folder != "~" else ""
    enter = [f"cd -- {_quoted(folder)} || exit 1;"] if folder else []
    words = ("/bin/sh", "-c", ssh.command[0]) if ssh.is_shell else ssh.command
    lines = [
        r'evertick_n=$(printf "\nx"); evertick_n=${evertick_n%x};',
        *exports,
        *enter,
        "exec 3<&0 </dev/null; evertick_e=; trap evertick_e=1 TERM;",
        f"evertick_end() {{ kill -TERM 0; sleep {grace}; kill -KILL 0; }};",
        "( trap : TERM; trap evertick_i=-1 USR1; evertick_i=0;",
        f"while [ $evertick_i -lt {ticks} ]; do",
        f"sleep {TICK_SECONDS} & wait $!; evertick_i=$((evertick_i+1)); done;",
        "evertick_end ) 3<&- >/dev/null 2>&1 & evertick_t=$!;",
        "( trap : TERM; while IFS= read -r evertick_l; do kill -USR1 $evertick_t; done;",
        "evertick_end ) <&3 3<&- >/dev/null 2>&1 & evertick_w=$!;",
        f"( exec {' '.join(map(_quoted, words))} ) 3<&-; evertick_r=$?;",
        f'printf "%s\\n" "{mark} end $evertick_r" >&2;',
        # After a stop they live on for the grace, and kill what has ignored the signal.
        '[ -n "$evertick_e" ] || kill -KILL $evertick_w $evertick_t;',
        "exit $evertick_r",
    ]
    return " ".join(lines)


def _checked(name: str) -> str:
    """The parser accepts no other names; here one would be code of the remote shell."""
    if not (name.isascii() and name.isidentifier()):
        raise StepError(f"the variable {name[:60]!r} cannot be set by a shell. Use letters, digits and '_'.")
    return name


def _quoted(text: str) -> str:
    """A text as one word of a shell, on one line."""
    if "\0" in text:
        raise StepError("its command or environment holds a NUL byte, which no process can be given.")
    return "'" + text.replace("'", "'\\''").replace("\n", "'\"$evertick_n\"'") + "'"


def _path(text: str, folder: str) -> str:
    # OpenSSH replaces % in the names of files.
    return str(Path(folder, Path(text).expanduser())).replace("%", "%%")
