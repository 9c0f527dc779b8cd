"""Encodes a write to the ledger as one line of text, with a checksum that detects an incomplete line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

from evertick.errors import SchemaTooNew
from evertick.model.instant import Instant
from evertick.model.ledger import Claim
from evertick.model.lifecycle import RunState, SkipReason, Trigger
from evertick.model.run import Change, Entry, LedgerRow, RunKey
from evertick.store import (
    Batch,
    DefinitionLine,
    JobRecord,
    Lease,
    Request,
    RequestKind,
    ScheduleLine,
    StoredBlackout,
    StoredJob,
)
from evertick.stores.memory import Contents

VERSION = 1
SUM = b'{"sum":"'
_HEAD = len(SUM) + 8 + 2  # the sum, its quote and the comma

Json: TypeAlias = Any


class Leasing(NamedTuple):
    names: Sequence[str]
    holder: str
    ttl_us: int
    now: Instant


class Compaction(NamedTuple):
    before: Mapping[str, Instant]
    default_before: Instant | None
    limit: int


class Recording(NamedTuple):
    changes: Sequence[Change]


Write: TypeAlias = Batch | Recording | Leasing | Compaction
"""One call that changes the ledger; replaying all calls in order rebuilds the ledger."""


def seen_at(write: Write) -> Instant | None:
    """The time of a call, if the call has one."""
    match write:
        case Leasing():
            return write.now
        case Recording(changes):
            return max((change.at for change in changes), default=None)
        case Batch():
            told = [entry.decided_at for entry in write.entries] + [change.at for change in write.changes]
            return max(told, default=None)
        case Compaction():
            return None


def seal(document: dict[str, Json]) -> bytes:
    """One line of JSON that begins with the checksum of the rest."""
    body = json.dumps({"version": VERSION, **document}, separators=(",", ":")).encode()
    return b'%b%08x",%b\n' % (SUM, crc32(body), body[1:])


def unseal(line: bytes) -> dict[str, Json] | None:
    """The content of a line without its newline; None if the line is incomplete."""
    body = b"{" + line[_HEAD:]
    if not line.startswith(SUM) or line[_HEAD - 2 : _HEAD] != b'",':
        return None
    if line[len(SUM) : _HEAD - 2] != b"%08x" % crc32(body):
        return None
    document: dict[str, Json] = json.loads(body)
    if document["version"] > VERSION:
        raise SchemaTooNew(
            f"the files were written by a newer Evertick (format {document['version']}, this one reads {VERSION}). "
            "Install that version again, or restore the folder from before the upgrade."
        )
    return document


def encode_write(write: Write) -> dict[str, Json]:
    match write:
        case Recording(changes):
            return {"record": changes}
        case Leasing():
            return {"lease": [list(write.names), *write[1:]]}
        case Compaction():
            return {"compact": [dict(write.before), *write[1:]]}
        case Batch():
            parts = {
                "by": write.by,
                "entries": list(write.entries),
                "jobs": list(write.jobs),
                "rewinds": dict(write.rewinds),
                "withdrawn": list(write.withdrawn),
                "changes": list(write.changes),
                "schedules": list(write.schedules),
                "definitions": list(write.definitions),
                "stored_jobs": list(write.stored_jobs),
                "blackouts": list(write.blackouts),
                "floors": list(write.floors.items()),
                "epochs": list(write.epochs.items()),
                "requests": list(write.requests),
                "rests_on": list(write.rests_on.items()),
                "answers": dict(write.answers),
                "claims": list(write.claims),
            }
            return {"commit": {name: part for name, part in parts.items() if part}}


def decode_write(document: dict[str, Json]) -> Write:
    match document:
        case {"record": changes}:
            return Recording(tuple(map(_change, changes)))
        case {"lease": arguments}:
            return Leasing(*arguments)
        case {"compact": arguments}:
            return Compaction(*arguments)
        case {"commit": parts}:
            return Batch(
                by=parts.get("by", ""),
                entries=tuple(map(_entry, parts.get("entries", ()))),
                jobs=tuple(JobRecord(*job) for job in parts.get("jobs", ())),
                rewinds=parts.get("rewinds", {}),
                withdrawn=tuple(RunKey(*key) for key in parts.get("withdrawn", ())),
                changes=tuple(map(_change, parts.get("changes", ()))),
                schedules=tuple(ScheduleLine(*line) for line in parts.get("schedules", ())),
                definitions=tuple(DefinitionLine(*line) for line in parts.get("definitions", ())),
                stored_jobs=tuple(StoredJob(*job) for job in parts.get("stored_jobs", ())),
                blackouts=tuple(StoredBlackout(*one) for one in parts.get("blackouts", ())),
                floors=dict(parts.get("floors", ())),
                epochs=dict(parts.get("epochs", ())),
                requests=tuple(map(_request, parts.get("requests", ()))),
                rests_on={request_id: RunKey(*key) for request_id, key in parts.get("rests_on", ())},
                answers=parts.get("answers", {}),
                claims=tuple(map(_claim, parts.get("claims", ()))),
            )
    raise ValueError(f"a line of the journal has no known key: {sorted(document)}")


def encode_contents(contents: Contents) -> dict[str, Json]:
    return {**contents._asdict(), "floors": list(contents.floors.items())}


def decode_contents(document: dict[str, Json]) -> Contents:
    return Contents(
        rows=tuple(map(_row, document["rows"])),
        jobs=tuple(JobRecord(*job) for job in document["jobs"]),
        floors=dict(document["floors"]),
        schedules=tuple(ScheduleLine(*line) for line in document["schedules"]),
        leases=tuple(Lease(*lease) for lease in document["leases"]),
        requests=tuple(map(_request, document["requests"])),
        counters=document["counters"],
        definitions=tuple(DefinitionLine(*line) for line in document.get("definitions", ())),
        stored_jobs=document.get("stored_jobs", {}),
        blackouts=document.get("blackouts", {}),
    )


def _reason(text: str | None) -> SkipReason | None:
    return None if text is None else SkipReason(text)


def _entry(values: Json) -> Entry:
    key, state, trigger, decided_at, reason, *rest = values
    return Entry(RunKey(*key), RunState(state), Trigger(trigger), decided_at, _reason(reason), *rest)


def _change(values: Json) -> Change:
    change = Change(*values)
    return change._replace(
        key=RunKey(*change.key),
        state=RunState(change.state),
        reason=_reason(change.reason),
        trigger=None if change.trigger is None else Trigger(change.trigger),
    )


def _row(values: Json) -> LedgerRow:
    key, state, trigger, decided_at, decided_by, reason, *rest = values
    return LedgerRow(RunKey(*key), RunState(state), Trigger(trigger), decided_at, decided_by, _reason(reason), *rest)


def _claim(values: Json) -> Claim:
    queue, limit, job_ids, keys, *more = values  # an older version wrote four
    priorities, insisting = more or ({}, ())
    return Claim(queue, limit, job_ids, [RunKey(*key) for key in keys], priorities, [RunKey(*key) for key in insisting])


def _request(values: Json) -> Request:
    request = Request(*values)
    return request._replace(kind=RequestKind(request.kind))
