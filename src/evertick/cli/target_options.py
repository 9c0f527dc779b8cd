"""Which folder, ledger or server a command's options name."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import click

from evertick.cli.output import note
from evertick.cli.target import Target

Command: TypeAlias = Callable[..., object]

_STORE = click.option(
    "--store",
    envvar="EVERTICK_STORE",
    metavar="URL",
    help="URL of the ledger; default: the folder's.",
)
_FOLDER = click.option(
    "--folder",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Folder of job files; default: the current one.",
)
_SERVER = click.option(
    "--server",
    envvar="EVERTICK_SERVER",
    metavar="URL",
    help="Use this server instead of a ledger; its token: EVERTICK_TOKEN or --token-file.",
)
_TOKEN = click.option(
    "--token-file",
    envvar="EVERTICK_TOKEN_FILE",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="File with the token for --server.",
)


def ledger_options(command: Command) -> Command:
    """Add `--store` and `--folder`; the command receives them as a `Target`."""

    @_STORE
    @_FOLDER
    @functools.wraps(command)
    def with_target(*args: object, store: str | None, folder: Path | None, **options: object) -> object:
        return command(*args, target=find_target(store, folder), **options)

    return with_target


def target_options(command: Command) -> Command:
    """Add `--store`, `--folder`, `--server` and `--token-file`; the command receives them as a `Target`."""

    @_STORE
    @_FOLDER
    @_SERVER
    @_TOKEN
    @functools.wraps(command)
    def with_target(
        *args: object,
        store: str | None,
        folder: Path | None,
        server: str | None,
        token_file: Path | None,
        **options: object,
    ) -> object:
        return command(*args, target=choose_target(store, folder, server, token_file), **options)

    return with_target


def choose_target(store: str | None, folder: Path | None, server: str | None, token_file: Path | None) -> Target:
    if not server:
        if token_file is not None and _is_given("token_file"):
            raise click.UsageError("--token-file needs --server.")
        return find_target(store, folder)
    # An option overrides the environment.
    if _is_given("store") or (folder is not None and _is_given("folder")):
        if _is_given("server"):
            raise click.UsageError("--server cannot be combined with --store or --folder.")
        return find_target(store, folder)
    return Target(server=server, token_file=token_file)


def _is_given(name: str) -> bool:
    context = click.get_current_context()
    return context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE


def target_in(folder: Path | None, target: Target) -> Target:
    """The target of a folder given as an argument; without one, that of the options."""
    if folder is None:
        return target
    if target.server is not None:
        raise click.UsageError("A folder and --server cannot be combined.")
    return find_target(None if target.folder is not None else target.url, folder)


def find_target(url: str | None, folder: Path | None, *, is_lenient: bool = False) -> Target:
    """`is_lenient`: use the defaults if the settings are invalid."""
    from evertick.errors import NotFound, SettingsError
    from evertick.location import LEDGER_FILE, own_ledger_url
    from evertick.settings import Settings
    from evertick.settings.state_pointer import find_state, read_place

    if folder is not None and not folder.is_dir():
        raise NotFound(f"the folder '{folder}' does not exist. Name a folder of job files.")
    of_run = _of_run() if folder is None and not url else None
    here = folder if folder is not None else of_run[0] if of_run else Path()
    try:
        settings = Settings.load(here)
    except SettingsError:
        if not is_lenient:
            raise
        settings = Settings()
    state = of_run[1] if of_run else settings.state_folder(here)
    if settings.state is None and of_run is None:
        pointed = find_state(here, state)
        if pointed.refused:
            note(pointed.refused)
        state = pointed.state or state
    unreadable = _why_unreadable(here, state)
    if unreadable:
        return Target(here, url or settings.store, state, is_ledger_named=bool(url), unreadable=unreadable)
    if folder is None and url and not state.is_dir():
        # A ledger elsewhere: nothing shows that the files here are its jobs.
        return Target(None, url)
    noted, ledger = read_place(state), state / LEDGER_FILE
    own = own_ledger_url(state) if ledger.exists() else None
    if noted is not None and (noted.store or noted.is_store_hidden):
        own = noted.store or None
    hidden = noted is not None and noted.is_store_hidden
    return Target(here, url or settings.store or own, state, is_ledger_named=bool(url), is_store_hidden=hidden)


def _of_run() -> tuple[Path, Path] | None:
    """Folder and state of the scheduler whose run calls this command, unless the current folder has its own."""
    from evertick.model.run_variables import HOME
    from evertick.settings.load import FILE_NAME
    from evertick.settings.parts import STATE_FOLDER
    from evertick.settings.state_pointer import POINTER_FILE, read_place

    state = os.environ.get(HOME)
    if not state or any(Path(name).exists() for name in (STATE_FOLDER, FILE_NAME, POINTER_FILE)):
        return None
    noted = read_place(Path(state))
    return None if noted is None or not noted.folder.is_dir() else (noted.folder, Path(state))


def _why_unreadable(folder: Path, state: Path) -> str:
    """Why this user cannot read a scheduler's state folder; empty if they can, or if there is none."""
    try:
        owner = state.stat().st_uid
        if os.access(state, os.R_OK | os.X_OK):
            return ""
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except PermissionError:
        owner = None
    whose = "" if owner is None else f", which belongs to the user {_user(owner)}"
    return f"You have no access to the state folder '{state}' of '{folder}'{whose}"


def _user(uid: int) -> str:
    import pwd

    try:
        return f"'{pwd.getpwuid(uid).pw_name}'"
    except KeyError:
        return str(uid)
