"""Containers of this machine, through the API that Docker and Podman share."""

from __future__ import annotations

from typing import Final

SOCKET: Final = "EVERTICK_DOCKER_SOCKET"
MOUNTS: Final = "EVERTICK_DOCKER_MOUNTS"
AUTH_FILE: Final = "EVERTICK_DOCKER_AUTH_FILE"
ACCESS: Final = (SOCKET, MOUNTS, AUTH_FILE)
"""The variables by which the operator of a machine allows containers; its jobs do not inherit them."""
