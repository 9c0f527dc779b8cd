"""The time zone of this system, and which names are zones."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from evertick.errors import SettingsError

_LOCALTIME = Path("/etc/localtime")
_TIMEZONE = Path("/etc/timezone")
_NOT_ZONES = ("posix/", "right/", "localtime", "posixrules", "Factory")


def is_zone(name: str) -> bool:
    """Whether an IANA name is known here; a path or a copy made for other uses is not."""
    if name.startswith(_NOT_ZONES):
        return False
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def system_timezone(environ: Mapping[str, str] = os.environ) -> tuple[str, str]:
    """The name of this system's zone and where it was found; UTC if the system does not say."""
    written = environ.get("TZ", "").strip()
    if written:
        name = _name_in(written.removeprefix(":"))
        if not is_zone(name):
            raise SettingsError(
                f"TZ is {written!r}, which is not the name of a time zone. "
                "Set EVERTICK_TIMEZONE to an IANA name such as Europe/Berlin."
            )
        return name, "system (TZ)"
    # The link first: the C library uses it if the two disagree.
    for name in (_linked_zone(), _noted_zone()):
        if name and is_zone(name):
            return name, "system"
    return "UTC", "system (no zone set)"


def _linked_zone() -> str:
    return _name_in(str(_LOCALTIME.resolve())) if _LOCALTIME.is_symlink() else ""


def _noted_zone() -> str:
    try:
        return _TIMEZONE.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _name_in(path: str) -> str:
    return path.rpartition("/zoneinfo/")[2]
