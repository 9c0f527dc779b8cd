"""Figures of peers that `make bench` does not start: measured once beside Evertick on two cores, and kept here."""

from __future__ import annotations

from typing import Final

DAGU: Final = "Dagu (measured earlier)"
DAGU_NOTE: Final = (
    "Dagu was not part of this run: its newest version in the autumn of 2026 (the number was not recorded), measured "
    "once beside Evertick on two cores: 200 processes due at one minute, and two minutes idle with 2,000 files"
)
DAGU_BURST: Final = {"p50_ms": 6_100.0, "cpu_s": 41.0, "rss_mb": 3_700.0}
DAGU_IDLE_FILES: Final = 2_000
DAGU_IDLE_PERCENT: Final = 0.4 / 120 * 100
"""Of a core: 0.4 s in two minutes."""
