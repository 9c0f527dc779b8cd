"""Whether a definition gives the policy of the contract about time, and names the place of each rule."""

from __future__ import annotations

import pytest

from evertick.definitions.parser import parse_definition
from evertick.model.definition import definition_text
from evertick.model.instant import HOUR, MINUTE, SECOND
from evertick.model.policy import Missed, Overlap, OverlapKind, Policy, Retry
from evertick.operations.rules import explain

PLAIN = "schedule: '@hourly'\ncommand: x\n"
BLOCK = "schedule:\n  cron: '@hourly'\n{block}command: x\n"


def policy_of(extra: str = "", block: str | None = None) -> Policy:
    text = (PLAIN if block is None else BLOCK.format(block=block)) + extra
    result = parse_definition(text, "jobs/report.yaml")
    assert [str(error) for error in result.errors] == []
    assert result.job is not None
    return result.job.policy


WAIT, SKIP, LATEST, REPLACE = (Overlap(OverlapKind(word)) for word in ("wait", "skip", "latest", "replace"))


@pytest.mark.parametrize(
    ("written", "missed", "window_us", "overlap"),
    [
        pytest.param("", Missed.NONE, None, SKIP, id="nothing"),
        pytest.param("catchupWindow: 6h", Missed.FIRST, 6 * HOUR, SKIP, id="catchupWindow alone"),
        pytest.param("catchupWindow: 6h\noverlapPolicy: skip", Missed.FIRST, 6 * HOUR, SKIP, id="overlapPolicy skip"),
        pytest.param("catchupWindow: 6h\noverlapPolicy: all", Missed.ALL, 6 * HOUR, WAIT, id="overlapPolicy all"),
        pytest.param(
            "catchupWindow: 6h\noverlapPolicy: latest", Missed.LATEST, 6 * HOUR, LATEST, id="overlapPolicy latest"
        ),
        pytest.param(
            "catchupWindow: 6h\noverlap: wait",
            Missed.FIRST,
            6 * HOUR,
            WAIT,
            id="catchupWindow with an overlap of its own",
        ),
        pytest.param("misfire: DO_NOTHING", Missed.NONE, None, SKIP, id="misfire DO_NOTHING"),
        pytest.param("misfire: FIRE_ONCE_NOW", Missed.LATEST, None, SKIP, id="misfire FIRE_ONCE_NOW"),
        pytest.param("missed: none", Missed.NONE, None, SKIP, id="missed none"),
        pytest.param("missed: first", Missed.FIRST, None, SKIP, id="missed first"),
        pytest.param("missed: latest", Missed.LATEST, None, SKIP, id="missed latest"),
        pytest.param("missed: all\ncatchupWindow: 1h", Missed.ALL, HOUR, SKIP, id="missed all within a window"),
        pytest.param("overlap: skip", Missed.NONE, None, SKIP, id="overlap skip"),
        pytest.param("overlap: wait", Missed.NONE, None, WAIT, id="overlap wait"),
        pytest.param("overlap: latest", Missed.NONE, None, LATEST, id="overlap latest"),
        pytest.param("overlap: replace", Missed.NONE, None, REPLACE, id="overlap replace"),
        pytest.param(
            "overlap: parallel(3)", Missed.NONE, None, Overlap(OverlapKind.PARALLEL, 3), id="overlap parallel"
        ),
        pytest.param("blockStrategy: SERIAL", Missed.NONE, None, WAIT, id="blockStrategy SERIAL"),
        pytest.param("blockStrategy: DISCARD", Missed.NONE, None, SKIP, id="blockStrategy DISCARD"),
        pytest.param("blockStrategy: COVER", Missed.NONE, None, REPLACE, id="blockStrategy COVER"),
        pytest.param(
            "blockStrategy: CONCURRENT(4)",
            Missed.NONE,
            None,
            Overlap(OverlapKind.PARALLEL, 4),
            id="blockStrategy CONCURRENT",
        ),
        pytest.param("blockStrategy: SERIAL_EXECUTION", Missed.NONE, None, WAIT, id="XXL-JOB's word for SERIAL"),
        pytest.param("blockStrategy: DISCARD_LATER", Missed.NONE, None, SKIP, id="XXL-JOB's word for DISCARD"),
        pytest.param("blockStrategy: cover-early", Missed.NONE, None, REPLACE, id="XXL-JOB's word for COVER"),
        pytest.param("blockStrategy: serial", Missed.NONE, None, WAIT, id="letter case does not matter"),
        pytest.param("overlap: ' wait '", Missed.NONE, None, WAIT, id="nor do blanks around an overlap"),
        pytest.param("blockStrategy: ' SERIAL '", Missed.NONE, None, WAIT, id="nor around a block strategy"),
        pytest.param("missed: ' latest '", Missed.LATEST, None, SKIP, id="nor around missed"),
        pytest.param("misfire: ' FIRE_ONCE_NOW '", Missed.LATEST, None, SKIP, id="nor around a misfire strategy"),
        pytest.param(
            "catchupWindow: 6h\noverlapPolicy: ' all '", Missed.ALL, 6 * HOUR, WAIT, id="nor around an overlapPolicy"
        ),
    ],
)
def test_plain_form_written_as(written, missed, window_us, overlap):
    policy = policy_of(written + "\n")
    assert (policy.missed, policy.catchup_window_us, policy.overlap) == (missed, window_us, overlap)


