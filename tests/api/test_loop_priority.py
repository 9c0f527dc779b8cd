"""Does a server in the scheduler's process yield to the loop, and still answer when the loop is always busy?"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from evertick.api import loop_priority as courtesy_module
from evertick.api.app import make_app
from evertick.api.factory import open_app_state
from evertick.api.loop_priority import AT_ONCE, YieldToLoop
from evertick.definitions.source import Folder
from evertick.operations.tokens import Role
from evertick.settings import Settings
from evertick.stores.files import FilesStore
from tests.api.http_client import TestClient
from tests.stores.builders import NINE, enter, occurrence, planned


def looks(*answers):
    """A loop that is seen at these moments, and is at rest from then on."""
    left = list(answers)
    return lambda: left.pop(0) if left else False


def noting(look: Callable[[], bool]) -> tuple[list[bool], Callable[[], bool]]:
    """The answers so far, and what gives them."""
    seen: list[bool] = []

    def answer() -> bool:
        seen.append(look())
        return seen[-1]

    return seen, answer


def test_a_question_begins_when_the_loop_has_fired():
    seen, look = noting(looks(True, True))
    loop_priority = YieldToLoop(look)
    with loop_priority:
        assert seen == [True, True, False]
    asyncio.run(loop_priority.wait())
    assert seen == [True, True, False, False]


def test_a_long_answer_pauses_for_the_loop_between_its_parts_and_no_other_does():
    seen, look = noting(looks(False, True, True, False, True))
    loop_priority = YieldToLoop(look)
    loop_priority.breathe()
    assert seen == []
    with loop_priority:
        loop_priority.breathe()
        assert seen == [False, True, True, False]
    loop_priority.breathe()
    assert seen == [False, True, True, False]
    loop_priority.pause()
    assert seen == [False, True, True, False, True, False]


def test_a_store_that_answers_in_the_loops_process_lets_it_go_first(tmp_path):
    store = FilesStore(tmp_path / "ledger")
    firing, is_firing = noting(looks(False, False, True))
    settings = Settings.load(None, {}, {})
    app_state = open_app_state(store, "files:///x", Folder, settings, tmp_path, is_firing=is_firing)
    enter(store, *(planned(occurrence(NINE + n)) for n in range(3)))
    with app_state.loop_priority:
        before = len(firing)
        assert len(app_state.operations.list_runs(limit=10).items) == 3
        assert len(firing) > before
    store.close()


def test_a_loop_that_is_always_busy_does_not_close_the_door(monkeypatch):
    monkeypatch.setattr(courtesy_module, "LONGEST_SECONDS", 0.01)
    loop_priority = YieldToLoop(lambda: True)
    with loop_priority:
        asyncio.run(loop_priority.wait())


def test_a_long_answer_has_the_patience_of_a_short_one(monkeypatch):
    monkeypatch.setattr(courtesy_module, "LONGEST_SECONDS", 0.02)
    monkeypatch.setattr(courtesy_module, "REGAINED_IN", 1e9)
    looked, look = noting(lambda: True)
    loop_priority = YieldToLoop(look)
    with loop_priority:
        used = len(looked)
        for _ in range(100):
            loop_priority.breathe()
    assert used > 2
    assert len(looked) == used + 200  # it looks twice, and does not wait


def test_few_work_at_once():
    loop_priority = YieldToLoop(lambda: False)
    inside, most, lock, met = 0, 0, threading.Lock(), threading.Barrier(AT_ONCE)

    def work():
        nonlocal inside, most
        with loop_priority:
            with lock:
                inside += 1
                most = max(most, inside)
            met.wait(60)  # until as many are in as may be: they would let more in if more could come
            with lock:
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4 * AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (most, inside) == (AT_ONCE, 0)


@pytest.mark.parametrize(
    ("path", "is_polite"),
    [
        pytest.param("/api/v1/jobs", True, id="a look at the ledger takes a place"),
        pytest.param("/api/v1/requests/nobody", False, id="who may wait for the scheduler takes none"),
    ],
)
def test_only_background_work_takes_a_slot(store, tmp_path, path, is_polite):
    taken = []

    class Counting(YieldToLoop):
        def __enter__(self):
            taken.append(path)
            super().__enter__()

    folder = Folder(jobs={})
    settings = Settings.load(None, {}, {})
    app_state = open_app_state(store, "files:///x", lambda: folder, settings, tmp_path, is_firing=lambda: False)
    object.__setattr__(app_state, "loop_priority", Counting(lambda: False))
    token = app_state.tokens.create("somebody", Role.ADMIN)[1]
    with TestClient(make_app(app_state), base_url="http://localhost") as client:
        client.get(path, headers={"authorization": f"Bearer {token}"})
    assert bool(taken) is is_polite
