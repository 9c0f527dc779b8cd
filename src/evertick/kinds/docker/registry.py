"""Which login an image is fetched with: that of the step, or one in a file as `docker login` and `podman login` write.

An engine receives it with the request and passes it on to the registry of the image, and to no other.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

DEFAULT_REGISTRY: Final = "docker.io"
_HUB: Final = ("docker.io", "index.docker.io", "registry-1.docker.io")
"""The names of one registry; Docker writes the second, as an address."""
FILE_MAX: Final = 1024 * 1024


class Login(NamedTuple):
    username: str
    password: str
    token: str = ""
    """An identity token instead of both."""

    def header(self, image: str) -> str:
        """The value of `X-Registry-Auth`."""
        named = {"identitytoken": self.token} if self.token else {"username": self.username, "password": self.password}
        text = json.dumps({**named, "serveraddress": registry_of(image)})
        return base64.urlsafe_b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")


class LoginFileError(Exception):
    """The file of logins cannot be used; the text says why."""


def registry_of(image: str) -> str:
    """`ghcr.io` of `ghcr.io/acme/report:1`; an image without one is Docker Hub's."""
    first, slash, _ = image.partition("/")
    return first if slash and (first == "localhost" or "." in first or ":" in first) else DEFAULT_REGISTRY


def read_login_file(path: str, image: str) -> Login | None:
    """The login for an image; None: the file has none for it."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(FILE_MAX))
        entries = {_key(str(name)): entry for name, entry in (found.get("auths") or {}).items()}
        helpers = tuple(map(str, found.get("credHelpers") or ()))
    except OSError as error:
        raise LoginFileError(f"the file of logins {path!r} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise LoginFileError(f"the file of logins {path!r} is not one of Docker or Podman.") from None
    for name in _names(image):
        login = _login(entries.get(name), path, name)
        if login is not None:
            return login
    if registry_of(image) in helpers or (found.get("credsStore") and not entries):
        raise LoginFileError(
            f"the file of logins {path!r} has the login for {registry_of(image)} in a credential helper, which is not "
            "asked. Write 'registry' in the step instead."
        )
    return None


def _names(image: str) -> Iterator[str]:
    """The keys that an image may have, the most specific first: Podman's files may name a part of a registry."""
    registry = registry_of(image)
    path = image.partition("@")[0]
    head, _, tail = path.rpartition("/")
    path = f"{head}/{tail.partition(':')[0]}" if head else tail.partition(":")[0]
    if registry == DEFAULT_REGISTRY:
        path = path.removeprefix(f"{DEFAULT_REGISTRY}/")
        path = f"{DEFAULT_REGISTRY}/{path}"
    while path:
        yield path
        path = path.rpartition("/")[0]


def _key(name: str) -> str:
    """`ghcr.io` of `https://ghcr.io/v2/`; parts of a registry are kept."""
    bare = name.partition("://")[2] or name
    bare = bare.rstrip("/")
    for version in ("/v1", "/v2"):
        bare = bare.removesuffix(version)
    host, slash, rest = bare.partition("/")
    return (DEFAULT_REGISTRY if host in _HUB else host) + slash + rest


def _login(entry: object, path: str, name: str) -> Login | None:
    if not isinstance(entry, Mapping):
        return None
    if entry.get("identitytoken"):
        return Login("", "", str(entry["identitytoken"]))
    if entry.get("auth"):
        try:
            username, colon, password = base64.b64decode(str(entry["auth"])).decode().partition(":")
        except ValueError:
            colon = ""
        if not colon:
            raise LoginFileError(f"the file of logins {path!r}: the login for {name} is damaged. Log in again.")
        return Login(username, password.rstrip("\0"))
    if entry.get("username"):
        return Login(str(entry["username"]), str(entry.get("password") or ""))
    return None
