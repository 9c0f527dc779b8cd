"""For an existing Dask cluster: `dask worker ... --preload evertick.executors.fleet.preload`.

The scheduler takes the same option. A worker becomes a member under its own name (`--name`), with the labels of
EVERTICK_LABELS (`gpu=true,zone=eu`), and keeps its state in EVERTICK_FOLDER, or else in its local directory. Its other
tasks continue as before.
"""

from __future__ import annotations

import os

from distributed import Scheduler, Worker

from evertick.errors import SettingsError
from evertick.executors.fleet.member import MemberPlugin, read_labels
from evertick.executors.fleet.relay import Relay
from evertick.executors.fleet.reservations import detect_resources
from evertick.model.member import is_member_name


async def dask_setup(server: Scheduler | Worker) -> None:
    if isinstance(server, Scheduler):
        await server.register_scheduler_plugin(Relay(), idempotent=True)
        return
    name = str(server.name)
    if not is_member_name(name):
        raise SettingsError(f"the worker's name '{name}' cannot be a member's. Start it with --name ex-a.")
    labels = read_labels(tuple(text for text in os.environ.get("EVERTICK_LABELS", "").split(",") if text.strip()))
    folder = os.environ.get("EVERTICK_FOLDER") or os.path.join(server.local_directory, "evertick")
    await server.plugin_add(MemberPlugin(name, labels, folder, offers=detect_resources()))
