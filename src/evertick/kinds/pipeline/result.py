"""The result of a pipeline: the answers, the output made of them, and whether it failed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evertick.kinds.pipeline.definition import ANY_ITEM, FailWhen


@dataclass(frozen=True, slots=True)
class ItemResult:
    item: Mapping[str, str]
    output: Mapping[str, object]
    success: bool
    raw_text: str | None = None
    """The whole answer, if no fields were requested."""
    error: str = ""
    raw_response: str | None = None
    has_timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Summary:
    total_items: int
    successful_items: int
    failed_items: int
    output_fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    results: tuple[ItemResult, ...]
    formatted: str
    summary: Summary


@dataclass(frozen=True, slots=True)
class FilterResult:
    included: int
    excluded: int
    errors: tuple[str, ...] = ()
    """Items left out because the filter got no usable answer; each counts as failed."""


@dataclass(frozen=True, slots=True)
class Stats:
    total_items: int = 0
    successful_maps: int = 0
    failed_maps: int = 0
    map_ms: int = 0
    reduce_ms: int = 0
    max_concurrency: int = 0


NO_STATS = Stats()


@dataclass(frozen=True, slots=True)
class PipelineResult:
    success: bool
    """False if the pipeline could not be completed; single items may have failed even if it was."""
    output: Output | None = None
    """None if there was nothing to do, or it was cancelled."""
    stats: Stats = NO_STATS
    total_ms: int = 0
    error: str = ""
    filtered: FilterResult | None = None
    is_cancelled: bool = False
    warnings: tuple[str, ...] = ()
    fail_when: FailWhen = ANY_ITEM

    @property
    def failed_items(self) -> int:
        """Items without an answer, in the filter or in the map."""
        failed = self.output.summary.failed_items if self.output else 0
        return failed + (len(self.filtered.errors) if self.filtered else 0)

    @property
    def failure(self) -> str | None:
        """Why the run failed; None if it did not."""
        if self.error:
            return self.error
        failed = self.failed_items
        total = (self.output.summary.total_items if self.output else 0) + (
            len(self.filtered.errors) if self.filtered else 0
        )
        if not self.fail_when.is_broken_by(failed, total):
            return None
        first = next((result.error for result in self.output.results if not result.success), "") if self.output else ""
        if not first and self.filtered:
            first = next(iter(self.filtered.errors), "")
        return f"{failed} of {total} items failed. First error: {first}"

    @property
    def formatted(self) -> str:
        return self.output.formatted if self.output else ""

    @property
    def items_processed(self) -> int:
        return self.output.summary.total_items if self.output else 0


def to_plain(result: PipelineResult) -> dict[str, object]:
    """The result as written to its file."""
    plain: dict[str, object] = {
        "success": result.success,
        "failure": result.failure,
        "itemsProcessed": result.items_processed,
        "output": _output(result.output) if result.output else None,
        "executionStats": {
            "totalItems": result.stats.total_items,
            "successfulMaps": result.stats.successful_maps,
            "failedMaps": result.stats.failed_maps,
            "mapPhaseTimeMs": result.stats.map_ms,
            "reducePhaseTimeMs": result.stats.reduce_ms,
            "maxConcurrency": result.stats.max_concurrency,
        },
        "totalTimeMs": result.total_ms,
    }
    if result.error:
        plain["error"] = result.error
    if result.filtered:
        plain["filterResult"] = {
            "includedCount": result.filtered.included,
            "excludedCount": result.filtered.excluded,
            "errors": list(result.filtered.errors),
        }
    if result.warnings:
        plain["warnings"] = list(result.warnings)
    return plain


def _output(output: Output) -> dict[str, object]:
    return {
        "results": [_item(result) for result in output.results],
        "formattedOutput": output.formatted,
        "summary": {
            "totalItems": output.summary.total_items,
            "successfulItems": output.summary.successful_items,
            "failedItems": output.summary.failed_items,
            "outputFields": list(output.summary.output_fields),
        },
    }


def _item(result: ItemResult) -> dict[str, object]:
    plain: dict[str, object] = {"item": dict(result.item), "output": dict(result.output), "success": result.success}
    if result.raw_text is not None:
        plain["rawText"] = result.raw_text
    if result.error:
        plain["error"] = result.error
    if result.raw_response is not None and result.raw_response != result.raw_text:
        plain["rawResponse"] = result.raw_response
    return plain