@pytest.mark.parametrize(
    ("block", "extra", "missed", "window_us"),
    [
        pytest.param("", "", Missed.NONE, None, id="runs none by default"),
        pytest.param("  missedExecution: run\n", "", Missed.LATEST, None, id="runs the latest on request"),
        pytest.param("  missedExecution: skip\n", "", Missed.NONE, None, id="runs none on request"),
        pytest.param("", "catchupWindow: 1h\n", Missed.FIRST, HOUR, id="lets a catch-up window decide"),
        pytest.param("", "misfire: DO_NOTHING\n", Missed.NONE, None, id="lets a misfire strategy decide"),
        pytest.param("", "missed: all\n", Missed.ALL, None, id="lets missed decide"),
    ],
)
def test_block_form(block, extra, missed, window_us):
    policy = policy_of(extra, block)
    assert (policy.missed, policy.catchup_window_us) == (missed, window_us)


@pytest.mark.parametrize(
    ("written", "runs"),
    [
        pytest.param("", True, id="by default"),
        pytest.param("catchupWindow: 1h", True, id="with a window"),
        pytest.param("missed: latest", True, id="with missed latest"),
        pytest.param("missed: none", False, id="not with missed none"),
        pytest.param("misfire: DO_NOTHING", False, id="not with a misfire strategy that does nothing"),
    ],
)
def test_a_missed_one_off_runs_late(written, runs):
    text = f"schedule: [{{at: 2027-01-01T00:00:00Z}}]\ncommand: x\n{written}\n"
    job = parse_definition(text, "jobs/once.yaml").job
    assert job is not None
    assert job.policy.run_missed_one_off is runs


@pytest.mark.parametrize(
    ("block", "extra", "retry"),
    [
        pytest.param(None, "", Retry(0), id="not in the plain form"),
        pytest.param("", "", Retry(0), id="not in the block form"),
        pytest.param(None, "maxRetries: 4\n", Retry(4), id="as often as maxRetries says"),
        pytest.param("", "maxRetries: 0\n", Retry(0), id="not when maxRetries is zero"),
        pytest.param(
            "  retryPolicy: {maxRetries: 1, retryDelayMs: 0}\n", "", Retry(1, 0), id="at once with a delay of zero"
        ),
        pytest.param("  retryPolicy: {}\n", "", Retry(0), id="an empty policy is the default"),
    ],
)
def test_a_failed_run_is_retried(block, extra, retry):
    assert policy_of(extra, block).retry == retry


def test_the_form_of_a_schedule_changes_nothing():
    forms = ("'@hourly'", "['@hourly']", "{start: '@hourly'}", "{cron: '@hourly'}", "[{cron: '@hourly'}]")
    found = [parse_definition(f"schedule: {form}\ncommand: x\n", "jobs/report.yaml").job for form in forms]
    assert all(job is not None and job.policy == Policy() for job in found)


@pytest.mark.parametrize("schedule", ["'@hourly'", "{cron: '@hourly'}"])
@pytest.mark.parametrize(
    ("extra", "missed", "retry"),
    [
        pytest.param("", Missed.LATEST, Retry(3, MINUTE), id="the latest runs, three retries"),
        pytest.param("retryPolicy: {retryDelay: 5s}\n", Missed.LATEST, Retry(3, 5 * SECOND), id="a delay of its own"),
        pytest.param("missed: none\nmaxRetries: 0\n", Missed.NONE, Retry(0), id="what is written goes first"),
    ],
)
def test_a_pipeline_file_has_defaults_of_its_own(schedule, extra, missed, retry):
    text = f"schedule: {schedule}\n{extra}steps: [{{name: a, command: x}}]\n"
    result = parse_definition(text, "nightly/pipeline.yaml")
    assert result.job is not None, result.errors
    assert (result.job.policy.missed, result.job.policy.retry, result.job.policy.overlap) == (missed, retry, SKIP)
    if not extra:
        origins = result.job.origins
        assert str(origins["missed"]) == str(origins["retry.max_retries"]) == "default of a pipeline file"


