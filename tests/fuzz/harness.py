"""Sends drawn inputs to a target, one after another, and names the one that fails.

`make test` sends some hundreds to each target, `make fuzz` 100,000. An input is drawn from its number, so that a
failure can be repeated: the note of the error has the number, and the input itself.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import TypeVar

INPUTS = int(os.environ.get("EVERTICK_FUZZ_INPUTS", "0"))
"""For each target; 0: the few of the suite."""
RESULTS = os.environ.get("EVERTICK_FUZZ_RESULTS", "")
"""A file to which each target adds a line of JSON."""
SEED = os.environ.get("EVERTICK_FUZZ_SEED", "1")
CPU_SECONDS_MAX = 1.0
"""For one input. CPU time, because a busy machine is no hang."""
COLLECTED_EVERY = 2_000
PARTS = 8 if INPUTS else 1
"""A target that is slow, or whose state grows with each input, is a test for each part: processes share the parts."""

Input = TypeVar("Input")


def fuzz(
    target: str, draw: Callable[[Random], Input], send: Callable[[Input], str], few: int, part: int | None = None
) -> Counter[str]:
    """How often each end was met, as `send` names it. Whatever else `send` raises is a finding.

    With `part`, each `PARTS`-th input from that one on; `make fuzz` adds up the results of the parts.
    """
    ends: Counter[str] = Counter()
    slowest = 0.0
    began = time.monotonic()
    numbers = range(INPUTS or few) if part is None else range(part, INPUTS or few, PARTS)
    # A collection is no work of the input during which it happens.
    gc.disable()
    for done, number in enumerate(numbers):
        if done % COLLECTED_EVERY == 0:
            gc.collect()
        drawn = draw(Random(f"{SEED} {target} {number}"))
        since = time.process_time()
        try:
            ends[send(drawn)] += 1
            spent = time.process_time() - since
            assert spent < CPU_SECONDS_MAX, f"{spent:.1f} s of CPU time"
        except BaseException as error:
            gc.enable()
            error.add_note(f"input {number} of {target!r}, seed {SEED!r}: {drawn!r:.4000}")
            raise
        slowest = max(slowest, spent)
    gc.enable()
    if RESULTS:
        row = {
            "target": target,
            "inputs": len(numbers),
            "ends": dict(sorted(ends.items())),
            "slowest_ms": round(slowest * 1_000, 1),
            "seconds": round(time.monotonic() - began, 1),
        }
        with Path(RESULTS).open("a") as file:
            file.write(json.dumps(row) + "\n")
    # If all inputs ended alike, they would prove little.
    assert len(ends) > 1, f"all {len(numbers)} inputs of {target!r} ended as {ends}"
    return ends
