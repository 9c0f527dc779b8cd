"""Where the scheduler of a folder keeps its state, found from the folder alone.

A scheduler notes where it is when it starts: in its state folder (`place.json`, private), and where that folder is not
the jobs folder's own, in a pointer beside the jobs. Where it may not write there, as under the shipped systemd unit,
the pointer is in a registry: of the system, in the folders that systemd gave the service, or of the user.

A pointer decides where commands look, so it is trusted only from users who could change the jobs anyway: root, the
user of the command, and the owner of the jobs folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import pwd
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

PLACE_FILE: Final = "place.json"
POINTER_FILE: Final = ".evertick-state.json"
REGISTRY: Final = "places"
SYSTEM_FOLDERS: Final = (Path("/run/evertick"), Path("/var/lib/evertick"))
SIZE_MAX: Final = 1 << 16


class FleetPlace(NamedTuple):
    """The address of a fleet, and the certificates that a scheduler uses; empty: those of its machine, or none."""

    url: str
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""


class Place(NamedTuple):
    """What a scheduler records in its state folder."""

    folder: Path
    """Of its jobs."""
    store: str = ""
    """The ledger's URL if one was set and it has no password; empty: SQLite in the state folder, or unknown."""
    is_store_hidden: bool = False
    """Whether the URL has a password, and is not stored."""
    fleet: FleetPlace | None = None
    """The fleet that it was started with, so that commands find it."""


class StatePointer(NamedTuple):
    state: Path | None = None
    refused: str = ""
    """Why a pointer was not trusted, as text; empty: none was refused."""


def note_place(
    folder: Path,
    state: Path,
    store: str,
    own: Path,
    environ: Mapping[str, str] = os.environ,
    *,
    fleet: FleetPlace | None = None,
) -> bool:
    """Let others find the state from the folder; answers whether they can. `own` is the folder's own place for it."""
    jobs, where = folder.absolute().resolve(), state.absolute().resolve()
    store = _absolute(store)
    is_hidden = bool(store) and urlsplit(store).password is not None
    told = {
        "folder": str(jobs),
        "store": "" if is_hidden else store,
        "is_store_hidden": is_hidden,
        "fleet": None if fleet is None else fleet._asdict(),
    }
    _replace(where / PLACE_FILE, json.dumps(told), 0o600)
    if where == own.absolute().resolve():
        for file in _pointers_to(jobs, environ):
            file.unlink(missing_ok=True)
        return True
    text = json.dumps({"folder": str(jobs), "state": str(where)})
    if _can_write(jobs / POINTER_FILE, text):
        return True
    written = [_can_write(file, text) for file in _registries(jobs, environ)]  # each of them
    return any(written)


def read_place(state: Path) -> Place | None:
    """What the scheduler of a state folder has recorded; None: nothing, or another user may have written it."""
    try:
        found = (state / PLACE_FILE).lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_uid not in (state.stat().st_uid, 0) or found.st_mode & 0o022:
            return None
        told = json.loads((state / PLACE_FILE).read_bytes()[:SIZE_MAX])
        fleet = told.get("fleet")  # a version that noted none had no use for it
        noted = None if fleet is None else FleetPlace(**{name: str(fleet[name]) for name in FleetPlace._fields})
        return Place(Path(str(told["folder"])), str(told["store"]), bool(told["is_store_hidden"]), noted)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def find_state(folder: Path, own: Path, environ: Mapping[str, str] = os.environ) -> StatePointer:
    """Where the last scheduler of a folder keeps its state; None: in the folder itself, if at all."""
    jobs, newest, refused = folder.absolute().resolve(), _age(own / PLACE_FILE), ""
    if newest is None and own.is_dir():
        newest = 0.0  # a version that recorded nothing
    chosen: Path | None = None
    for file, trusted in _candidates(jobs, environ):
        told = _read_pointer(file)
        if told is None or told[0] != jobs:
            continue
        if told[2].st_uid not in trusted or told[2].st_mode & 0o022:
            refused = refused or _refusal(file, told[1], told[2].st_uid)
        elif newest is None or told[2].st_mtime > newest:
            newest, chosen = told[2].st_mtime, told[1]
    return StatePointer(chosen, "" if chosen is not None else refused)


