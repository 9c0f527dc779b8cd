"""The account that a step runs as, named by `user`."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import NamedTuple

from evertick.kinds import StepError


class Account(NamedTuple):
    name: str
    uid: int
    gid: int
    home: str
    shell: str

    @property
    def is_ours(self) -> bool:
        """Whether the keeper itself runs as this account."""
        return self.uid == os.geteuid()

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell or "/bin/sh"}

    @property
    def groups(self) -> tuple[int, ...]:
        """All groups of the account, its own included."""
        return tuple(os.getgrouplist(self.name, self.gid))

    @property
    def own_folder(self) -> str:
        """Its home; `/` where that does not exist, as with many service accounts."""
        return self.home if os.path.isdir(self.home) else "/"

    def expanded(self, path: str) -> str:
        """Expand `~` to this account's home."""
        return self.home + path[1:] if path == "~" or path.startswith("~/") else os.path.expanduser(path)

    def reaches(self, path: str) -> bool:
        """Whether it may enter every folder on the path, symbolic links followed."""
        groups = self.groups
        for folder in Path(os.path.realpath(path)).parents:
            found = folder.stat()
            owned = 6 if found.st_uid == self.uid else 3 if found.st_gid in groups else 0
            if not found.st_mode >> owned & stat.S_IXOTH and self.uid != 0:
                return False
        return True


def find_account(user: str) -> Account:
    """Raises `StepError` if nothing can run as that user here."""
    try:
        entry = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError):
        raise StepError(f"this machine has no user {user!r}. Create it, or change 'user'.") from None
    account = Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir or "/", entry.pw_shell)
    if not account.is_ours and os.geteuid() != 0:
        raise StepError(
            f"its user is {account.name!r}, but only root can change the user, and its keeper runs as "
            f"{_own_name()!r}. Start Evertick as root, or remove 'user'."
        )
    return account


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
