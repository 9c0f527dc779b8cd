"""What may be set about running jobs on a cluster."""

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
    """Whose Jobs these are. All nodes of one ledger share it; two ledgers in one namespace must not."""
    namespaces: tuple[str, ...] = ()
    """Others than the usual one that jobs may name; our account needs its rights in each of them."""
    start_timeout_us: int = 10 * MINUTE
    """A pod that has not started by then (no room, no image) fails, in words."""
    keep_us: int = 10 * MINUTE
    """A Job stays on the cluster for this long after its outcome was reported."""
    grace_us: int = GRACE_SECONDS * SECOND
    """Between the polite end of a container and the one by force, when a run is ended."""
    log_streams: int = 200
    """Logs that are followed while their runs go on; those of more runs are fetched when they end."""

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.instance):
            raise SettingsError(
                f"the kubernetes instance is {self.instance!r}, which cannot be the value of a label. "
                "Use up to 63 letters, digits, '-', '_' and '.'."
            )
        if self.log_streams < 0 or min(self.start_timeout_us, self.keep_us, self.grace_us) < SECOND:
            raise SettingsError("the times of 'kubernetes' must be at least a second, and its log streams at least 0.")
