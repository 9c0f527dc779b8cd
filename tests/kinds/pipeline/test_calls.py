"""Do many simultaneous calls all end, and does each notice a cancellation?"""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from evertick.kinds.pipeline.invoker import in_order

PATIENCE_SECONDS = 180


@pytest.fixture
def missed_signal():
    """An event that is set by SIGUSR1, which never interrupts what the main thread waits for.

    So it is, now and then, with a signal that comes in the moment before the main thread begins to wait.
    """
    told, is_over = threading.Event(), threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: told.set())
    taker = threading.Thread(target=is_over.wait)
    taker.start()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    yield told
    is_over.set()
    taker.join()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    signal.signal(signal.SIGUSR1, before)


def test_a_signal_that_did_not_interrupt_the_main_thread_is_handled(missed_signal):
    main = Path(f"/proc/self/task/{threading.main_thread().native_id}/stat")

    def work(_):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while main.read_text().rpartition(") ")[2][0] != "S":  # until it waits
            assert time.monotonic() < deadline
        os.kill(os.getpid(), signal.SIGUSR1)
        return missed_signal.wait(PATIENCE_SECONDS)

    assert in_order(work, [1], parallel=1) == [True]


def test_results_have_the_order_of_the_items_and_each_end_is_counted():
    begun = threading.Barrier(3, timeout=PATIENCE_SECONDS)
    counted: list[int] = []

    def work(item):
        begun.wait()
        return item * 2

    assert in_order(work, [1, 2, 3], 3, counted.append) == [2, 4, 6]
    assert counted == [1, 2, 3]


def test_what_one_of_them_raises_is_raised():
    with pytest.raises(ZeroDivisionError):
        in_order(lambda item: 1 // item, [1, 0, 2], 2)
