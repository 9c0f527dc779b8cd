"""The command line of the simulator: runs seed after seed until one violates an invariant."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import count
from time import monotonic

from evertick.model.instant import HOUR
from evertick.testing.simulation import Outcome, simulate

PROGRESS_SECONDS = 5.0


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 if no seed violated an invariant, else 1."""
    parser = argparse.ArgumentParser(prog="python -m evertick.testing.simulator", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds to run (default: 1)")
    parser.add_argument("--start", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--forever", action="store_true", help="go on until interrupted")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at the first failure")
    parser.add_argument("--hours", type=float, help="simulated hours, instead of what the seed says")
    parser.add_argument("--nodes", type=int, help="nodes, instead of what the seed says")
    given = parser.parse_args(arguments)

    seeds: Iterator[int] = count(given.start) if given.forever else iter(range(given.start, given.start + given.seeds))
    tally = Tally()
    try:
        for seed in seeds:
            outcome = simulate(seed, hours=given.hours, nodes=given.nodes)
            tally.add(outcome)
            if not outcome.is_ok:
                _say(*failure_lines(outcome, given.hours, given.nodes))
                if not given.keep_going:
                    break
            tally.show_progress()
    except KeyboardInterrupt:
        _say("stopped")
    _say(tally.line())
    return 1 if tally.failed else 0


class Tally:
    """How it goes."""

    def __init__(self) -> None:
        self.failed: list[int] = []
        self._counts: Counter[str] = Counter()
        self._began = self._shown = monotonic()

    def add(self, outcome: Outcome) -> None:
        self._counts.update(
            seeds=1,
            simulated_us=outcome.simulated_us,
            occurrences=outcome.report.occurrences,
            attempts=outcome.attempts,
            turns=outcome.turns,
        )
        if not outcome.is_ok:
            self.failed.append(outcome.seed)

    def show_progress(self) -> None:
        if monotonic() - self._shown > PROGRESS_SECONDS:
            self._shown = monotonic()
            _say(self.line())

    def line(self) -> str:
        counts, seconds = self._counts, monotonic() - self._began
        failed = f"{len(self.failed)} FAILED {self.failed[:10]}" if self.failed else "none failed"
        return (
            f"{counts['seeds']} seeds, {failed}: {counts['simulated_us'] / HOUR:,.0f} simulated hours, "
            f"{counts['occurrences']:,} occurrences, {counts['attempts']:,} attempts, {counts['turns']:,} turns, "
            f"{seconds:.0f} s ({1000 * seconds / max(counts['seeds'], 1):.0f} ms per seed)"
        )


def failure_lines(outcome: Outcome, hours: float | None, nodes: int | None) -> list[str]:
    """The report of a failure, with the command that repeats it."""
    options = f"{f' --hours {hours:g}' if hours is not None else ''}{f' --nodes {nodes}' if nodes is not None else ''}"
    return [
        *outcome.trace,
        f"seed {outcome.seed} FAILED: {outcome.failure}",
        f"  world: {outcome.scenario}",
        f"  replay: python -m evertick.testing.simulator --seeds 1 --start {outcome.seed}{options}",
    ]


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
