"""The settings of the Kubernetes executor."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from evertick.errors import SettingsError
from evertick.kinds.kubernetes.cluster import Access
from evertick.kinds.kubernetes.manifest import GRACE_SECONDS
from evertick.model.instant import MINUTE, SECOND

_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    access: Access = field(default_factory=Access)
    instance: str = "evertick"
    """Labels our Jobs. All nodes of one ledger share it; two ledgers in one namespace must differ."""
    namespaces: tuple[str, ...] = ()
    """Further namespaces that jobs may name; our account needs its permissions in each of them."""
    start_timeout_us: int = 10 * MINUTE
    """A pod that has not started by then (no capacity, no image) fails."""
    keep_us: int = 10 * MINUTE
    """A Job stays on the cluster for this long after its result was reported."""
    grace_us: int = GRACE_SECONDS * SECOND
    """Between SIGTERM and SIGKILL, when a run is stopped."""
    log_streams: int = 200
    """Logs followed at once; those of further runs are copied when they end."""

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.instance):
            raise SettingsError(
                f"The kubernetes instance {self.instance!r} is not a valid label value. "
                "Use up to 63 letters, digits, '-', '_' and '.'."
            )
        if self.log_streams < 0 or min(self.start_timeout_us, self.keep_us, self.grace_us) < SECOND:
            raise SettingsError("The durations of 'kubernetes' must be at least 1s, and its log streams at least 0.")
