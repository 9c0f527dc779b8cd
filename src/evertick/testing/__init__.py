"""For your own tests: a clock that you can set wrong, and the simulator that tests Evertick.

from evertick.testing import simulate

assert simulate(seed=42).is_ok
"""

from __future__ import annotations

from evertick.testing.faults import Faults
from evertick.testing.invariants import Violation
from evertick.testing.simulation import Outcome, simulate
from evertick.testing.timeline import SimulatedClock, Timeline

__all__ = ["Faults", "Outcome", "SimulatedClock", "Timeline", "Violation", "simulate"]
