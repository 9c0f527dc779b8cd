"""The scheduler of a folder, as others on this machine may ask it while it is at work."""

from __future__ import annotations

from pathlib import Path

from evertick.dispatch.control_client import ControlClient

__all__ = ["ControlClient", "scheduler_of"]

STATE_FOLDER = ".evertick"


def scheduler_of(folder: Path | str) -> ControlClient:
    """Whoever schedules the jobs of a folder; whether anybody does is found out by asking."""
    return ControlClient(Path(folder) / STATE_FOLDER)
