"""What every test can ask for."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.services"]

# No deadline: a busy machine is not a defect, and timings belong in bench/.
settings.register_profile("evertick", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("evertick")
