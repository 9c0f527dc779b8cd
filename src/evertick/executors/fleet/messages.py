"""The messages between schedulers, the relay and members, beside the keeper lines that pass through.

The keeper's lines (`executors.protocol`) pass through unchanged. A member answers some verbs itself; those are here.
Everything goes over the streams between Dask's scheduler and its workers, and one stream for each scheduler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from evertick.executors.protocol import Message
from evertick.model.member import Closed, Labels, Member
from evertick.model.plain_json import parse_json
from evertick.model.resources import Resources, resources_of

PROTOCOL: Final = 1

# Operations on Dask's streams.
CONTROL: Final = "evertick-control"  # a scheduler of ours comes: protocol | then messages of its stream
HEAR: Final = "evertick-hear"  # relay to member: lines
SAY: Final = "evertick-say"  # member to relay: lines
HEARTBEAT: Final = "evertick-card"  # member to relay: heartbeat
ANSWER: Final = "evertick-answer"  # member to relay: the asker, lines; only the asker receives them
ACK: Final = "evertick-ack"  # relay to member: the stamp of a heartbeat that was passed on
RELEASE: Final = "release"  # a scheduler to the relay: the name of a member that is gone for good
FORGOTTEN: Final = "forgotten"  # relay to schedulers: that name; beside it whether it was known
BEAT: Final = "beat"  # relay to schedulers, once a second: there is nothing to say

# Verbs that a member answers itself.
LOGS: Final = "logs"  # job, scheduled for, origin, attempt, {step: offset}
LOG: Final = "log"  # job, scheduled for, origin, attempt, step, offset, base64, is complete
LOGS_END: Final = "logs-end"  # job, scheduled for, origin, attempt: no more than what was said
LIST_LOGS: Final = "list-logs"  # job, scheduled for, origin, attempt, asker
LISTED: Final = "listed"  # member to asker: [[step, size, is complete], ...]
READ_LOG: Final = "read-log"  # job, scheduled for, origin, attempt, asker, step, offset, limit
READ: Final = "read"  # member to asker: base64, is complete
CORDON: Final = "cordon"  # is closed
BUNDLE: Final = "bundle"  # job, scheduled for, origin, attempt, digest, size: said right before its launch
BUNDLE_PIECE: Final = "bundle-piece"  # job, scheduled for, origin, attempt, digest, offset, base64
WANT_BUNDLE: Final = "want-bundle"  # member to scheduler: job, scheduled for, origin, attempt, digest, offset
NEEDS: Final = "needs"  # job, scheduled for, origin, attempt, {resource: amount}: said right before its launch
LEAVE: Final = "leave-fleet"  #

PIECE: Final = 256 * 1024
"""Bytes of a log in one message."""
ASKER_MAX: Final = 64
"""Characters of the name that a questioner chooses for itself."""


class Heartbeat(NamedTuple):
    """A member's heartbeat, once a second."""

    name: str
    labels: Labels
    is_open: bool
    slots: int
    running: int
    version: str
    incarnation: str
    """Changes whenever its keeper or its worker was restarted."""
    cpu_percent: float
    memory_bytes: int
    clock: int
    """Its wall clock."""
    stamp: int = 0
    """When it was sent, in microseconds since boot; 0: a member without a lease."""
    lease_us: int = 0
    """Its attempts end before this long after its last acknowledged heartbeat."""
    is_leaving: bool = False
    """Whether it leaves for good."""
    offers: Resources = ()
    used: Resources = ()
    answers_logs: bool = False
    """Whether it answers questions about logs; older versions do not."""
    waiting: int = 0
    """How many of the running attempts wait for other runs."""
    runs_items: bool = False
    """Whether it can run an item of another member's run; older versions would run the whole job."""

    def to_plain(self) -> dict[str, object]:
        plain = {**self._asdict(), "labels": dict(self.labels)}
        return {**plain, "offers": dict(self.offers), "used": dict(self.used)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> Heartbeat:
        fields = {**cls._field_defaults, **plain}
        fields = {name: fields[name] for name in cls._fields}
        labels = tuple(sorted((str(name), str(value)) for name, value in fields.pop("labels").items()))
        offers, used = (resources_of(dict(fields.pop(name))) for name in ("offers", "used"))
        return cls(labels=labels, offers=offers, used=used, **fields)

    def to_member(self, address: str, seen_at: int, *, is_healthy: bool) -> Member:
        return Member(
            self.name,
            is_healthy,
            self.running,
            self.labels,
            self.is_open,
            self.slots,
            self.version,
            address,
            seen_at,
            self.cpu_percent,
            self.memory_bytes,
            offers=self.offers,
            used=self.used,
            closed=None if self.is_open else Closed.LEAVING if self.is_leaving else Closed.CORDONED,
            lease_us=self.lease_us,
            waiting=self.waiting,
            runs_items=self.runs_items,
        )


def rows_of(lines: bytes) -> list[Message]:
    """The decoded lines; `ValueError` for an invalid one."""
    found = []
    for row in lines.split(b"\n"):
        if row:
            words = parse_json(row)
            if not isinstance(words, list) or not words or not isinstance(words[0], str):
                raise ValueError("a line must be a list that begins with a verb")
            found.append(words)
    return found
