"""Invokers with scripted answers, and the smallest pipelines."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from evertick.kinds.pipeline.invoker import Answer, Call
from evertick.kinds.pipeline.result import PipelineResult
from evertick.kinds.pipeline.run import run_pipeline


class Scripted:
    """Answers by what a function makes of the prompt, and keeps what it was asked."""

    def __init__(self, answer: Callable[[str], str | Answer]) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self.calls: list[Call] = []

    def __call__(self, call: Call) -> Answer:
        with self._lock:
            self.calls.append(call)
        said = self._answer(call.question.prompt)
        return said if isinstance(said, Answer) else Answer(True, said)

    @property
    def prompts(self) -> list[str]:
        return [call.question.prompt for call in self.calls]


def hang(call: Call) -> Answer:
    """Says nothing until it is given up."""
    assert call.aborted.wait(30)
    return Answer(False, error="aborted")


def pipeline(items: Sequence[object] | None = None, **parts: object) -> dict[str, object]:
    """Two endpoints, a status for each, as JSON; `map__output=[...]` changes one part."""
    data: dict[str, dict[str, object]] = {
        "input": {"items": [{"endpoint": "a"}, {"endpoint": "b"}] if items is None else items},
        "map": {"prompt": "Sync {{endpoint}}", "output": ["status"]},
        "reduce": {"type": "json"},
    }
    whole: dict[str, object] = {"name": "Sync", **data}
    for path, value in parts.items():
        name, _, inner = path.partition("__")
        if not inner:
            whole[name] = value
        elif value is None:
            data[name].pop(inner, None)
        else:
            data[name][inner] = value
    return whole


def run(
    data: dict[str, object], answer: Callable[[str], str | Answer] | None = None, directory: Path | str = "."
) -> PipelineResult:
    return run_pipeline(data, directory, Scripted(answer or (lambda _prompt: json.dumps({"status": "ok"}))))
