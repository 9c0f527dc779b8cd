"""The program of a container step: a process that creates a Job, tracks it, and exits as its container does."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final, NamedTuple

from evertick.kinds import PAYLOAD_FD, Program, StepError
from evertick.kinds.kubernetes.cluster import Access
from evertick.kinds.kubernetes.manifest import job_manifest
from evertick.kinds.kubernetes.names import STEP_ROLE, annotations_of, job_name, labels_of
from evertick.model.run import RunKey
from evertick.model.work import Pod

CONTEXT: Final = "EVERTICK_KUBERNETES_CONTEXT"
NAMESPACE: Final = "EVERTICK_KUBERNETES_NAMESPACE"
INSTANCE: Final = "EVERTICK_KUBERNETES_INSTANCE"
START: Final = "EVERTICK_KUBERNETES_START_SECONDS"
KUBECONFIG: Final = "KUBECONFIG"
START_SECONDS: Final = 600.0
ACCESS: Final = (
    CONTEXT,
    NAMESPACE,
    INSTANCE,
    START,
    KUBECONFIG,
    "KUBERNETES_SERVICE_HOST",
    "KUBERNETES_SERVICE_PORT",
)
"""The scheduler's variables that select the cluster; the process of a container step gets them too."""


class StepId(NamedTuple):
    """Which step of which attempt."""

    key: RunKey
    attempt: int
    fence: int
    step: str


def program_of(
    pod: Pod,
    step_id: StepId,
    env: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    working_dir: str | None,
    timeout_us: int | None,
    grace_seconds: float,
) -> Program:
    """`env` is the container's environment, `environ` has the scheduler's variables about the cluster."""
    instance = environ.get(INSTANCE) or "evertick"
    access = Access(environ.get(KUBECONFIG) or None, environ.get(CONTEXT) or None, environ.get(NAMESPACE) or None)
    # Each try is another Job: the keeper counts the tries of a step, not the cluster.
    name = job_name(instance, step_id.key, step_id.attempt, step_id.step, secrets.token_hex(8))
    labels = labels_of(instance, step_id.key, STEP_ROLE, step_id.step)
    annotations = annotations_of(step_id.key, step_id.attempt, step_id.fence)
    manifest = job_manifest(
        pod,
        name=name,
        namespace=pod.namespace or "",
        labels=labels,
        annotations=annotations,
        env=env,
        working_dir=working_dir,
        timeout_us=timeout_us,
    )
    # The process must have ended its pod before it is killed itself.
    grace = max(1, int(grace_seconds) - 3)
    start = float(environ.get(START) or START_SECONDS)
    request = {
        "manifest": manifest,
        "access": asdict(access),
        "environ": dict(environ),
        "grace": grace,
        "start": start,
    }
    try:
        payload = json.dumps(request).encode()
    except (TypeError, ValueError) as error:
        raise StepError(f"its pod is not plain data: {error}.") from None
    argv = (sys.executable, "-P", "-m", "evertick.kinds.kubernetes", f"/dev/fd/{PAYLOAD_FD}")
    return Program(argv, payload=payload, has_exit_note=True)
