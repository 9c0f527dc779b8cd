"""Draws the steps of a run as a tree: each step below one that it depends on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple


class TreeLine(NamedTuple):
    prefix: str
    """`├─ `, `│  └─ `: the lines that lead to the step; empty for one without dependencies."""
    name: str
    also: tuple[str, ...] = ()
    """Further steps that it depends on: a tree can show only one."""


def tree_of(names: Sequence[str], depends: Mapping[str, Sequence[str]]) -> list[TreeLine]:
    """The steps in the order of the tree. Of several dependencies, the last one listed in `names` is the parent."""
    places = {name: place for place, name in enumerate(names)}
    parents: dict[str, str] = {}
    for name in names:
        known = [one for one in depends.get(name, ()) if one in places and one != name]
        if known:
            parents[name] = max(known, key=places.__getitem__)
    children: dict[str | None, list[str]] = {}
    for name in names:
        children.setdefault(parents.get(name), []).append(name)
    lines = list(_below(None, children, "", depends, parents))
    # A circle has no root. The parser refuses one, but the ledger of another version may hold it.
    drawn = {line.name for line in lines}
    return [*lines, *(TreeLine("", name) for name in names if name not in drawn)]


def with_items(
    depends: Mapping[str, Sequence[str]], items: Sequence[tuple[str, str | None]]
) -> Mapping[str, Sequence[str]]:
    """The steps, each followed by its items, which are drawn below it; `items` names their steps."""
    found: dict[str, list[str]] = {}
    for name, step in items:
        if step is not None:
            found.setdefault(step, []).append(name)
    if not found:
        return depends
    drawn: dict[str, Sequence[str]] = {}
    for step, needed in depends.items():
        drawn[step] = needed
        drawn |= dict.fromkeys(sorted(found.get(step, ()), key=_place), (step,))
    return drawn


def _place(name: str) -> tuple[bool, int, str]:
    """`a[9]` before `a[10]`, and what counts the rest behind both."""
    return (not name.endswith("]"), len(name), name)


def _below(
    parent: str | None,
    children: Mapping[str | None, Sequence[str]],
    lead: str,
    depends: Mapping[str, Sequence[str]],
    parents: Mapping[str, str],
) -> Iterator[TreeLine]:
    found = children.get(parent, ())
    for name in found:
        is_last = name == found[-1]
        also = tuple(one for one in depends.get(name, ()) if one != parents.get(name))
        is_root = parent is None
        yield TreeLine("" if is_root else f"{lead}{'└─ ' if is_last else '├─ '}", name, also)
        yield from _below(name, children, "" if is_root else f"{lead}{'   ' if is_last else '│  '}", depends, parents)
