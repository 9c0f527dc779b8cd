"""Returns a value that a test knows to be present."""

from __future__ import annotations

from typing import TypeVar

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """The value; the test fails where there is none."""
    assert value is not None
    return value