@pytest.mark.parametrize(
    ("written", "grace_us"),
    [
        pytest.param("", 30 * SECOND, id="thirty seconds"),
        pytest.param("misfire: FIRE_ONCE_NOW", 5 * SECOND, id="five with a misfire strategy"),
        pytest.param("misfire: FIRE_ONCE_NOW\ngrace: 1m", MINUTE, id="what is written goes first"),
    ],
)
def test_grace_is(written, grace_us):
    assert policy_of(written + "\n").grace_us == grace_us


def test_jitter_is_read_and_explained():
    assert policy_of().jitter_us == 0
    assert policy_of("jitter: 59m59s\n").jitter_us == 59 * MINUTE + 59 * SECOND
    job = parse_definition(PLAIN + "jitter: 5m\n", "jobs/report.yaml").job
    assert job is not None
    assert ("jitter", "5m", "jobs/report.yaml:3") in [(one.name, one.value, one.origin) for one in explain(job)]
    assert "jitter: 5m" in definition_text(job)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            PLAIN + "jitter: 1h\n",
            "jobs/report.yaml:3:1: 'jitter' is 1h, but two occurrences can be 1h apart. "
            "Write less than 1h, so that runs start in their order.",
            id="as long as the distance",
        ),
        pytest.param(
            "schedule: {every: 90s}\njitter: 2m\ncommand: x\n", "two occurrences can be 1m30s apart", id="an interval"
        ),
        pytest.param(
            "command: x\njitter: 5m\n",
            "'jitter' has no effect without a schedule: it delays the start of occurrences. Add 'schedule'",
            id="no schedule",
        ),
        pytest.param("after: other\ncommand: x\njitter: 5m\n", "no effect without a schedule", id="only after others"),
        pytest.param(PLAIN + "jitter: -5m\n", "jobs/report.yaml:3:9", id="negative"),
        pytest.param(PLAIN + "jitter: 0s\n", "jobs/report.yaml:3:9", id="zero"),
        pytest.param(PLAIN + "jitter: 500ms\n", "jobs/report.yaml:3:9", id="less than a second"),
        pytest.param(PLAIN + "jitter: 5\n", "jobs/report.yaml:3:9", id="no unit"),
        pytest.param(PLAIN + "jitter: [5m]\n", "jobs/report.yaml:3:9", id="a list"),
    ],
)
def test_jitter_that_cannot_be_is_refused(text, said):
    parsed = parse_definition(text, "jobs/report.yaml")
    assert parsed.job is None
    assert said in str(parsed.errors[0])


def test_a_one_off_may_have_any_jitter():
    parsed = parse_definition("schedule: {at: '2090-03-01T09:00:00Z'}\njitter: 2d\ncommand: x\n", "jobs/report.yaml")
    assert parsed.job is not None
    assert parsed.job.policy.jitter_us == 48 * HOUR


@pytest.mark.parametrize(
    ("text", "name", "origin"),
    [
        pytest.param(PLAIN, "missed", "default", id="a default"),
        pytest.param(BLOCK.format(block=""), "missed", "default", id="a default in a block"),
        pytest.param(BLOCK.format(block=""), "retry.max_retries", "default", id="retries in a block"),
        pytest.param(
            BLOCK.format(block="  missedExecution: run\n"), "missed", "jobs/report.yaml:3", id="a line of a block"
        ),
        pytest.param(
            PLAIN + "catchupWindow: 1h\n", "missed", "default of catchupWindow", id="what a window brings along"
        ),
        pytest.param(PLAIN + "catchupWindow: 1h\n", "catchup_window", "jobs/report.yaml:3", id="the window itself"),
        pytest.param(
            PLAIN + "catchupWindow: 1h\noverlapPolicy: all\n",
            "overlap",
            "jobs/report.yaml:4",
            id="overlapPolicy decides overlap",
        ),
        pytest.param(PLAIN + "overlap: wait\n", "overlap", "jobs/report.yaml:3", id="overlap itself"),
        pytest.param(
            PLAIN + "misfire: DO_NOTHING\n", "grace", "default of misfire", id="the grace of a misfire strategy"
        ),
        pytest.param(PLAIN + "maxRetries: 2\n", "retry.max_retries", "jobs/report.yaml:3", id="maxRetries"),
        pytest.param(PLAIN + "priority: 2\n", "priority", "jobs/report.yaml:3", id="priority"),
        pytest.param(PLAIN, "timezone", "default", id="no zone anywhere"),
        pytest.param(
            BLOCK.format(block="  enabled: false\n"), "enabled", "jobs/report.yaml:3", id="enabled in a block"
        ),
        pytest.param(
            BLOCK.format(block="  window: {maxDelayMinutes: 3}\n"), "max_delay", "jobs/report.yaml:3", id="a window"
        ),
    ],
)
def test_the_origin_of_a_value_is_reported(text, name, origin):
    job = parse_definition(text, "jobs/report.yaml").job
    assert job is not None
    assert str(job.origins[name]) == origin


