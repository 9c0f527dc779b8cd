"""The program of a container step: a process that creates a container, prints its output, and exits as it does."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from evertick.kinds import PAYLOAD_FD, Program, StepError
from evertick.kinds.docker import AUTH_FILE, MOUNTS, SOCKET
from evertick.kinds.docker.registry import Login
from evertick.kinds.kubernetes.names import digest_of, slug_of
from evertick.model.plain_json import Document
from evertick.model.run import RunKey
from evertick.model.work import Container, Mount

LABEL: Final = "evertick."
INSTANCE: Final = LABEL + "instance"
STEP_KEY: Final = LABEL + "key"
WATCHER: Final = LABEL + "watcher"
INSTANCE_FILE: Final = "containers.id"
NAME_MAX: Final = 63
_NANO: Final = 1_000_000_000


class StepId(NamedTuple):
    """Which step of which attempt, and whose."""

    instance: str
    """The id of the state folder: another scheduler on this machine may have a run of the same name."""
    key: RunKey
    attempt: int
    step: str


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the operator of this machine lets containers have."""

    socket: str = ""
    mounts: tuple[str, ...] = ()
    auth_file: str = ""
    """With the logins of registries; empty: the engine's own, if it has some."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Allowed:
        folders = environ.get(MOUNTS, "").replace(",", "\n").splitlines()
        mounts = tuple(os.path.expanduser(one.strip()) for one in folders if one.strip())
        return cls(environ.get(SOCKET, "").strip(), mounts, os.path.expanduser(environ.get(AUTH_FILE, "").strip()))


def docker_program(
    container: Container,
    step_id: StepId,
    env: Mapping[str, str],
    allowed: Allowed,
    folder: str,
    grace_seconds: float,
    login: Login | None = None,
) -> Program:
    """`env` is the container's environment; `folder` is where relative mounts begin; `login` is the step's own."""
    if not allowed.socket:
        raise StepError(
            "containers are not allowed on this machine. Its operator sets 'docker.socket' to the socket of Docker or "
            "Podman, for example /run/docker.sock; on a member of a fleet the variable EVERTICK_DOCKER_SOCKET."
        )
    request = {
        "socket": allowed.socket,
        "name": container_name(step_id),
        "image": container.image,
        "pull": str(container.pull),
        "auth": login.header(container.image) if login is not None else "",
        "auth_file": allowed.auth_file,
        "spec": container_spec(container, step_id, env, allowed, folder),
        # The process must have ended its container before it is killed itself.
        "grace": max(1, int(grace_seconds) - 2),
    }
    argv = (sys.executable, "-P", "-m", "evertick.kinds.docker", f"/dev/fd/{PAYLOAD_FD}")
    return Program(argv, payload=json.dumps(request).encode(), has_exit_note=True)


def instance_of(folder: str) -> str:
    """The id of a state folder, which all its keepers share; created once.

    It labels containers. The path of the folder would not do: schedulers in containers have the same path.
    """
    path = os.path.join(folder, INSTANCE_FILE)
    with contextlib.suppress(FileNotFoundError), open(path) as file:
        return file.read()
    scratch = f"{path}.{os.getpid()}"
    with open(scratch, "w") as file:
        file.write(secrets.token_hex(16))
    # A link fails if another keeper was first; renaming would replace what it may have used already.
    with contextlib.suppress(FileExistsError):
        os.link(scratch, path)
    os.unlink(scratch)
    with open(path) as file:
        return file.read()


def container_name(step_id: StepId) -> str:
    """The same for every try of a step in an attempt: an engine does not create a second one of a name."""
    tail = f"-{digest_of(*step_id)}"
    return f"evertick-{slug_of(step_id.key.job_id, NAME_MAX - len(tail)) or 'job'}{tail}"


def container_spec(
    container: Container, step_id: StepId, env: Mapping[str, str], allowed: Allowed, folder: str
) -> Document:
    """What is asked of the engine. Privileges, devices and other containers' namespaces are not offered."""
    host: Document = {
        "RestartPolicy": {"Name": "no"},
        "SecurityOpt": ["no-new-privileges"],
        # Readable through the API, whatever the engine's default is.
        "LogConfig": {"Type": "json-file"},
        "Mounts": [_mount(one, allowed, folder) for one in container.mounts],
    }
    if container.memory_bytes is not None:
        # The same with swap: a limit that a container could swap past is none.
        host |= {"Memory": container.memory_bytes, "MemorySwap": container.memory_bytes}
    if container.cpus is not None:
        host["NanoCpus"] = int(container.cpus * _NANO)
    if container.network is not None:
        host["NetworkMode"] = container.network
    if container.is_read_only:
        host["ReadonlyRootfs"] = True
    spec: Document = {
        "Image": container.image,
        "Env": [f"{name}={value}" for name, value in env.items()],
        "Labels": {
            INSTANCE: step_id.instance,
            STEP_KEY: digest_of(step_id.instance, step_id.key.run_id, step_id.step),
            LABEL + "job": step_id.key.job_id,
            LABEL + "run": step_id.key.run_id,
            LABEL + "attempt": str(step_id.attempt),
            LABEL + "step": step_id.step,
        },
        "HostConfig": host,
    }
    if container.command:
        words = ("/bin/sh", "-c", container.command[0]) if container.is_shell else container.command
        spec |= {"Entrypoint": list(words), "Cmd": []}
    if container.args:
        spec["Cmd"] = list(container.args)
    if container.user is not None:
        spec["User"] = container.user
    if container.working_dir is not None:
        spec["WorkingDir"] = container.working_dir
    return spec


def _mount(mount: Mount, allowed: Allowed, folder: str) -> Document:
    shape = {"Target": mount.target, "ReadOnly": not mount.is_writable}
    if not mount.is_path:
        return {"Type": "volume", "Source": mount.source, **shape}
    # Resolved: a link must not lead out of what is allowed.
    source = os.path.realpath(os.path.join(folder, os.path.expanduser(mount.source)))
    if not any(_is_below(source, os.path.realpath(one)) for one in allowed.mounts):
        named = ", ".join(allowed.mounts) or "none"
        raise StepError(
            f"the folder {source!r} may not be mounted: the operator of this machine allows {named}. Mount a folder "
            "below one of these, or let the operator add it to 'docker.mounts'."
        )
    if not os.path.exists(source):
        raise StepError(f"the mounted folder {source!r} does not exist. Create it, or change 'mounts'.")
    return {"Type": "bind", "Source": source, **shape}


def _is_below(path: str, top: str) -> bool:
    return os.path.commonpath((path, top)) == top
