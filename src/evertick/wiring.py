"""Builds the executors and the other parts of a node from the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from evertick.errors import SettingsError
from evertick.executor import Executor, LeasedExecutor
from evertick.executors.fleet.executor import FleetExecutor
from evertick.executors.fleet.member_logs import MemberLogs
from evertick.executors.fleet.settings import Certificates, FleetSettings
from evertick.executors.kubernetes.executor import KubernetesExecutor
from evertick.executors.kubernetes.settings import KubernetesSettings
from evertick.executors.local import LocalExecutor
from evertick.executors.settings import KeeperSettings, LocalSettings
from evertick.kinds.kubernetes.cluster import Access, connect
from evertick.kinds.kubernetes.program import CONTEXT, INSTANCE, KUBECONFIG, NAMESPACE, START
from evertick.location import Location
from evertick.loop.settings import LoopSettings
from evertick.model.instant import SECOND
from evertick.model.routing import FLEET, KUBERNETES, LOCAL
from evertick.routing.lanes import LaneSettings
from evertick.settings import Settings


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
        # A step that is a container is watched by a process of this machine, which must know the same cluster.
        cluster = kubernetes_settings(settings)
        named = {CONTEXT: cluster.access.context, NAMESPACE: cluster.access.namespace, INSTANCE: cluster.instance}
        named[KUBECONFIG] = cluster.access.kubeconfig
        named[START] = str(cluster.start_timeout_us / SECOND)
        environ = {**os.environ, **{name: value for name, value in named.items() if value}}
        local = local_settings(settings, location.lock_path)
        executors[LOCAL] = LocalExecutor(state_folder, local, environ=environ)
        executors[KUBERNETES] = KubernetesExecutor(lambda: connect(cluster.access), state_folder, cluster)
    fleet = fleet_settings(settings)
    if fleet is not None:
        executors[FLEET] = FleetExecutor(state_folder, fleet)
    leased = [executor for executor in executors.values() if isinstance(executor, LeasedExecutor)]
    return Executors(executors, leased)


def fleet_settings(settings: Settings) -> FleetSettings | None:
    """The settings of the fleet; None: there is none."""
    part = settings.fleet
    if not part.url:
        return None
    if part.tls_ca and part.tls_cert and part.tls_key:
        named = Certificates(str(part.tls_ca), str(part.tls_cert), str(part.tls_key))
        return FleetSettings(part.url, named, part.lease_us, expected=part.expected)
    # On the machine of the hub, those that 'fleet start' has made for its own user.
    certificates = Certificates.of_this_machine() if part.url.startswith("tls:") else None
    return FleetSettings(part.url, certificates, part.lease_us, expected=part.expected)


def member_logs(settings: Settings) -> MemberLogs:
    """The logs that members keep and no node has a copy of."""

    def fleet() -> FleetSettings:
        found = fleet_settings(settings)
        if found is None:
            raise SettingsError("no fleet is set here. Set 'fleet.url'.")
        return found

    return MemberLogs(fleet)


def loop_settings(settings: Settings) -> LoopSettings:
    """The settings of the loop."""
    loop = settings.loop
    return LoopSettings(
        preread_us=loop.preread_us,
        loop_interval_us=loop.interval_us,
        grace_us=loop.keep_us,
        flush_interval_us=loop.flush_us,
        retire_grace_us=loop.retire_us,
        batches_in_flight_max=loop.batches,
        changes_in_flight_max=loop.changes,
        launch_retry_us=loop.launch_retry_us,
        queues=settings.queues,
        clock_jump_us=loop.clock_jump_us,
        stall_us=loop.stall_us,
    )


def kubernetes_settings(settings: Settings) -> KubernetesSettings:
    """The settings of runs on a cluster."""
    part = settings.kubernetes
    kubeconfig = str(part.kubeconfig) if part.kubeconfig else None
    return KubernetesSettings(
        access=Access(kubeconfig, part.context or None, part.namespace or None),
        instance=part.instance,
        namespaces=part.namespaces,
        start_timeout_us=part.start_timeout_us,
        keep_us=part.keep_us,
        log_streams=part.log_streams,
    )


def local_settings(settings: Settings, ledger_lock: Path | None = None) -> LocalSettings:
    """The settings of runs on this machine."""
    lanes, local = settings.lanes, settings.local
    keys = (settings.config, settings.api.tls_key, settings.fleet.tls_key, settings.kubernetes.kubeconfig)
    return LocalSettings(
        local.keepers,
        LaneSettings(
            lanes.fast, lanes.fast_queue, lanes.slow, lanes.slow_queue, lanes.slow_after_us, slow_limit=lanes.forgiven
        ),
        KeeperSettings(
            local.kill_after_us,
            local.memory_bytes,
            local.files,
            local.no_new_privileges,
            hidden=tuple(str(path.absolute()) for path in keys if path is not None),
            unshowable=() if ledger_lock is None else (str(ledger_lock.absolute()),),
        ),
        local.keeper_timeout_us,
    )
