"""The process of a pipeline step: `python -m evertick.kinds.pipeline SPEC.json`.

The specification is JSON: `data` (what the pipeline's file says), `directory` (its folder), and if wanted
`resultFile`, `resultDescriptor`, `invoker`, `failWhen`, `workspace` and `parameters`. Progress goes to standard error,
the result to standard output and, with everything about it, to a file. Exit codes: 0 succeeded, 1 failed, 2 wrong
definition, 130 cancelled.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from evertick.errors import DefinitionError
from evertick.kinds.pipeline.definition import read_fail_when
from evertick.kinds.pipeline.invoker import await_calls
from evertick.kinds.pipeline.invokers import choose
from evertick.kinds.pipeline.result import PipelineResult, to_plain
from evertick.kinds.pipeline.run import Progress, run_pipeline
from evertick.kinds.pipeline.values import as_text
from evertick.model.plain_json import Json, object_in, text_in

SUCCEEDED, FAILED, WRONG, CANCELLED = 0, 1, 2, 130
FAIL_WHEN: Final = "EVERTICK_FAIL_WHEN"


RESULTS: Final = ".results"
CALLS_END_SECONDS: Final = 5
"""An aborted call has killed its program long before that."""


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        _log("usage: python -m evertick.kinds.pipeline SPEC.json")
        return WRONG
    signals: list[int] = []  # not an Event: a handler must not wait for a lock that its own thread holds
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    try:
        spec = _read_spec(arguments[0])
        directory = Path(text_in(spec, "directory") or ".")
        started_at = datetime.now(UTC)
        result, origin = _run(spec, directory, lambda: bool(signals))
    except DefinitionError as error:
        _log(f"error: {error}")
        return WRONG
    file = _write_result(result, directory, text_in(spec, "resultFile"), started_at, origin)
    if file is not None:
        _log(f"pipeline.result file={file} items={result.items_processed} failed={result.failed_items}")
    _write_output(result, file, spec.get("resultDescriptor"))
    _print(result.formatted)
    if result.is_cancelled:
        _log("pipeline.cancelled")
        return CANCELLED
    if result.failure is not None:
        _log(f"pipeline.failed reason={result.failure}")
        return FAILED
    return SUCCEEDED


def _run(spec: Mapping[str, Json], directory: Path, is_cancelled: Callable[[], bool]) -> tuple[PipelineResult, str]:
    data = object_in(spec, "data")
    threshold, field = spec.get("failWhen"), "failWhen"
    if threshold is None:
        threshold, field = os.environ.get(FAIL_WHEN) or None, FAIL_WHEN
    fail_when = None if threshold is None else read_fail_when(threshold, field)
    chosen = choose(data.get("invoker"), directory, setting=spec.get("invoker"))
    if chosen.warning:
        _log(f"WARNING: {chosen.warning}")
    result = run_pipeline(
        data,
        directory,
        chosen.invoker,
        on_progress=_log_progress,
        is_cancelled=is_cancelled,
        workspace=text_in(spec, "workspace"),
        fail_when=fail_when,
        parameters=_parameters(spec),
    )
    for warning in result.warnings:
        _log(f"WARNING: {warning}")
    await_calls(CALLS_END_SECONDS)
    return result, chosen.warning


def _parameters(spec: Mapping[str, Json]) -> dict[str, str]:
    given = spec.get("parameters") or {}
    if not isinstance(given, dict):
        raise DefinitionError("the specification's 'parameters' must be a map.", field="parameters")
    return {name: as_text(value) for name, value in given.items()}


def _read_spec(path: str) -> Mapping[str, Json]:
    try:
        spec = json.loads(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise DefinitionError(f"the specification {path} cannot be read: {error}.") from None
    if not isinstance(spec, dict) or not isinstance(spec.get("data"), dict):
        raise DefinitionError(f"the specification {path} has no 'data'.", field="data")
    if not isinstance(spec.get("directory"), str) or not Path(spec["directory"]).is_dir():
        raise DefinitionError(f"the specification {path} has no 'directory'.", field="directory")
    return spec


def _write_result(
    result: PipelineResult, directory: Path, wanted: str | None, started_at: datetime, warning: str
) -> str | None:
    """The file's name relative to the pipeline's folder; None if it could not be written, which fails nothing."""
    plain = {"startedAt": started_at.isoformat(timespec="milliseconds").replace("+00:00", "Z"), **to_plain(result)}
    if warning:
        plain["warnings"] = [warning, *result.warnings]
    # A lone surrogate becomes a JSON escape.
    text = json.dumps(plain, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    try:
        path = _free_path(directory, started_at) if wanted is None else directory / wanted
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        draft.write_bytes(text)
        draft.replace(path)
    except OSError as error:
        _log(f"WARNING: the result file could not be written: {error}")
        return None
    return os.path.relpath(path, directory)


def _write_output(result: PipelineResult, file: str | None, descriptor: object) -> None:
    """Write the output of the step: the part of the result that the ledger keeps."""
    if not isinstance(descriptor, int):
        return
    told = {
        "resultFile": file,
        "itemsProcessed": result.items_processed,
        "itemsFailed": result.failed_items,
        "failure": result.failure,
    }
    with open(descriptor, "w") as stream:
        json.dump(told, stream)


def _free_path(directory: Path, started_at: datetime) -> Path:
    """Named after the second of the start, with a number if that is taken."""
    folder = directory / RESULTS
    folder.mkdir(exist_ok=True)
    stem = started_at.strftime("%Y-%m-%dT%H-%M-%S")
    number = 1
    while True:
        path = folder / (f"{stem}.json" if number == 1 else f"{stem}-{number}.json")
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            number += 1
        else:
            return path


def _log_progress(progress: Progress) -> None:
    # About a hundred lines are enough.
    if progress.done < progress.total and progress.done % max(1, progress.total // 100):
        return
    _log(f"pipeline.progress phase={progress.phase} done={progress.done} total={progress.total}")


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _print(text: str) -> None:
    if text:
        sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
