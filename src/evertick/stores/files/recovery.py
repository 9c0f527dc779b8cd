"""Rebuilds the ledger from a folder of files, however its last owner ended, and whatever happened to the files.

    ledger.json           a snapshot: everything up to write number n
    ledger.jsonl          the writes after it, one line each
    *.previous            the generation before: its snapshot, and the writes from there to the present snapshot

Writes are numbered, so any readable snapshot and the lines that follow it without a gap form a ledger. An
unreadable file is set aside and reported, never deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from evertick.model.instant import Instant
from evertick.stores.disk import read_if_there, set_aside
from evertick.stores.files.codec import Json, Write, decode_contents, unseal
from evertick.stores.files.journal import Ending, read_lines
from evertick.stores.memory import Contents

SNAPSHOT, JOURNAL = "ledger.json", "ledger.jsonl"
PREVIOUS = ".previous"
UNREADABLE = ".unreadable-"
LOOK = "Inspect the files that were set aside, and delete them when you no longer need them."


class SavedLedger(NamedTuple):
    sequence: int
    """The number of its last write."""
    contents: Contents
    tallies: Json = MappingProxyType({})
    seen_at: Instant = 0
    """The last known time."""
    size: int = 0


NOTHING = SavedLedger(0, Contents())


@dataclass(slots=True)
class Recovered:
    snapshot: SavedLedger = NOTHING
    writes: list[Write] = field(default_factory=list)
    """The writes after the snapshot, in order."""
    sequence: int = 0
    journal_end: int = 0
    is_new: bool = False
    """No files existed."""
    is_patched: bool = False
    """The current generation alone does not have it: write a new generation first."""
    is_lossy: bool = False
    """An acknowledged write is missing."""
    notices: list[str] = field(default_factory=list)


def recover(folder: Path) -> Recovered:
    """Rebuild the newest ledger that the files of a folder allow."""
    left_before = sorted(path for path in folder.iterdir() if UNREADABLE in path.name)
    found = Recovered(notices=[f"{path} was set aside at an earlier start. {LOOK}" for path in left_before])
    present, previous = (_read_snapshot(folder / name) for name in (SNAPSHOT, SNAPSHOT + PREVIOUS))
    found.snapshot = max((saved for saved in (previous, present) if saved), key=_sequence, default=NOTHING)
    found.sequence = found.snapshot.sequence
    journal = read_if_there(folder / JOURNAL)
    # The previous journal leads from the previous snapshot to the present one. A crash while the journals change
    # places leaves it as the only one.
    if journal is None or found.snapshot is not present:
        earlier = read_if_there(folder / (JOURNAL + PREVIOUS))
        end = _follow(found, folder / (JOURNAL + PREVIOUS), earlier)
        found.is_patched = found.is_patched or bool(found.writes)
        # It was closed as a whole: if it is not, how much there was up to the present snapshot is unknown.
        found.is_lossy = found.is_lossy or (present is False and end != len(earlier or b"?"))
    found.journal_end = _follow(found, folder / JOURNAL, journal)
    if present is False:
        _give_up(found, folder / SNAPSHOT, "it is damaged")
        if previous is False:
            _give_up(found, folder / (SNAPSHOT + PREVIOUS), "it is damaged too")
            found.is_lossy = True
    found.is_new = found.sequence == 0 and not (found.is_patched or left_before)
    if found.is_patched and found.notices[len(left_before) :]:
        found.notices.append(_outcome(found, folder))
    return found


def _outcome(found: Recovered, folder: Path) -> str:
    if found.sequence == 0:
        return f"Nothing in {folder} could be used: every job starts as new, without catch-up. {LOOK}"
    if found.is_lossy:
        return (
            f"The ledger in {folder} has lost its newest writes: it ends with write {found.sequence}, and later "
            f"occurrences may be decided again. {LOOK}"
        )
    return f"The ledger in {folder} was rebuilt from its previous generation; nothing is missing. {LOOK}"


def _sequence(saved: SavedLedger) -> int:
    return saved.sequence


def _read_snapshot(path: Path) -> SavedLedger | Literal[False] | None:
    """The snapshot in a file; None if there is no file, False if it is unreadable."""
    content = read_if_there(path)
    if content is None:
        return None
    document = unseal(content.rstrip(b"\n"))
    if document is None:
        return False
    try:
        contents = decode_contents(document["ledger"])
        return SavedLedger(document["seq"], contents, document["tallies"], document["seen_at"], len(content))
    except (KeyError, TypeError, ValueError):
        return False


def _follow(found: Recovered, path: Path, content: bytes | None) -> int:
    """Add the lines of a journal that continue the ledger; returns where the valid ones end."""
    if content is None:
        return 0
    lines = read_lines(content)
    for number, (sequence, write) in enumerate(lines.writes):
        if sequence > found.sequence + 1:
            unused = len(lines.writes) - number + lines.unread
            _give_up(found, path, f"what came before it is missing, and {unused} lines cannot be used")
            found.is_lossy = True
            return 0
        if sequence > found.sequence:
            found.writes.append(write)
            found.sequence = sequence
    if lines.ending is Ending.DAMAGED:
        where = f"line {len(lines.writes) + 1} is damaged"
        _give_up(found, path, f"{where}, and {lines.unread} lines from there on cannot be used")
        found.is_lossy = True
        return 0
    found.is_patched = found.is_patched or lines.ending is Ending.BARE
    return lines.end


def _give_up(found: Recovered, path: Path, reason: str) -> None:
    aside = set_aside(path)
    found.notices.append(f"{path} was set aside as {aside.name}: {reason}.")
    found.is_patched = True
