"""How often, and after which wait, a failed run is tried again."""

from __future__ import annotations

from dataclasses import replace

from evertick.definitions.fields.values import choice_of, duration_of, integer_of, share_of
from evertick.definitions.report import Report, Section, section_of
from evertick.model.instant import DAY, MILLISECOND
from evertick.model.policy import Backoff, Retry

RETRIES_MAX = 1_000
BLOCK_RETRIES = 3
"""What the block form gives where nothing is written."""

_BACKOFFS = {str(word): word for word in Backoff}
_DELAY_MS_MAX = 365 * DAY // MILLISECOND


def read_retry(job: Section, block: Section | None, is_block: bool, report: Report) -> tuple[Retry, dict[str, str]]:
    """`retryPolicy` of the job or of its schedule block, or `maxRetries` alone."""
    retry = Retry(max_retries=BLOCK_RETRIES if is_block else 0)
    values = ("max_retries", "delay", "backoff", "max_delay", "jitter")
    origins = {f"retry.{name}": "default of the block form" if is_block else "default" for name in values}
    for section in (job, block):
        node = section.take("retryPolicy") if section else None
        if section is None or node is None:
            continue
        fields = section_of(node, section.field("retryPolicy"), report, "retryPolicy: {maxRetries: 3, retryDelay: 60s}")
        if fields is None:
            continue
        retry = _read_tries(fields, _read_waits(fields, retry, origins, report), origins, report)
        fields.finish(f"'{fields.path}'")
        if not is_block and "maxRetries" not in fields:
            reason = f"'{fields.path}' does not say how often; nothing is retried."
            report.warn(node, fields.path, reason, "Add 'maxRetries'.")
    return _read_tries(job, retry, origins, report), origins


def _read_tries(fields: Section, retry: Retry, origins: dict[str, str], report: Report) -> Retry:
    node = fields.take("maxRetries")
    count = integer_of(node, fields.field("maxRetries"), report, 0, RETRIES_MAX) if node else None
    if node is None or count is None:
        return retry
    origins["retry.max_retries"] = report.origin(node)
    return replace(retry, max_retries=count)


def _read_waits(fields: Section, retry: Retry, origins: dict[str, str], report: Report) -> Retry:
    for name in ("retryDelay", "retryDelayMs"):
        if (node := fields.take(name)) is not None:
            delay_us = (
                duration_of(node, fields.field(name), report)
                if name == "retryDelay"
                else _in_microseconds(integer_of(node, fields.field(name), report, 0, _DELAY_MS_MAX))
            )
            retry = retry if delay_us is None else replace(retry, delay_us=delay_us)
            origins["retry.delay"] = report.origin(node)
    if (node := fields.take("backoff")) is not None:
        backoff = choice_of(node, fields.field("backoff"), report, _BACKOFFS)
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
    if "retryDelay" in fields and "retryDelayMs" in fields:
        one, two = sorted(
            (fields.key("retryDelay"), fields.key("retryDelayMs")), key=lambda key: (key.line, key.column)
        )
        reason = f"'{one.text}' on line {one.line} and '{two.text}' on line {two.line} contradict each other."
        report.error(two, fields.field(two.text), reason, "Remove one of them.")
    return retry


def _in_microseconds(delay_ms: int | None) -> int | None:
    return None if delay_ms is None else delay_ms * MILLISECOND
