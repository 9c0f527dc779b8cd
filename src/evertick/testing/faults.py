"""What goes wrong in a simulated world, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from random import Random

from evertick.model.instant import HOUR, MILLISECOND, MINUTE, SECOND


@dataclass(frozen=True, slots=True)
class Faults:
    """Chances are per occasion, from 0 to 1; `_per_hour` counts per simulated hour and node. All zero: a calm world."""

    # The store
    crash_per_call: float = 0.0
    """The node dies at a call to the store, just before or just after it took effect."""
    lost_reply: float = 0.0
    """The call took effect, but the caller gets an error."""
    outages_per_hour: float = 0.0
    outage_max_us: int = 10 * MINUTE
    latency_max_us: int = 5 * MILLISECOND

    # Nodes and their clocks
    crashes_per_hour: float = 0.0
    down_max_us: int = 30 * MINUTE
    stalls_per_hour: float = 0.0
    """Nothing of the node runs for a while; half of the time because its machine is suspended."""
    stall_max_us: int = 10 * MINUTE
    jumps_per_hour: float = 0.0
    jump_max_us: int = 2 * HOUR
    """Forward; a jump back is at most a sixth of it."""
    drift_max_ppm: int = 0
    partitions_per_hour: float = 0.0
    """A node cannot reach the store for a while, which the others can."""
    leaves_per_hour: float = 0.0
    """The node shuts down in good order and comes back later."""

    # Executors
    failure: float = 0.05
    """The attempt ends as failed or timed out."""
    death: float = 0.0
    """The attempt's executor dies, and reports it."""
    silence: float = 0.0
    """The attempt falls silent; half of the time it returns with a result when no process waits for it."""
    refusal: float = 0.0
    member_outages_per_hour: float = 0.0
    """A member of the fleet is away for a while, and given up if that is too long."""
    late_report: float = 0.0
    report_delay_max_us: int = 3 * MINUTE
    duplicate_report: float = 0.0

    # Messages to the loop
    redelivery: float = 0.0
    """A message arrives once more: late if it has a key to be recognised by, at once if it says how things are."""

    # Definitions and users
    lost_event: float = 0.0
    """A change of a definition is not noticed until the next rescan."""
    edits_per_hour: float = 0.0
    requests_per_hour: float = 0.0
    blackouts_per_hour: float = 0.0
    """Added at run time; half of them are removed again."""

    @classmethod
    def drawn(cls, random: Random) -> Faults:
        """About half of the faults, each with a random rate: a world with all faults would show little else."""
        chosen = {name: random.uniform(most / 10, most) for name, most in _HARDEST.items() if random.random() < 0.5}
        return replace(
            cls(**chosen),  # type: ignore[arg-type]  # only fields that are floats are drawn
            latency_max_us=random.choice((MILLISECOND, 50 * MILLISECOND, 2 * SECOND)),
            drift_max_ppm=random.choice((0, 100, 5_000)),
        )

    def calm(self) -> Faults:
        """The same world without faults."""
        return Faults(failure=0.0, latency_max_us=self.latency_max_us)

    def delays_us(self, random: Random) -> Iterator[int]:
        """When a report arrives: soon or late, and perhaps once more."""
        delay_us = random.randrange(20 * MILLISECOND)
        if random.random() < self.late_report:
            delay_us = random.randrange(self.report_delay_max_us)
        yield delay_us
        if random.random() < self.duplicate_report:
            yield delay_us + random.randrange(self.report_delay_max_us)

    def __str__(self) -> str:
        """What differs from a calm world."""
        usual = Faults()
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        said = [f"{name}={value:.3g}" for name, value in given.items() if value != getattr(usual, name)]
        return " ".join(said) or "no faults"


_HARDEST = {
    "crash_per_call": 0.01,
    "lost_reply": 0.1,
    "outages_per_hour": 2.0,
    "crashes_per_hour": 3.0,
    "stalls_per_hour": 3.0,
    "jumps_per_hour": 2.0,
    "leaves_per_hour": 1.0,
    "failure": 0.5,
    "death": 0.2,
    "silence": 0.2,
    "refusal": 0.3,
    "late_report": 0.2,
    "duplicate_report": 0.2,
    "lost_event": 0.5,
    "edits_per_hour": 12.0,
    "requests_per_hour": 20.0,
}
