"""The program of a pipeline step: a process that reads the pipeline and prints its result."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from evertick.kinds import PAYLOAD_FD, RESULT_FD, Program, StepError
from evertick.kinds.pipeline.values import plain_of
from evertick.kinds.python import interpreter_folders
from evertick.model.work import Pipeline


def pipeline_program(
    pipeline: Pipeline,
    folder: str | None,
    params: Mapping[str, str] | None = None,
    result_file: str | None = None,
    *,
    has_result: bool = False,
) -> Program:
    """`folder` is the pipeline's; without one, the working folder of the process."""
    spec: dict[str, object] = {"data": plain_of(pipeline.data), "directory": folder or ".", "parameters": params or {}}
    wanted = result_file or pipeline.data.get("resultFile")
    if wanted is not None:
        spec["resultFile"] = str(wanted)
    if has_result:
        spec["resultDescriptor"] = RESULT_FD
    try:
        payload = json.dumps(spec).encode()
    except (TypeError, ValueError) as error:
        raise StepError(f"its pipeline is not plain data: {error}.") from None
    # -P: files in the working folder must not shadow the standard library.
    argv = (sys.executable, "-P", "-m", "evertick.kinds.pipeline", f"/dev/fd/{PAYLOAD_FD}")
    package = str(Path(__file__).parents[2])
    return Program(argv, payload=payload, has_result=has_result, reads=(*interpreter_folders(), package))
