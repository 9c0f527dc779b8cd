"""Containers of this machine, through the API that Docker and Podman share."""

from __future__ import annotations

from typing import Final

SOCKET: Final = "EVERTICK_DOCKER_SOCKET"
MOUNTS: Final = "EVERTICK_DOCKER_MOUNTS"
ACCESS: Final = (SOCKET, MOUNTS)
"""The variables by which the operator of a machine allows containers; its jobs do not inherit them."""
