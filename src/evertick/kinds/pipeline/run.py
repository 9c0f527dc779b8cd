"""Runs a pipeline: load, filter, map, reduce."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from evertick.kinds.pipeline.answers import Unparsable, parse_answer, parse_object, parse_rows
from evertick.kinds.pipeline.definition import (
    ANY_ITEM,
    Definition,
    FailWhen,
    Generate,
    Map,
    Reduce,
    Single,
    read_definition,
)
from evertick.kinds.pipeline.filter import apply_filter
from evertick.kinds.pipeline.invoker import Answer, Caller, Cancelled, Invoker, Question, TimedOut
from evertick.kinds.pipeline.items import Item, RawItem, check_variables, load_items, written
from evertick.kinds.pipeline.mapper import Mapper
from evertick.kinds.pipeline.prompts import render, resolve, to_json, with_fields, with_rows
from evertick.kinds.pipeline.reduce import FORMATS, reduce_values, summarise
from evertick.kinds.pipeline.result import FilterResult, ItemResult, Output, PipelineResult, Stats, Summary
from evertick.kinds.pipeline.values import as_text

PARALLEL_MANY = 10
"""Above this a warning is printed: services answer 429 rather than faster."""


class Progress(NamedTuple):
    phase: str
    """`input`, `filter`, `map`, `reduce` or `job`."""
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class _Run:
    """What the phases share."""

    definition: Definition
    caller: Caller
    directory: Path
    workspace: Path
    report: Callable[[Progress], object]
    clock: Callable[[], float]
    given: Mapping[str, str]
    """Parameters of this run."""

    @property
    def working_dir(self) -> str:
        return str(self.directory / (self.definition.working_dir or ""))

    def since_ms(self, start: float) -> int:
        return max(0, round((self.clock() - start) * 1_000))


def run_pipeline(
    data: Mapping[str, object],
    directory: str | os.PathLike[str],
    invoker: Invoker,
    *,
    on_progress: Callable[[Progress], object] | None = None,
    is_cancelled: Callable[[], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
    workspace: str | os.PathLike[str] | None = None,
    fail_when: FailWhen | None = None,
    parameters: Mapping[str, str] | None = None,
) -> PipelineResult:
    """Run a pipeline; `result.failure` says whether it failed.

    An error in the definition, its prompts or its CSV file is raised as `DefinitionError`. `invoker` and
    `is_cancelled` are called from several threads. `parameters` stand above those that the pipeline writes.
    """
    start = clock()
    place = Path(directory).absolute()
    root = Path(workspace) if workspace is not None else place.joinpath("..", "..", "..").resolve()
    definition = read_definition(data)
    report = on_progress if on_progress is not None else _ignore
    run = _Run(definition, Caller(invoker, is_cancelled), place, root, report, clock, parameters or {})
    try:
        result = _run(run)
    except Cancelled as error:
        result = PipelineResult(False, error=str(error), is_cancelled=True)
    judged_by = definition.fail_when or fail_when or ANY_ITEM
    return replace(result, total_ms=run.since_ms(start), fail_when=judged_by)


def _ignore(_progress: Progress) -> None:
    pass


def _run(run: _Run) -> PipelineResult:
    definition = run.definition
    if definition.single is not None:
        return _ask_once(run, definition.single)
    assert definition.input is not None
    assert definition.map is not None
    assert definition.reduce is not None
    map_prompt = resolve(definition.map.prompt, run.directory, run.workspace)
    reducing = definition.reduce
    reduce_prompt = resolve(reducing.prompt, run.directory, run.workspace) if reducing.prompt else None
    generated: Sequence[RawItem] = ()
    if definition.input.generate is not None:
        generated, problem = _generate(run, definition.input.generate)
        if problem:
            return PipelineResult(False, error=problem)
    items = load_items(replace(definition.input, parameters=_parameters(run)), run.directory, generated)
    check_variables(map_prompt, items, "map.prompt")
    run.report(Progress("input", len(items), len(items)))

    found = PipelineResult(True, warnings=_warnings(definition.map, map_prompt))
    if definition.filter is not None:
        kept, errors = apply_filter(definition.filter, items, run.caller, run.working_dir)
        found = replace(found, filtered=FilterResult(len(kept), len(items) - len(kept), errors))
        run.report(Progress("filter", len(kept), len(items)))
        items = kept
    if not items and not definition.map.is_batched:
        return found

    start = run.clock()
    results = _map(run, definition.map, map_prompt, [written(item) for item in items])
    return _finish(run, found, definition.map, results, run.since_ms(start), reducing, reduce_prompt)


def _map(run: _Run, wanted: Map, prompt: str, items: Sequence[Item]) -> list[ItemResult]:
    mapper = Mapper(wanted, prompt, run.caller, run.working_dir)
    map_items = mapper.map_batches if wanted.is_batched else mapper.map_items
    return map_items(items, lambda done: run.report(Progress("map", done, len(items))))


def _finish(
    run: _Run,
    found: PipelineResult,
    wanted: Map,
    results: Sequence[ItemResult],
    map_ms: int,
    reducing: Reduce,
    reduce_prompt: str | None,
) -> PipelineResult:
    """The answers, the output made of them, and whether the pipeline was completed."""
    start = run.clock()
    summary = summarise(results, wanted.fields)
    stats = _stats(results, summary, wanted, map_ms)
    # A timeout or a failed batch fails the pipeline; a bad answer fails only its item.
    is_sound = stats.failed_maps == 0
    found = replace(found, success=is_sound, output=Output(tuple(results), "", summary), stats=stats)
    try:
        run.caller.check()
        output = _reduce(run, reducing, reduce_prompt, results, summary)
    except ReduceFailed as error:
        return replace(found, success=False, error=f"Reduce phase failed: {error}")
    except Cancelled as error:
        if not wanted.is_batched:
            raise
        return replace(found, success=False, error=str(error), is_cancelled=True)
    run.report(Progress("reduce", 1, 1))
    return replace(found, output=output, stats=replace(stats, reduce_ms=run.since_ms(start)))


class ReduceFailed(Exception):
    """The items were mapped, but the reduce phase failed."""


def _reduce(
    run: _Run,
    wanted: Reduce,
    prompt: str | None,
    results: Sequence[ItemResult],
    summary: Summary,
) -> Output:
    if prompt is None:
        return Output(tuple(results), FORMATS[wanted.type](results, summary), summary)
    values = reduce_values(results, summary, _parameters(run))
    with tempfile.TemporaryDirectory(prefix="evertick-") as folder:
        if "{{RESULTS_FILE}}" in prompt:
            file = Path(folder) / "results.json"
            file.write_text(values["RESULTS"], encoding="utf-8", errors="backslashreplace")
            values["RESULTS_FILE"] = str(file)
        text = with_fields(render(prompt, values, keeps_unknown=True), wanted.fields)
        question = Question(text, wanted.fields, model=wanted.model, directory=run.working_dir)
        try:
            answer = run.caller.ask(question, wanted.timeout_ms)
        except TimedOut as error:
            raise ReduceFailed(f"AI reduce {error}") from None
    if not answer.success or not answer.response:
        raise ReduceFailed(f"AI reduce failed: {answer.error or 'Unknown error'}")
    if not wanted.fields:
        return Output(tuple(results), answer.response, replace(summary, output_fields=()))
    is_batch = run.definition.map is not None and run.definition.map.is_batched
    try:
        found = (parse_object if is_batch else parse_answer)(answer.response, wanted.fields)
    except Unparsable as error:
        raise ReduceFailed(f"Failed to parse AI reduce response: {error}") from None
    return Output(tuple(results), to_json(found), replace(summary, output_fields=wanted.fields))


def _ask_once(run: _Run, wanted: Single) -> PipelineResult:
    parameters = _parameters(run)
    prompt = resolve(wanted.prompt, run.directory, run.workspace)
    check_variables(prompt, [parameters], "job.prompt")
    start = run.clock()
    model = render(wanted.model, parameters).strip() or None if wanted.model else None
    text = with_fields(render(prompt, parameters), wanted.fields)
    question = Question(text, wanted.fields, model=model, directory=run.working_dir)
    try:
        answer = run.caller.ask(question, wanted.timeout_ms)
    except TimedOut as error:
        answer = Answer(False, error=f"AI job {error}")
    output: Mapping[str, object] = {}
    problem = "" if answer.success and answer.response else answer.error or "AI invocation failed"
    if not problem and wanted.fields:
        try:
            output = parse_object(answer.response, wanted.fields)
        except Unparsable as error:
            problem = f"Failed to parse AI response: {error}"
    run.report(Progress("job", 1, 1))
    result = ItemResult(
        parameters,
        output or dict.fromkeys(wanted.fields),
        not problem,
        None if wanted.fields else answer.response or None,
        problem,
        answer.response or None,
    )
    formatted = "" if problem else to_json(output) if wanted.fields else answer.response
    summary = summarise([result], wanted.fields)
    stats = Stats(1, summary.successful_items, summary.failed_items, run.since_ms(start), 0, 1)
    return PipelineResult(not problem, Output((result,), formatted, summary), stats, error=problem)


def _generate(run: _Run, wanted: Generate) -> tuple[Sequence[RawItem], str]:
    """Items from the invoker: missing fields are empty, values are texts."""
    prompt = with_rows(render(wanted.prompt, _parameters(run), keeps_unknown=True), wanted.fields)
    question = Question(prompt, wanted.fields, GENERATED_STUBS, wanted.model, run.working_dir)
    try:
        answer = run.caller.ask(question, run.definition.map.timeout_ms if run.definition.map else 600_000)
        if not answer.success:
            return (), f"Failed to generate input: {answer.error or 'AI invocation failed'}"
        rows = parse_rows(answer.response)
    except (TimedOut, Unparsable) as error:
        return (), f"Failed to generate input: {error}"
    return [{name: as_text(row.get(name)) for name in wanted.fields} for row in rows], ""


GENERATED_STUBS = 2
"""Items that a dry run generates."""


def _parameters(run: _Run) -> dict[str, str]:
    written_there = run.definition.input.parameters if run.definition.input else None
    return {**(run.definition.parameters or {}), **(written_there or {}), **run.given}


def _stats(results: Sequence[ItemResult], summary: Summary, wanted: Map, map_ms: int) -> Stats:
    """Counts calls without an answer; the summary counts bad answers."""
    failed = summary.failed_items if wanted.is_batched else sum(result.has_timed_out for result in results)
    return Stats(len(results), len(results) - failed, failed, map_ms, 0, wanted.parallel)


def _warnings(wanted: Map, prompt: str) -> tuple[str, ...]:
    found = []
    if wanted.is_batched and "{{ITEMS}}" not in prompt:
        found.append("map.batchSize is above 1 and the prompt has no {{ITEMS}}: the prompt does not contain the batch.")
    if wanted.is_batched and not wanted.fields:
        found.append("map.batchSize is above 1 without map.output: every item of a batch gets the whole answer.")
    if wanted.parallel > PARALLEL_MANY:
        found.append(
            f"map.parallel is {wanted.parallel}; many services reject more than {PARALLEL_MANY} calls at once."
        )
    return tuple(found)
