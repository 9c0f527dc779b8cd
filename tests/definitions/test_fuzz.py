"""Whether every text ends in a job or in errors, and in nothing else."""

from __future__ import annotations

import json
import random
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.definitions.catalogue.job import JOB
from evertick.definitions.parsed_file import Parsed
from evertick.definitions.parser import parse_definition
from evertick.definitions.schema import TABLES
from evertick.errors import DefinitionError

FIELDS = ("<<", *JOB, *(name for table in TABLES.values() for name in table.fields))
WORDS = (
    *("6h", "0 9 * * *", "CRON_TZ=", "CRON_TZ=X ", "@daily", "skip", "all", "parallel(3)", "Europe/Berlin"),
    *("2027-03-28T02:30", "2027-01-01T00:00:00Z", "", " ", "\x00", "\ud800", "\u2028", "a\nb", "-", "é" * 300),
    *("A=b", "=", "https://example.org/x", "http://[::1", "module:function", "retry", "kill", "a@b", "re:(", "10ms"),
)

SAMPLE = """\
name: report
timezone: Europe/Berlin
schedule:
  cron: "0 9 * * 1-5"
  retryPolicy: {maxRetries: 3, retryDelayMs: 60000}
  window: {maxDelayMinutes: 30}
steps:
  - &first
    name: a
    command: echo 'hello'
  - name: b
    command: [x, "y"]
    depends: [a]
    retryPolicy: {limit: 2, interval: 5s}
    env: {A: b, C: {env: D}}
    repeat: {every: 10s, until: {file_exists: done}}
  - {name: c, http: {url: "https://example.org", expect: [200, 204]}, continueOn: {exitCodes: [3]}}
  - {name: d, python: "etl:load", with: {day: 1}, preconditions: [{command: "true", expected: "re:x"}]}
params: {DAY: {type: integer, default: 3, minimum: 1}}
after: {jobs: [fetch], mode: any}
notify: {on_failure: [{smtp: ops@example.org}, "https://example.org/hook"]}
constraints: {maxExpectedRunTime: {value: 30m, onViolation: [kill, {startJob: other}]}}
onFailure: echo failed
"""


def check(parsed: Parsed) -> None:
    assert (parsed.job is None) == bool(parsed.errors)
    for finding in (*parsed.errors, *parsed.warnings):
        assert isinstance(finding, DefinitionError)
        assert finding.file == "jobs/x.yaml"
        assert finding.line is not None
        assert finding.line >= 1
        assert finding.column is not None
        assert finding.column >= 1
        assert finding.reason


@given(st.one_of(st.text(max_size=200), st.binary(max_size=200)))
def test_any_text_ends_in_a_job_or_in_errors(source):
    check(parse_definition(source, "jobs/x.yaml"))


def shaped(schema):
    """Values that are shaped as the schema says, filled with words that may be right or wrong."""
    if "$ref" in schema:
        table = TABLES[schema["$ref"].rpartition("/")[2]].fields
        return st.deferred(lambda: maps_of(table))
    if "anyOf" in schema:
        return st.one_of(*(shaped(part) for part in schema["anyOf"]))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "array":
            return st.lists(shaped(schema["items"]), max_size=3)
        case "object":
            names = st.sampled_from(("A", "b_c", "1", "EVERTICK_X", "Accept", ""))
            return st.dictionaries(names, shaped(schema.get("additionalProperties", {})), max_size=3)
        case "integer":
            return st.integers(-1, 700)
        case "boolean":
            return st.booleans()
        case _:
            return st.sampled_from(WORDS)


def maps_of(table):
    few = st.lists(st.sampled_from(tuple(table)), max_size=4, unique=True)
    return few.flatmap(lambda names: st.fixed_dictionaries({name: shaped(table[name].schema) for name in names}))


@given(maps_of(JOB), st.sampled_from(["jobs/x.yaml", "jobs/x/pipeline.yaml"]))
def test_values_of_the_right_shape_end_in_a_job_or_in_errors(fields, file):
    parsed = parse_definition(json.dumps(fields), file)
    assert (parsed.job is None) == bool(parsed.errors)


scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.sampled_from(WORDS), st.text(max_size=10)
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(FIELDS), values, max_size=10))
def test_any_value_in_any_field_ends_in_a_job_or_in_errors(fields):
    # JSON is YAML: the fields reach the readers with every type of value.
    check(parse_definition(json.dumps(fields), "jobs/x.yaml"))


@pytest.mark.slow
def test_eight_thousand_mutations_of_a_job_end_in_a_job_or_in_errors():
    dice = random.Random(20_270_301)
    alphabet = string.printable + "&*!?|>%@`#{}[],:-\t\u00a0é"
    ends = {True: 0, False: 0}
    for _ in range(8_000):
        text = list(SAMPLE)
        for _ in range(dice.choice([1, 1, 2, 5])):
            place = dice.randrange(len(text))
            match dice.randrange(4):
                case 0:
                    del text[place]
                case 1:
                    text.insert(place, dice.choice(alphabet))
                case 2:
                    text[place] = dice.choice(alphabet)
                case 3:
                    other = dice.randrange(len(text))
                    text[place:place] = text[other : other + dice.randint(1, 30)]
        parsed = parse_definition("".join(text), "jobs/x.yaml")
        check(parsed)
        ends[parsed.job is None] += 1
    # Both ends were met often, or the mutations would prove little.
    assert min(ends.values()) > 400
