"""Which steps of a run may start, and how the run as a whole is doing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum


class StepOutcome(StrEnum):
    """How a step ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    SKIPPED = "skipped"


def find_cycle(depends: Mapping[str, Sequence[str]]) -> tuple[str, ...] | None:
    """The steps of one cycle in order, the first repeated at the end; None when there is none.

    Names that are not steps themselves are passed over: that they are missing is another error.
    """
    done: set[str] = set()
    for root in depends:
        if root in done:
            continue
        path: list[str] = [root]
        on_path = {root}
        # An explicit stack: a chain of ten thousand steps must not meet Python's recursion limit.
        stack = [iter(depends[root])]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                on_path.discard(path[-1])
                done.add(path.pop())
            elif following in on_path:
                return (*path[path.index(following) :], following)
            elif following in depends and following not in done:
                path.append(following)
                on_path.add(following)
                stack.append(iter(depends[following]))
    return None


def ready_steps(
    depends: Mapping[str, Sequence[str]],
    outcomes: Mapping[str, StepOutcome],
    running: Collection[str] = (),
    tolerated: Collection[str] = (),
    max_active: int | None = None,
) -> tuple[str, ...]:
    """The steps to start now, in the order they are written.

    A step may start when all it depends on ended well, or failed and is in `tolerated` (its failure does not stop
    those behind it). `max_active` bounds how many run at once.
    """
    room = len(depends) if max_active is None else max_active - len(running)
    found: list[str] = []
    for step, needed in depends.items():
        if len(found) >= room:
            break
        if step in outcomes or step in running:
            continue
        if all(_lets_pass(need, outcomes, tolerated) for need in needed):
            found.append(step)
    return tuple(found)


def unreachable_steps(
    depends: Mapping[str, Sequence[str]], outcomes: Mapping[str, StepOutcome], tolerated: Collection[str] = ()
) -> tuple[str, ...]:
    """The steps that can never start because something before them failed or was itself unreachable."""
    blocked = {
        step
        for step, outcome in outcomes.items()
        if outcome is not StepOutcome.SUCCEEDED and not _lets_pass(step, outcomes, tolerated)
    }
    pending = [step for step in depends if step not in outcomes]
    found: set[str] = set()
    grew = True
    while grew:
        grew = False
        for step in pending:
            if step not in found and any(need in blocked or need in found for need in depends[step]):
                found.add(step)
                grew = True
    return tuple(step for step in pending if step in found)


def run_outcome(
    depends: Mapping[str, Sequence[str]], outcomes: Mapping[str, StepOutcome], tolerated: Collection[str] = ()
) -> StepOutcome | None:
    """How the run ended, or None while a step still can start or runs."""
    if any(step not in outcomes for step in depends):
        return None
    ended_well = all(
        outcomes[step] is StepOutcome.SUCCEEDED or _lets_pass(step, outcomes, tolerated) for step in depends
    )
    return StepOutcome.SUCCEEDED if ended_well else StepOutcome.FAILED


def _lets_pass(step: str, outcomes: Mapping[str, StepOutcome], tolerated: Collection[str]) -> bool:
    outcome = outcomes.get(step)
    return outcome is StepOutcome.SUCCEEDED or (outcome is StepOutcome.FAILED and step in tolerated)
