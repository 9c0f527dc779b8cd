"""Do the operations give the same answers on every kind of ledger?"""

from __future__ import annotations

import pytest

from evertick.model.instant import MINUTE, SECOND
from evertick.model.lifecycle import FAILED, SKIPPED, SUCCEEDED, SkipReason
from evertick.operations.context import folder_of
from evertick.operations.local import LocalOperations
from evertick.operations.protocol import RunQuery
from evertick.stores import open_store
from tests.operations.ledger import at, entry, fill, job, key, ran

pytestmark = pytest.mark.slow
WINDOW = ("2026-03-01T00:00Z", "2026-03-03T00:00Z")
QUESTIONS = {
    "list_jobs": lambda operations: operations.list_jobs(recent=5),
    "job": lambda operations: operations.job("etl"),
    "overview": lambda operations: operations.overview(),
    "timeline": lambda operations: operations.timeline(*WINDOW),
    "timeline, dense": lambda operations: operations.timeline(*WINDOW, cells=2),
    "calendar": lambda operations: operations.calendar("etl", "2026-02-20", "2026-03-30", "Europe/Berlin"),
    "list_runs": lambda operations: operations.list_runs(RunQuery(executor="local", states=[FAILED, SUCCEEDED])),
    "gaps": lambda operations: operations.gaps(since=WINDOW[0]),
    "durations": lambda operations: operations.durations("etl"),
    "why": lambda operations: operations.why("etl", "2026-03-02T04:00"),
    "verify": lambda operations: operations.verify(),
}


def answers(url):
    store = open_store(url)
    gap = entry(-5, state=SKIPPED, reason=SkipReason.MISSED, through=at(-1), occurrences=5)
    skip = entry(3, state=SKIPPED, reason=SkipReason.OVERLAP, detail="busy")
    fill(store, gap, entry(0), entry(1), entry(2), skip, entry(4), watermark=4)
    for hour in (0, 1):
        ran(store, key(hour), at(hour) + SECOND, at(hour) + MINUTE)
    ran(store, key(2), at(2), at(2) + 2 * MINUTE, FAILED, exit_code=3)
    ran(store, key(4), at(4), None)
    operations = LocalOperations(
        store, lambda: folder_of({"etl": job()}), now=lambda: at(4.5), is_scheduler_running=lambda: False
    )
    found = {name: ask(operations) for name, ask in QUESTIONS.items()}
    store.close()
    return found


@pytest.mark.parametrize("kind", ["postgres", "mysql", "files", "memory"])
def test_every_question_has_the_same_answer(request, tmp_path, kind):
    urls = {"files": f"files://{tmp_path}/files", "memory": "memory:"}
    url = urls[kind] if kind in urls else request.getfixturevalue(f"fresh_{kind}")()
    expected = answers(f"sqlite:///{tmp_path}/ledger.db")
    found = answers(url)
    for name in QUESTIONS:
        assert found[name] == expected[name], name
