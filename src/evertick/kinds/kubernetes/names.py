"""Names, labels and annotations of Jobs: the same for an attempt on every node, different for every attempt."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Final

from evertick.model.run import RunKey

PREFIX: Final = "evertick/"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "evertick"
INSTANCE: Final = PREFIX + "instance"
ROLE: Final = PREFIX + "role"
JOB: Final = PREFIX + "job"
RUN: Final = PREFIX + "run"
STEP: Final = PREFIX + "step"
RUN_ID: Final = PREFIX + "run-id"
ATTEMPT: Final = PREFIX + "attempt"
FENCE: Final = PREFIX + "fence"
STOPPED: Final = PREFIX + "stopped"
"""An annotation: why the attempt is ended. It outlives the scheduler that set it."""
REPORTED: Final = PREFIX + "told"
"""An annotation: the result was reported."""

JOB_NAME: Final = "batch.kubernetes.io/job-name"
"""The cluster's own label for the Job of a pod."""

ATTEMPT_ROLE: Final = "attempt"
"""The Job is a whole attempt of a run; the scheduler's executor tracks it."""
STEP_ROLE: Final = "step"
"""The Job is one step of an attempt that runs elsewhere; a process of that attempt tracks it."""

LABEL_MAX: Final = 63
_DIGEST: Final = 20
"""Hexadecimal digits; 80 bits, so that a thousand runs a second for a century do not collide."""
_FOREIGN: Final = re.compile(r"[^a-z0-9]+")


def job_name(instance: str, key: RunKey, attempt: int, step: str = "", number: str = "") -> str:
    """The name of a Job; the cluster answers a second creation with 409."""
    tail = f"-{digest_of(instance, *key, attempt, step, number)}"
    return (slug_of(key.job_id, LABEL_MAX - len(tail)) or "job") + tail


def labels_of(instance: str, key: RunKey, role: str, step: str = "") -> dict[str, str]:
    """The labels of Jobs and pods; the exact values are in the annotations, because labels are short."""
    labels = {
        MANAGED_BY: MANAGER,
        INSTANCE: instance,
        ROLE: role,
        JOB: slug_of(key.job_id, LABEL_MAX) or "job",
        RUN: digest_of(*key),
    }
    if step:
        labels[STEP] = digest_of(step)
    return labels


def annotations_of(key: RunKey, attempt: int, fence: int) -> dict[str, str]:
    return {RUN_ID: key.run_id, ATTEMPT: str(attempt), FENCE: str(fence)}


def selector_of(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def slug_of(text: str, longest: int) -> str:
    """A text reduced to a-z, 0-9 and single dashes."""
    return _FOREIGN.sub("-", text.lower()).strip("-")[:longest].strip("-")


def digest_of(*parts: object) -> str:
    # As JSON, so that different lists of parts never give the same text.
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