def _candidates(jobs: Path, environ: Mapping[str, str]) -> Iterator[tuple[Path, set[int]]]:
    """Where pointers may be, and whose are trusted there."""
    try:
        owner = jobs.stat().st_uid
    except OSError:
        return
    trusted = {0, os.geteuid(), owner}
    yield jobs / POINTER_FILE, trusted
    yield _user_registry(environ) / _name(jobs), trusted
    for folder in SYSTEM_FOLDERS:
        service = _service_of(folder)
        # Only root creates folders there, so the owner is a system service. It may point to jobs that root has
        # installed, not to those of a user.
        yield folder / REGISTRY / _name(jobs), trusted | ({service} if service is not None and owner == 0 else set())


def _service_of(folder: Path) -> int | None:
    try:
        above, found = folder.parent.stat(), folder.lstat()
    except OSError:
        return None
    is_sound = above.st_uid == 0 and not above.st_mode & 0o022 and stat.S_ISDIR(found.st_mode)
    return found.st_uid if is_sound and not found.st_mode & 0o022 else None


def _pointers_to(jobs: Path, environ: Mapping[str, str]) -> list[Path]:
    """Pointers that this scheduler may have written before, and that would mislead now."""
    files = [jobs / POINTER_FILE, *_registries(jobs, environ)]
    return [file for file in files if os.access(file.parent, os.W_OK) and _is_ours(file)]


def _is_ours(file: Path) -> bool:
    try:
        return file.lstat().st_uid == os.geteuid()
    except OSError:
        return False


def _registries(jobs: Path, environ: Mapping[str, str]) -> list[Path]:
    """Where a scheduler that may not write beside its jobs records its place."""
    given = [environ.get(name, "").partition(":")[0] for name in ("RUNTIME_DIRECTORY", "STATE_DIRECTORY")]
    folders = [Path(one) / REGISTRY for one in given if one] or [_user_registry(environ)]
    return [folder / _name(jobs) for folder in folders]


def _user_registry(environ: Mapping[str, str]) -> Path:
    home = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local/state")
    return Path(home) / "evertick" / REGISTRY


def _name(jobs: Path) -> str:
    return f"{hashlib.sha256(os.fsencode(jobs)).hexdigest()[:24]}.json"


def _read_pointer(file: Path) -> tuple[Path, Path, os.stat_result] | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with open(descriptor, "rb") as stream:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            return None
        try:
            told = json.loads(stream.read(SIZE_MAX))
            return Path(str(told["folder"])), Path(str(told["state"])), found
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _refusal(file: Path, state: Path, uid: int) -> str:
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    return (
        f"ignored '{file}', which names the state folder '{state}': it belongs to the user '{user}', who does not own "
        "the job files. Next: set 'state' in evertick.toml if it is right."
    )


def _can_write(file: Path, text: str) -> bool:
    try:
        if file.name != POINTER_FILE:
            file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            file.parent.chmod(0o755)
        _replace(file, text, 0o644)
    except OSError:
        return False
    return True


def _replace(file: Path, text: str, mode: int) -> None:
    draft = file.with_name(f"{file.name}.{os.getpid()}.new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(descriptor, mode)  # whatever the umask is
            stream.write(text)
        draft.replace(file)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _absolute(store: str) -> str:
    """A SQLite path is relative to where the scheduler was started; commands are called elsewhere."""
    scheme, slashes, path = store.partition(":///")
    is_relative = scheme.startswith("sqlite") and bool(slashes) and bool(path) and not path.startswith("/")
    return f"{scheme}:///{Path(path).absolute()}" if is_relative else store


def _age(file: Path) -> float | None:
    try:
        return file.stat().st_mtime
    except OSError:
        return None
