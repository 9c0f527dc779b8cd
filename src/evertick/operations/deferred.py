"""Methods whose modules are imported when they are first called: a command needs few of all operations."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pkgutil import walk_packages
from typing import Any


class DeferredModule:
    """Stands for a module in the body of a class: each attribute is one of its functions, as a method."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, function: str) -> _DeferredMethod:
        return _DeferredMethod(self._name, function)


class _DeferredMethod:
    """Puts the function in its own place when it is first asked for."""

    def __init__(self, module: str, function: str) -> None:
        self._module = module
        self._function = function

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        function = getattr(import_module(self._module), self._function)
        setattr(self._owner, self._name, function)
        method: Callable[..., Any] = function.__get__(instance, owner)
        return method


def import_all_of(package: str) -> None:
    """Import every module of a package now, for a process that runs for long.

    An upgrade may replace its files meanwhile, and what was imported only then would not fit the rest.
    """
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        import_module(module.name)
