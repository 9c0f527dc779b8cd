"""Starts the web page and the API for `serve`: in their own process, or in a thread for a single-process ledger."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from evertick.cli.output import note

if TYPE_CHECKING:
    from evertick.api.server import ApiServer
    from evertick.service import FolderService


def add_web(service: FolderService, options: Mapping[str, str | int | None]) -> None:
    """Their own process cannot delay a job; a ledger in memory or in files can be opened by one process only."""
    if service.location.is_in_process:
        service.attach(WebThread(service))
        return
    from evertick.service import ChildService, module_command
    from evertick.settings.parts import variable_of

    # Options are passed as variables, because every user can list a process's arguments and a URL may hold a password.
    # Their names are arguments, so that the settings page can tell an option from a variable.
    given = {key: str(value) for key, value in options.items() if value is not None}
    chosen = {variable_of(key): value for key, value in given.items()}
    names = [part for key in given for part in ("--option", key)]
    command = module_command("evertick.api", str(service.folder), "--state-folder", str(service.state_folder), *names)
    service.add_child(ChildService("web", command, {**os.environ, **chosen}, shows_life=True))


class WebThread:
    """The same server in a thread, on the scheduler's own store. If it fails to start, the scheduler continues."""

    def __init__(self, service: FolderService) -> None:
        self._service = service
        self._server: ApiServer | None = None

    def start(self) -> None:
        from evertick.api.factory import open_app_state
        from evertick.api.server import ApiServer
        from evertick.errors import EvertickError
        from evertick.operations.context import scheduler_at

        service = self._service
        try:
            app_state = open_app_state(
                service.node.store,
                service.store_url,
                service.watch.snapshot,
                service.settings,
                service.state_folder,
                folder=service.folder,
                control=scheduler_at(service.state_folder),
                is_firing=service.node.is_firing,
            )
            self._server = ApiServer(app_state)
        except EvertickError as error:
            note(f"The web interface and the API could not start: {error}")
            return
        self._server.start(note)

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
