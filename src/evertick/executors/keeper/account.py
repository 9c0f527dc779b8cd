"""As whom the processes of a step run: the account that `user` names."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path
from typing import NamedTuple

from evertick.kinds import Unready


class Account(NamedTuple):
    name: str
    uid: int
    gid: int
    home: str
    shell: str

    @property
    def is_ours(self) -> bool:
        """Whether the keeper runs as it anyway."""
        return self.uid == os.geteuid()

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name, "SHELL": self.shell or "/bin/sh"}

    @property
    def groups(self) -> tuple[int, ...]:
        """All that it is a member of, its own included."""
        return tuple(os.getgrouplist(self.name, self.gid))

    @property
    def own_folder(self) -> str:
        """Its home, unless that is only a name, as with many accounts of services."""
        return self.home if os.path.isdir(self.home) else "/"

    def expanded(self, path: str) -> str:
        """A path as this account reads it: `~` is its own home."""
        return self.home + path[1:] if path == "~" or path.startswith("~/") else os.path.expanduser(path)

    def reaches(self, path: str) -> bool:
        """Whether it may enter every folder on the way to that file or folder, links followed."""
        groups = self.groups
        for folder in Path(os.path.realpath(path)).parents:
            found = folder.stat()
            owned = 6 if found.st_uid == self.uid else 3 if found.st_gid in groups else 0
            if not found.st_mode >> owned & stat.S_IXOTH and self.uid != 0:
                return False
        return True


def find_account(user: str) -> Account:
    """`Unready` says why nothing can run as that user here, and what to do."""
    try:
        entry = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    except (KeyError, OverflowError):
        raise Unready(f"this machine has no user {user!r}. Create it, or change 'user'.") from None
    account = Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir or "/", entry.pw_shell)
    if not account.is_ours and os.geteuid() != 0:
        raise Unready(
            f"it is to run as {account.name!r}, and only root can change the user: its keeper runs as "
            f"{_own_name()!r}. Start Evertick as root, or remove 'user'."
        )
    return account


def _own_name() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
