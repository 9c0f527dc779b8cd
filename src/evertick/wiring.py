"""Builds the executors and the other parts of a node from the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from evertick.errors import SettingsError
from evertick.executor import Executor, LeasedExecutor
from evertick.executors.fleet.executor import FleetExecutor
from evertick.executors.fleet.member_logs import MemberLogs
from evertick.executors.fleet.settings import Certificates, certificates_of, fleet_at
from evertick.executors.kubernetes.executor import KubernetesExecutor
from evertick.executors.local import LocalExecutor
from evertick.kinds.docker import AUTH_FILE, MOUNTS, SOCKET
from evertick.kinds.docker.engine import Engine, EngineError, EngineUnavailable
from evertick.kinds.kubernetes.cluster import Access, connect
from evertick.kinds.kubernetes.program import CONTEXT, INSTANCE, KUBECONFIG, NAMESPACE, START
from evertick.location import Location
from evertick.model.instant import SECOND
from evertick.model.routing import FLEET, KUBERNETES, LOCAL
from evertick.settings import Settings
from evertick.settings.parts import FleetSettings, KeeperSettings


class Executors(NamedTuple):
    """Where runs can go."""

    by_name: Mapping[str, Executor]
    leased: Sequence[LeasedExecutor] = ()
    """Those whose attempts outlive the process, which have to end with the node's lease."""


def executors_of(settings: Settings, location: Location) -> Executors:
    """This machine, a cluster, which costs nothing until a job names it, and the fleet if any.

    A program without job files has the fleet only, beside its own process; without a state folder it has none.
    """
    state_folder = location.state_folder
    if state_folder is None:
        return Executors({})
    executors: dict[str, Executor] = {}
    if location.folder is not None:
        cluster, access = settings.kubernetes, _access(settings)
        environ = environ_of(settings)
        local = replace(settings.local, keeper=keeper_settings(settings, location.lock_path))
        executors[LOCAL] = LocalExecutor(state_folder, local, settings.lanes, environ=environ)
        executors[KUBERNETES] = KubernetesExecutor(lambda: connect(access), state_folder, cluster)
    fleet = fleet_settings(settings)
    if fleet is not None:
        executors[FLEET] = FleetExecutor(state_folder, fleet)
    leased = [one for executor in executors.values() if (one := executor.capabilities.leases) is not None]
    return Executors(executors, leased)


def environ_of(settings: Settings) -> dict[str, str]:
    """The environment of this process, with what the processes that watch containers need of the settings."""
    cluster, docker, access = settings.kubernetes, settings.docker, _access(settings)
    named = {
        CONTEXT: access.context,
        NAMESPACE: access.namespace,
        KUBECONFIG: access.kubeconfig,
        INSTANCE: cluster.instance,
        START: str(cluster.start_timeout_us / SECOND),
        SOCKET: str(docker.socket) if docker.socket else None,
        MOUNTS: "\n".join(docker.mounts),
        AUTH_FILE: str(docker.auth_file) if docker.auth_file else None,
    }
    return {**os.environ, **{name: value for name, value in named.items() if value}}


def _access(settings: Settings) -> Access:
    cluster = settings.kubernetes
    kubeconfig = str(cluster.kubeconfig) if cluster.kubeconfig else None
    return Access(kubeconfig, cluster.context or None, cluster.namespace or None)


class EngineProbe(NamedTuple):
    """Whether the container engine of this machine answers."""

    name: str = ""
    problem: str = ""


def probe_engine(socket: Path) -> EngineProbe:
    try:
        return EngineProbe(Engine(str(socket)).ping())
    except (EngineUnavailable, EngineError) as error:
        return EngineProbe(problem=str(error))


def fleet_settings(settings: Settings) -> FleetSettings | None:
    """The settings of the fleet, with the certificates that were found; None: there is none."""
    fleet = settings.fleet
    if not fleet.url:
        return None
    certificates = certificates_of(fleet)
    if certificates is None and fleet.url.startswith("tls:"):
        certificates = Certificates.of_this_machine()  # on the machine of the hub, 'fleet start' made them for its user
    return fleet_at(fleet.url, certificates, fleet)


def member_logs(settings: Settings) -> MemberLogs:
    """The logs that members keep and no node has a copy of."""

    def fleet() -> FleetSettings:
        found = fleet_settings(settings)
        if found is None:
            raise SettingsError("no fleet is set here. Set 'fleet.url'.")
        return found

    return MemberLogs(fleet)


def keeper_settings(settings: Settings, ledger_lock: Path | None = None) -> KeeperSettings:
    """The settings of the keepers, with the parts of this scheduler that their sandboxes hide."""
    keys = (settings.config, settings.api.tls_key, settings.fleet.tls_key, settings.kubernetes.kubeconfig)
    return replace(
        settings.local.keeper,
        hidden=tuple(str(path.absolute()) for path in keys if path is not None),
        unshowable=() if ledger_lock is None else (str(ledger_lock.absolute()),),
    )
