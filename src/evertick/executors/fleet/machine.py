"""Detects the resources of this machine, or of its container: CPU, memory and GPUs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import psutil

from evertick.model.resources import CPU, GPUS, MEMORY, THOUSAND, Resources, resources_of

_CGROUP: Final = Path("/sys/fs/cgroup")
_NVIDIA: Final = Path("/proc/driver/nvidia/gpus")


def detect_resources(cgroup: Path = _CGROUP, nvidia: Path = _NVIDIA) -> Resources:
    """cpu, memory and NVIDIA's gpus."""
    cpu = len(os.sched_getaffinity(0)) * THOUSAND
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        cpu = min(cpu, int(quota) * THOUSAND // int(period))
    memory = psutil.virtual_memory().total
    limit = _read(cgroup / "memory.max")
    if limit.isdigit():
        memory = min(memory, int(limit))
    gpus = len(list(nvidia.iterdir())) if nvidia.is_dir() else 0
    return resources_of({CPU: cpu, MEMORY: memory, GPUS: gpus * THOUSAND})


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
