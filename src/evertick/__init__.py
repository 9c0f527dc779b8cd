"""Evertick, a job scheduler in which every tick is accounted for: the public names.

They are imported when they are first used, so that `import evertick` costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers take for true; `typing` itself would cost more than all the rest

if TYPE_CHECKING:
    from evertick.client import Client
    from evertick.definitions.parsed_file import Parsed
    from evertick.definitions.parser import parse_definition
    from evertick.definitions.source import Folder, load_folder
    from evertick.errors import (
        AccessDenied,
        AuditUnavailable,
        Conflict,
        CronError,
        DefinitionError,
        DurationError,
        EvertickError,
        ExecutorUnavailable,
        Fenced,
        GapRefused,
        InvalidArgument,
        MemberUnavailable,
        NotFound,
        SchedulerLockError,
        SchemaTooNew,
        ServerUnavailable,
        SettingsError,
        StoreCorrupt,
        StoreError,
        StoreUnavailable,
    )
    from evertick.executors.context import RunContext, StopRequested
    from evertick.library.events import Event
    from evertick.library.scheduler import Scheduler
    from evertick.model.duration import format_duration, parse_duration
    from evertick.model.job import Job
    from evertick.model.policy import Policy
    from evertick.model.work import Step
    from evertick.operations.results.jobs import Job as Schedule
    from evertick.operations.results.requests import Backfill
    from evertick.operations.results.requests import Why as Explanation
    from evertick.operations.results.runs import Run
    from evertick.operations.results.schedule import Fire as Upcoming
    from evertick.operations.results.system import Verification as Proof
    from evertick.planning.cron import Cron
    from evertick.settings import Settings

    __version__: str

__all__ = [
    "AccessDenied",
    "AuditUnavailable",
    "Backfill",
    "Client",
    "Conflict",
    "Cron",
    "CronError",
    "DefinitionError",
    "DurationError",
    "Event",
    "EvertickError",
    "ExecutorUnavailable",
    "Explanation",
    "Fenced",
    "Folder",
    "GapRefused",
    "InvalidArgument",
    "Job",
    "MemberUnavailable",
    "NotFound",
    "Parsed",
    "Policy",
    "Proof",
    "Run",
    "RunContext",
    "Schedule",
    "Scheduler",
    "SchedulerLockError",
    "SchemaTooNew",
    "ServerUnavailable",
    "Settings",
    "SettingsError",
    "Step",
    "StopRequested",
    "StoreCorrupt",
    "StoreError",
    "StoreUnavailable",
    "Upcoming",
    "format_duration",
    "load_folder",
    "parse_definition",
    "parse_duration",
]

_HOMES = {
    "evertick.client": ("Client",),
    "evertick.definitions.parsed_file": ("Parsed",),
    "evertick.definitions.parser": ("parse_definition",),
    "evertick.definitions.source": ("Folder", "load_folder"),
    "evertick.errors": (
        *("AccessDenied", "AuditUnavailable", "Conflict", "CronError", "DefinitionError"),
        *("DurationError", "EvertickError", "ExecutorUnavailable", "Fenced", "GapRefused"),
        *("InvalidArgument", "MemberUnavailable", "NotFound", "SchedulerLockError", "SchemaTooNew"),
        *("ServerUnavailable", "SettingsError", "StoreCorrupt", "StoreError", "StoreUnavailable"),
    ),
    "evertick.executors.context": ("RunContext", "StopRequested"),
    "evertick.library.events": ("Event",),
    "evertick.library.scheduler": ("Scheduler",),
    "evertick.model.duration": ("format_duration", "parse_duration"),
    "evertick.model.job": ("Job",),
    "evertick.model.policy": ("Policy",),
    "evertick.model.work": ("Step",),
    "evertick.operations.results.jobs": ("Schedule",),
    "evertick.operations.results.requests": ("Backfill", "Explanation"),
    "evertick.operations.results.runs": ("Run",),
    "evertick.operations.results.schedule": ("Upcoming",),
    "evertick.operations.results.system": ("Proof",),
    "evertick.planning.cron": ("Cron",),
    "evertick.settings": ("Settings",),
}
# Public name -> its name in its module, where that differs.
_NAMES = {"Explanation": "Why", "Proof": "Verification", "Schedule": "Job", "Upcoming": "Fire"}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import version

        return version("evertick")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'evertick' has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(_HOME_OF[name]), _NAMES.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
