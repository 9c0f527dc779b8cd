"""What the steps of an attempt hand on to later ones, and to an attempt that resumes this one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence

from evertick.executors.keeper.environment import VALUE_MAX
from evertick.executors.paths import open_folder
from evertick.model.plain_json import parse_json
from evertick.model.work import PythonCall, Step, SubJob

OUTPUTS = "outputs.json"


class StepOutputs:
    """One attempt's; `is_secret` says whether a text holds a secret."""

    def __init__(self, is_secret: Callable[[str], bool]) -> None:
        self._is_secret = is_secret
        self._hidden: set[str] = set()
        self.variables: dict[str, str] = {}
        """By variable, for the steps that follow."""
        self.by_step: dict[str, str] = {}

    def set(self, step: Step, value: str) -> None:
        """An item hands on nothing by itself: later steps find the list of all."""
        assert step.output is not None
        self.by_step[step.name] = value
        if step.item is None:
            self.variables[step.output] = value

    def receive(self, outputs: Mapping[str, str]) -> None:
        """What earlier steps handed on, where an item runs apart from its run."""
        self.variables.update(outputs)

    @property
    def may_be_sent(self) -> bool:
        """Whether none of them holds a secret."""
        return not self._hidden and not any(map(self._is_secret, self.variables.values()))

    def collect(self, step: Step, items: Sequence[Step]) -> str | None:
        """Hand on the outputs of the items as a JSON list in their order; the reason if it is too long."""
        if step.output is None:
            return None
        # What a function or another job hands on is JSON already.
        is_json = isinstance(step.kind, PythonCall | SubJob)
        found = [self.by_step.get(item.name) for item in items]
        text = json.dumps([parse_json(one) if is_json and one is not None else one for one in found])
        if len(text) > VALUE_MAX - len(step.output) - 2:
            return f"the outputs of its items have {len(text):,} bytes, more than a variable holds. Print file names."
        if any(one is not None and self._is_secret(one) for one in found):
            self._hidden.add(step.name)  # JSON may write a secret in another form
        self.set(step, text)
        return None

    def public(self) -> dict[str, str]:
        """Those that hold no secret, by step."""
        return {name: value for name in self.by_step if (value := self.public_of(name)) is not None}

    def public_of(self, step: str) -> str | None:
        value = self.by_step.get(step)
        return None if value is None or step in self._hidden or self._is_secret(value) else value


def save_outputs(root: int, parts: Sequence[str], outputs: Mapping[str, str]) -> None:
    """Beside the logs of the attempt; if that fails, steps with outputs are run again."""
    if not outputs:
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = open_folder(root, parts, create=True)
        try:
            with open(os.open(OUTPUTS, flags, 0o600, dir_fd=folder), "w") as file:
                json.dump(outputs, file)
        finally:
            os.close(folder)
    except OSError:
        pass


def read_outputs(root: int, parts: Sequence[str]) -> dict[str, str]:
    """What an attempt saved, by step; empty if it ran elsewhere or its logs are gone."""
    try:
        folder = open_folder(root, parts)
    except OSError:
        return {}
    try:
        with open(os.open(OUTPUTS, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)) as file:
            kept = json.load(file)
    except (OSError, ValueError):
        return {}
    finally:
        os.close(folder)
    return {str(name): str(value) for name, value in kept.items()} if isinstance(kept, dict) else {}
