"""The settings as everybody knows them: one frozen object, and how it is loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from evertick.settings.parts import Values


@dataclass(frozen=True, slots=True)
class Settings(Values):
    @classmethod
    def load(
        cls,
        folder: str | Path | None = None,
        environ: Mapping[str, str] = os.environ,
        overrides: Mapping[str, Any] = MappingProxyType({}),
    ) -> Settings:
        """From the defaults, evertick.toml, the environment and the options, the later ones going before.

        `overrides` are options by key (`store`, `loop.preread`), None where an option was not given; `config` names
        the file in place of EVERTICK_CONFIG and the folder's own. SettingsError tells everything that is wrong.
        """
        from evertick.settings.load import load

        return load(cls, Path(folder) if folder is not None else None, environ, overrides)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """Where no folder is known: the environment, and the file that it names."""
        return cls.load(None, environ)
