"""Whether the work of a job can be written as JSON and read as the same value."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.policy import Backoff, Retry
from evertick.model.work import (
    NOTHING,
    Command,
    Condition,
    ConditionKind,
    ContinueOn,
    Handlers,
    HttpCall,
    Param,
    Pipeline,
    PythonCall,
    Repeat,
    Sandbox,
    Script,
    Secret,
    Step,
    SubJob,
    Work,
)
from evertick.model.work_json import from_plain, to_plain

texts = st.text(max_size=8)
counts = st.integers(0, 10**15)
values = st.one_of(texts, st.builds(Secret, st.sampled_from(["env", "file"]), texts))
envs = st.lists(st.tuples(texts, values), max_size=2).map(tuple)
words = st.lists(texts, max_size=3).map(tuple)
data = st.dictionaries(
    texts,
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), texts),
        lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(texts, inner, max_size=2)),
        max_leaves=4,
    ),
    max_size=2,
)
conditions = st.builds(Condition, st.sampled_from(ConditionKind), texts, st.none() | texts)
condition_lists = st.lists(conditions, max_size=2).map(tuple)
retries = st.builds(
    Retry, st.integers(0, 9), counts, st.sampled_from(Backoff), counts, st.floats(0, 1, allow_nan=False)
)
kinds = st.one_of(
    st.builds(Command, words, st.booleans()),
    st.builds(Script, texts, words),
    st.builds(PythonCall, texts, data),
    st.builds(HttpCall, texts, texts, envs, st.none() | texts, st.lists(st.integers(100, 599), max_size=2).map(tuple)),
    st.builds(Pipeline, data),
    st.builds(SubJob, texts, st.lists(st.tuples(texts, texts), max_size=2).map(tuple)),
)
continue_ons = st.builds(
    ContinueOn, st.booleans(), st.booleans(), st.lists(st.integers(0, 255), max_size=2).map(tuple), st.booleans()
)
steps = st.builds(
    Step,
    name=texts,
    kind=kinds,
    depends=words,
    env=envs,
    working_dir=st.none() | texts,
    user=st.none() | texts,
    sandbox=st.none() | st.builds(Sandbox),
    timeout_us=st.none() | counts,
    retry=retries,
    repeat=st.none() | st.builds(Repeat, counts, st.none() | counts, st.none() | conditions),
    continue_on=continue_ons,
    preconditions=condition_lists,
    output=st.none() | texts,
)
works = st.builds(
    Work,
    steps=st.lists(steps, max_size=2).map(tuple),
    env=envs,
    params=st.lists(st.builds(Param, texts, st.none() | texts, data, texts), max_size=2).map(tuple),
    working_dir=st.none() | texts,
    user=st.none() | texts,
    sandbox=st.none() | st.builds(Sandbox),
    timeout_us=st.none() | counts,
    max_active_steps=st.none() | counts,
    preconditions=condition_lists,
    handlers=st.builds(Handlers, *(st.none() | steps for _ in range(4))),
    log_max_bytes=counts,
)


@given(works)
def test_any_work_survives_json(work):
    assert from_plain(json.loads(json.dumps(to_plain(work)))) == work


def test_nothing_takes_no_room():
    assert to_plain(NOTHING) == {}
    assert from_plain({}) == NOTHING


def test_what_is_written_is_readable():
    step = Step("a", Command(("echo", "hi")), env=(("TOKEN", Secret("env", "API_TOKEN")),))
    assert to_plain(Work((step,))) == {
        "steps": [
            {
                "name": "a",
                "kind": {"Command": {"words": ["echo", "hi"]}},
                "env": [["TOKEN", {"source": "env", "name": "API_TOKEN"}]],
            }
        ]
    }


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        pytest.param([], "the whole: dict was expected", id="a list"),
        pytest.param({"stepz": []}, "Work has no field 'stepz'", id="an unknown field"),
        pytest.param({"steps": {}}, "steps: list was expected", id="a map as steps"),
        pytest.param({"steps": [{"name": "a"}]}, "missing 1 required positional argument: 'kind'", id="no kind"),
        pytest.param({"steps": [{"name": "a", "kind": {"Magic": {}}}]}, "one of Command, Script", id="another kind"),
        pytest.param({"env": [["A"]]}, "2 values were expected, not 1", id="half a variable"),
        pytest.param({"timeout_us": True}, "not true or false", id="true as a number"),
        pytest.param({"timeout_us": "1"}, "int was expected, not str", id="a text as a number"),
        pytest.param({"preconditions": [{"kind": "moon", "value": "x"}]}, "'moon' is not one of", id="another word"),
    ],
)
def test_invalid_work_is_refused_with_its_place(plain, words):
    with pytest.raises(ValueError, match="this is not the work of a job") as caught:
        from_plain(plain)
    assert words in str(caught.value)
