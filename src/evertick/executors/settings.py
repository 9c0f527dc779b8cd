"""The settings of the local executor and its keepers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from evertick.errors import SettingsError
from evertick.model.instant import MINUTE, SECOND
from evertick.routing.lanes import LaneSettings

KEEPER_TIMEOUT_US = 30 * SECOND
"""A keeper that does not answer for this long counts as hung and is replaced."""


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """Given to a keeper when it starts, for its whole life."""

    grace_us: int = 5 * SECOND
    """Between SIGTERM and SIGKILL."""
    memory_max_bytes: int | None = None
    """Address space of each process; None: no limit."""
    files_max: int | None = None
    """Open files of each process; None: the scheduler's own limit."""
    no_new_privileges: bool = False
    """If set, programs that change the user (sudo) do not work in jobs."""
    idle_us: int = MINUTE
    """An idle keeper without a scheduler exits after this long."""
    remember_us: int = 10 * MINUTE
    """A delivered result is kept for this long, counted while a scheduler is connected."""
    journal_bytes: int = 2 * 1024 * 1024
    """Size at which the journal is rotated."""
    journal_files: int = 8
    """Archived journal files kept at most."""
    hidden: tuple[str, ...] = ()
    """Files and folders of the scheduler, beside its state folder, that sandboxes hide."""
    unshowable: tuple[str, ...] = ()
    """Files such as a ledger: no sandbox shows a folder that contains one."""

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
    """Keeper processes. One uses about one core when it starts runs."""
    lanes: LaneSettings = field(default_factory=LaneSettings)
    keeper: KeeperSettings = field(default_factory=KeeperSettings)
    keeper_timeout_us: int = KEEPER_TIMEOUT_US

    def __post_init__(self) -> None:
        if not 1 <= self.keepers <= 64:
            raise SettingsError(f"'keepers' is {self.keepers}; it must be from 1 to 64. More than cores do not help.")
        if self.keeper_timeout_us < SECOND:
            raise SettingsError("'keeper_timeout' is shorter than 1s, which a keeper that is well may take to answer.")
