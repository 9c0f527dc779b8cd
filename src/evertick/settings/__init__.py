"""The settings of Evertick, outside of any job.

`parts.py` is the table: every setting with its kind, default and meaning. The loader, its errors, the listing and the
page of the documentation are made from it.
"""

from evertick.settings.load import Settings
from evertick.settings.zone import is_zone, system_timezone

__all__ = ["Settings", "is_zone", "system_timezone"]
