"""How a callable is found again by its name: by another process, or by the next start of a program."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import NamedTuple

MAIN = "__main__"


class NotImportable(ValueError):
    """Why a callable cannot be found by its name."""

    hint = "Define it with 'def' at the top level of a module, so that its name is 'module:function'"
    """What to do, for a sentence that goes on."""


class NotPlain(NotImportable):
    """Why an argument that is bound to a callable cannot be written down."""

    hint = "Bind only such values, and get the others inside of the function"


class CallableReference(NamedTuple):
    """A function, method or object by its name, and the arguments that a `functools.partial` binds to it."""

    module: str
    name: str
    """From the top level of the module: `report`, `Report.send`."""
    args: Sequence[object] = ()
    """JSON values."""
    kwargs: Mapping[str, object] = MappingProxyType({})
    program: str = ""
    """Of `__main__`: the file or module that was started."""

    @property
    def target(self) -> str:
        return f"{self.module}:{self.name}"

    def load(self) -> Callable[..., object]:
        """Import it; `NotImportable` says why that is not possible."""
        if self.module == MAIN and self.program != _program():
            raise NotImportable(
                f"'{self.name}' was defined in the program '{self.program}', and this is '{_program()}'"
            )
        call = find_target(self.target)
        if not (self.args or self.kwargs):
            return call
        return functools.partial(call, *self.args, **self.kwargs)


def find_target(target: str) -> Callable[..., object]:
    """The callable with the name `module:function`; `NotImportable` says what is wrong with the name."""
    module, colon, name = target.partition(":")
    if not (module and colon and name):
        raise NotImportable(f"'{target}' is not 'module:function'")
    try:
        found: object = importlib.import_module(module)
    except Exception as error:  # whatever the module raises while it is imported
        raise NotImportable(f"the module '{module}' cannot be imported: {type(error).__name__}: {error}") from error
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise NotImportable(f"the module '{module}' has no '{name}'") from None
    if not callable(found):
        raise NotImportable(f"'{target}' cannot be called")
    call: Callable[..., object] = found
    return call


def reference_of(call: Callable[..., object]) -> CallableReference:
    """The name of a callable; `NotImportable` says why it has none.

    While a decorator runs, the module does not have the name yet: whether it leads to the callable is not checked.
    """
    args: tuple[object, ...] = ()
    kwargs: dict[str, object] = {}
    while isinstance(call, functools.partial):
        args, kwargs, call = (*call.args, *args), {**call.keywords, **kwargs}, call.func
    for place, value in (*enumerate(args, 1), *kwargs.items()):
        if not _is_plain(value):
            raise NotPlain(
                f"its argument {place} has the type '{type(value).__name__}'; only texts, numbers, true, false, None, "
                "and lists and dictionaries of them can be stored"
            )
    module, name = _name_of(call)
    program = _program() if module == MAIN else ""
    return CallableReference(module, name, args, MappingProxyType(kwargs), program)


def _name_of(call: Callable[..., object]) -> tuple[str, str]:
    qualname, module = getattr(call, "__qualname__", None), getattr(call, "__module__", None)
    if inspect.ismethod(call) and not isinstance(call.__self__, type):
        holder = _global_name(call.__self__)
        if holder is None:
            raise NotImportable(f"it is a method of a {type(call.__self__).__name__} that is not a global of a module")
        return holder[0], f"{holder[1]}.{call.__name__}"
    if qualname is None:
        holder = _global_name(call)
        if holder is None:
            raise NotImportable(f"it is a {type(call).__name__} that is not a global of a module")
        return holder
    if "<lambda>" in qualname:
        raise NotImportable("it is a lambda, which has no name")
    if "<locals>" in qualname:
        raise NotImportable("it is defined inside a function")
    if not module:
        raise NotImportable("it belongs to no module")
    return module, qualname


def _global_name(wanted: object) -> tuple[str, str] | None:
    """The module and the name that an object has there; the module of its class, and the program, come first."""
    for module_name in (type(wanted).__module__, MAIN, *sorted(sys.modules)):
        module = sys.modules.get(module_name)
        for name, value in list(vars(module).items()) if isinstance(module, ModuleType) else ():
            if value is wanted and not name.startswith("__"):
                return module_name, name
    return None


def _is_plain(value: object) -> bool:
    """Whether JSON gives back the same value."""
    try:
        return _typed(json.loads(json.dumps(value, allow_nan=False))) == _typed(value)
    except (TypeError, ValueError):
        return False


def _typed(value: object) -> object:
    """With the types of its parts: a tuple is not a list, and true is not 1."""
    if isinstance(value, dict):
        return {name: _typed(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_typed(part) for part in value]
    return type(value), value


def _program() -> str:
    """What was started: the name of a module, or of a file without its folder, which changes with a release."""
    main = sys.modules.get(MAIN)
    spec = getattr(main, "__spec__", None)
    return spec.name if spec is not None else os.path.basename(getattr(main, "__file__", None) or "")
