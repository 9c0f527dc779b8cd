"""How often, and after which wait, a failed run is retried."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

from evertick.definitions.catalogue.limits import RETRIES_MAX
from evertick.definitions.catalogue.words import BACKOFFS
from evertick.definitions.catalogue.work import RETRY
from evertick.definitions.fields.values import choice_of, duration_of, integer_of, share_of
from evertick.definitions.nodes import Node
from evertick.definitions.report import Report, Section, section_of
from evertick.model.instant import DAY, MILLISECOND
from evertick.model.job import DEFAULT_ORIGIN, Origin
from evertick.model.policy import Retry
from evertick.model.work import NO_RETRY

PIPELINE_RETRIES = 3
"""The default of a pipeline file; a job file has none, in every form of its schedule."""
PIPELINE_DEFAULT = Origin(note="default of a pipeline file")

_DELAY_MS_MAX = 365 * DAY // MILLISECOND
_TRIES = ("maxRetries", "limit")
_DELAYS = ("retryDelay", "interval", "retryDelayMs")


def read_retry(
    job: Section, block: Section | None, is_pipeline: bool, report: Report
) -> tuple[Retry, dict[str, Origin]]:
    """`retryPolicy` of the job or of its schedule block, or `maxRetries` alone."""
    retry = Retry(max_retries=PIPELINE_RETRIES if is_pipeline else 0)
    values = ("max_retries", "delay", "backoff", "max_delay", "jitter")
    origins = {f"retry.{name}": PIPELINE_DEFAULT if is_pipeline else DEFAULT_ORIGIN for name in values}
    for section in (job, block):
        node = section.take("retryPolicy") if section else None
        if section is None or node is None:
            continue
        retry = _read_map(node, section.field("retryPolicy"), retry, origins, is_pipeline, report)
    return _read_tries(job, ("maxRetries",), retry, origins, report), origins


def read_step_retry(section: Section, report: Report) -> Retry:
    """`retryPolicy` of a step; without one it is not retried."""
    node = section.take("retryPolicy")
    return _read_map(node, section.field("retryPolicy"), NO_RETRY, {}, False, report) if node else NO_RETRY


def _read_map(
    node: Node, path: str, retry: Retry, origins: dict[str, Origin], is_pipeline: bool, report: Report
) -> Retry:
    fields = section_of(node, path, report, RETRY, "retryPolicy: {maxRetries: 3, retryDelay: 60s}")
    if fields is None:
        return retry
    retry = _read_tries(fields, _TRIES, _read_waits(fields, retry, origins, report), origins, report)
    fields.contradict(*_TRIES, "")
    fields.finish(f"'{path}'")
    if not is_pipeline and not any(name in fields for name in _TRIES):
        report.warn(node, path, f"'{path}' does not say how often; nothing is retried.", "Add 'maxRetries'.")
    return retry


def _read_tries(
    fields: Section, names: tuple[str, ...], retry: Retry, origins: dict[str, Origin], report: Report
) -> Retry:
    for name in names:
        node = fields.take(name)
        count = integer_of(node, fields.field(name), report, 0, RETRIES_MAX) if node else None
        if node is not None and count is not None:
            origins["retry.max_retries"] = report.origin(node)
            retry = replace(retry, max_retries=count)
    return retry


def _read_waits(fields: Section, retry: Retry, origins: dict[str, Origin], report: Report) -> Retry:
    for name in _DELAYS:
        if (node := fields.take(name)) is not None:
            delay_us = (
                duration_of(node, fields.field(name), report)
                if name != "retryDelayMs"
                else _in_microseconds(integer_of(node, fields.field(name), report, 0, _DELAY_MS_MAX))
            )
            retry = retry if delay_us is None else replace(retry, delay_us=delay_us)
            origins["retry.delay"] = report.origin(node)
    if (node := fields.take("backoff")) is not None:
        backoff = choice_of(node, fields.field("backoff"), report, BACKOFFS)
        retry = retry if backoff is None else replace(retry, backoff=backoff)
        origins["retry.backoff"] = report.origin(node)
    if (node := fields.take("maxDelay")) is not None:
        cap_us = duration_of(node, fields.field("maxDelay"), report)
        retry = retry if cap_us is None else replace(retry, cap_us=cap_us)
        origins["retry.max_delay"] = report.origin(node)
    if (node := fields.take("jitter")) is not None:
        jitter = share_of(node, fields.field("jitter"), report)
        retry = retry if jitter is None else replace(retry, jitter=jitter)
        origins["retry.jitter"] = report.origin(node)
    for first, second in combinations(_DELAYS, 2):
        fields.contradict(first, second, "")
    return retry


def _in_microseconds(delay_ms: int | None) -> int | None:
    return None if delay_ms is None else delay_ms * MILLISECOND
