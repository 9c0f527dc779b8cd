"""The running scheduler of a folder, as other processes on this machine query it."""

from __future__ import annotations

from pathlib import Path

from evertick.dispatch.control_client import ControlClient
from evertick.settings import Settings

__all__ = ["ControlClient", "scheduler_of"]


def scheduler_of(folder: Path | str, settings: Settings | None = None) -> ControlClient:
    """The client for the scheduler of a folder; it may not be running."""
    return ControlClient((settings or Settings()).state_folder(Path(folder)))
