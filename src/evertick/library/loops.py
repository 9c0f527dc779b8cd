"""Where coroutines run in a program that has no event loop."""

from __future__ import annotations

import asyncio
import threading

END_SECONDS = 30.0


class OwnLoop:
    """An event loop in a thread, for the coroutines of a program that has none."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="evertick-functions", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.close()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(END_SECONDS)
