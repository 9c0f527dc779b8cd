"""What may be set about running jobs on this machine."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from evertick.errors import SettingsError
from evertick.model.instant import MINUTE, SECOND
from evertick.routing.lanes import LaneSettings

KEEPER_TIMEOUT_US = 30 * SECOND
"""A keeper that does not answer for this long hangs, and is replaced."""


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """What a keeper is told when it is started; it keeps to it as long as it lives."""

    grace_us: int = 5 * SECOND
    """Between the polite end of a process and the one by force."""
    memory_max_bytes: int | None = None
    """Address space of each process; None: no limit of ours."""
    files_max: int | None = None
    """Open files of each process; None: as the scheduler was given."""
    no_new_privileges: bool = False
    """Programs that change the user (sudo) do not work in jobs then."""
    idle_us: int = MINUTE
    """A keeper that has nothing to do and nobody to tell ends after this long."""
    remember_us: int = 10 * MINUTE
    """An outcome that was delivered is kept for this long, counted while a scheduler is connected."""
    journal_bytes: int = 2 * 1024 * 1024
    """Size at which a new journal file is begun."""
    journal_files: int = 8
    """Files of delivered outcomes that are kept at most, however young."""
    hidden: tuple[str, ...] = ()
    """Files and folders of the scheduler, beside its state folder, that no sandbox shows."""
    unshowable: tuple[str, ...] = ()
    """Files such as a ledger: no sandbox shows a folder that holds one."""

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> KeeperSettings:
        plain = json.loads(text)
        # JSON has no tuples.
        for name in ("hidden", "unshowable"):
            plain[name] = tuple(plain.get(name, ()))
        return cls(**plain)


@dataclass(frozen=True, slots=True)
class LocalSettings:
    keepers: int = 1
    """Processes that start and watch runs. One starts about as many runs a second as a core can."""
    lanes: LaneSettings = field(default_factory=LaneSettings)
    keeper: KeeperSettings = field(default_factory=KeeperSettings)
    keeper_timeout_us: int = KEEPER_TIMEOUT_US

    def __post_init__(self) -> None:
        if not 1 <= self.keepers <= 64:
            raise SettingsError(f"'keepers' is {self.keepers}; it must be from 1 to 64. More than cores do not help.")
        if self.keeper_timeout_us < SECOND:
            raise SettingsError("'keeper_timeout' is shorter than 1s, which a keeper that is well may take to answer.")