@pytest.mark.parametrize(
    ("block", "extra", "lines", "names"),
    [
        pytest.param(
            "  missedExecution: run\n",
            "catchupWindow: 1h\n",
            (3, 5),
            ("missedExecution", "catchupWindow"),
            id="missedExecution and catchupWindow",
        ),
        pytest.param(
            "  missedExecution: run\n",
            "overlapPolicy: all\n",
            (3, 5),
            ("missedExecution", "overlapPolicy"),
            id="missedExecution and overlapPolicy",
        ),
        pytest.param(
            "  missedExecution: run\n",
            "misfire: DO_NOTHING\n",
            (3, 5),
            ("missedExecution", "misfire"),
            id="missedExecution and misfire",
        ),
        pytest.param(
            "  missedExecution: run\n",
            "missed: all\n",
            (3, 5),
            ("missedExecution", "missed"),
            id="missedExecution and missed",
        ),
        pytest.param(
            None,
            "overlapPolicy: all\noverlap: wait\n",
            (3, 4),
            ("overlapPolicy", "overlap"),
            id="overlapPolicy and overlap",
        ),
        pytest.param(
            None,
            "blockStrategy: SERIAL\noverlapPolicy: all\n",
            (3, 4),
            ("blockStrategy", "overlapPolicy"),
            id="overlapPolicy and blockStrategy",
        ),
        pytest.param(
            None,
            "blockStrategy: SERIAL\noverlap: wait\n",
            (3, 4),
            ("blockStrategy", "overlap"),
            id="overlap and blockStrategy",
        ),
        pytest.param(
            None,
            "misfire: DO_NOTHING\ncatchupWindow: 1h\n",
            (3, 4),
            ("misfire", "catchupWindow"),
            id="misfire and catchupWindow",
        ),
        pytest.param(
            None, "misfire: DO_NOTHING\nmissed: all\n", (3, 4), ("misfire", "missed"), id="misfire and missed"
        ),
        pytest.param(
            None,
            "misfire: DO_NOTHING\noverlapPolicy: all\n",
            (3, 4),
            ("misfire", "overlapPolicy"),
            id="misfire and overlapPolicy",
        ),
        pytest.param(
            None,
            "missed: all\noverlapPolicy: all\n",
            (3, 4),
            ("missed", "overlapPolicy"),
            id="missed and overlapPolicy",
        ),
        pytest.param(
            None,
            "missed: none\ncatchupWindow: 1h\n",
            (3, 4),
            ("missed: none", "catchupWindow"),
            id="missed none and catchupWindow",
        ),
        pytest.param(
            None,
            "maxRetries: 1\nretryPolicy: {maxRetries: 2}\n",
            (3, 4),
            ("maxRetries", "retryPolicy"),
            id="maxRetries and retryPolicy",
        ),
        pytest.param(
            "  retryPolicy: {}\n",
            "maxRetries: 1\n",
            (3, 5),
            ("retryPolicy", "maxRetries"),
            id="the block's retryPolicy and maxRetries",
        ),
        pytest.param(
            "  retryPolicy: {}\n",
            "retryPolicy: {}\n",
            (3, 5),
            ("retryPolicy", "retryPolicy"),
            id="retryPolicy in two places",
        ),
        pytest.param(
            "  enabled: true\n", "enabled: false\n", (3, 5), ("enabled", "enabled"), id="enabled in two places"
        ),
        pytest.param(
            "  window: {maxDelayMinutes: 1}\n",
            "window: {maxDelayMinutes: 2}\n",
            (3, 5),
            ("window", "window"),
            id="window in two places",
        ),
        pytest.param(
            None,
            "retryPolicy:\n  maxRetries: 1\n  retryDelay: 5s\n  retryDelayMs: 5\n",
            (5, 6),
            ("retryDelay", "retryDelayMs"),
            id="two delays",
        ),
        pytest.param(None, "steps: [{name: a, command: x}]\n", (2, 3), ("command", "steps"), id="command and steps"),
        pytest.param("  every: 10s\n", "", (2, 3), ("cron", "every"), id="two kinds of time"),
    ],
)
def test_a_contradiction_names_both_lines(block, extra, lines, names):
    text = (PLAIN if block is None else BLOCK.format(block=block)) + extra
    result = parse_definition(text, "jobs/report.yaml")
    assert result.job is None
    (error,) = result.errors
    assert "contradict" in error.reason
    assert all(f"'{name}'" in error.reason for name in names)
    assert all(f"line {line}" in error.reason for line in lines)
    assert error.hint in {"Remove one of them.", "Keep one of them."}


def test_an_overlap_policy_without_a_window_is_a_warning():
    result = parse_definition(PLAIN + "overlapPolicy: all\n", "jobs/report.yaml")
    assert result.job is not None
    assert result.job.policy == Policy()
    assert [(warning.line, warning.field) for warning in result.warnings] == [(3, "overlapPolicy")]
