"""How does a definition name the values for which a step runs?"""

from __future__ import annotations

import pytest

from evertick.definitions.parser import parse_definition
from evertick.definitions.references import find_crowds
from evertick.model.job import Job
from evertick.model.policy import Overlap, OverlapKind, Policy
from evertick.model.work import Each, ItemValue, Step, SubJob, Work
from tests.present import present


def step_of(fields: str, beside: str = "") -> Step:
    parsed = parse_definition(
        f"steps:\n  - name: list\n    command: ls\n    output: FILES\n{beside}  - {fields}\n", "a.yaml"
    )
    assert not parsed.errors, parsed.errors
    return present(parsed.job).steps[-1]


def error_of(text: str) -> str:
    (error,) = parse_definition(text, "a.yaml").errors
    return str(error)


@pytest.mark.parametrize(
    ("written", "each"),
    [
        pytest.param(
            "each: [eu, 007, true]", Each((ItemValue("eu"), ItemValue("007"), ItemValue("true"))), id="a list"
        ),
        pytest.param("each: [{r: eu, n: 1}]", Each((ItemValue("", (("r", "eu"), ("n", "1"))),)), id="maps"),
        pytest.param("each: []", Each(), id="an empty list"),
        pytest.param("each: {from: list}", Each(from_step="list"), id="from a step"),
        pytest.param(
            "each: {values: [a], maxParallel: 3, continueOnFailure: true}",
            Each((ItemValue("a"),), max_parallel=3, continues_on_failure=True),
            id="with how it runs",
        ),
        pytest.param("matrix: {r: [eu, us], n: [1]}", Each(matrix=(("r", ("eu", "us")), ("n", ("1",)))), id="a matrix"),
        pytest.param(
            "each: {matrix: {r: [eu]}, maxParallel: 1}", Each(matrix=(("r", ("eu",)),), max_parallel=1), id="both"
        ),
    ],
)
def test_the_values_of_a_step(written, each):
    assert step_of(f"{{name: a, command: x, {written}}}").each == each


def test_the_step_that_prints_the_list_comes_first_whether_or_not_that_is_written():
    assert step_of("{name: a, command: x, each: {from: list}}").depends == ("list",)
    assert step_of("{name: a, command: x, each: {from: list}, depends: list}").depends == ("list",)


def test_the_item_may_be_used_where_there_is_no_shell():
    step = step_of("""name: a
    command: [convert, '{{ item }}', '{{ item("n") }}']
    matrix: {n: [1, 2]}
    env: {N: '{{ item("n") }}'}""")
    assert step.each is not None


STEP = "steps:\n  - name: a\n    command: x\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            STEP + "    each: 3\n", "a.yaml:4:11: 'each' must be a list or a map, not the number 3", id="a number"
        ),
        pytest.param(STEP + "    each: {}\n", "names no values", id="an empty map"),
        pytest.param(STEP + "    each: [[a]]\n", "a value of 'steps[0].each' must be a text, not a list", id="a list"),
        pytest.param(STEP + "    each: [null]\n", "must be a text, not", id="null"),
        pytest.param(STEP + "    each: [{a-b: 1}]\n", "cannot be in the name of a variable", id="a name"),
        pytest.param(STEP + "    each: {from: b}\n", "step 'a' depends on 'b', which is not a step", id="no such step"),
        pytest.param(STEP + "    each: {from: a}\n    output: A\n", "step 'a' depends on itself", id="itself"),
        pytest.param(
            STEP + "  - {name: b, command: x, each: {from: a}}\n",
            "a.yaml:2:11: step 'b' runs for each value of step 'a', which has no output. Add 'output: NAME'",
            id="a step without output",
        ),
        pytest.param(STEP + "    each: {matrix: {n: [1]}, values: [a]}\n", "contradict each other", id="two lists"),
        pytest.param(STEP + "    each: [a]\n    matrix: {n: [1]}\n", "contradict each other", id="each and matrix"),
        pytest.param(STEP + "    each: [a]\n    repeat: {interval: 1s}\n", "an item runs once", id="each and repeat"),
        pytest.param(STEP + "    matrix: {}\n", "'steps[0].matrix' is an empty map.", id="an empty matrix"),
        pytest.param(STEP + "    matrix: [a]\n", "must be a map of lists, not a list", id="a list as a matrix"),
        pytest.param(
            STEP + "    matrix: {n: 1}\n", "'steps[0].matrix.n' must be a list, not the number 1", id="no list"
        ),
        pytest.param(
            STEP + f"    matrix: {{a: [{'1, ' * 40}1], b: [{'1, ' * 40}1]}}\n",
            "1,681 combinations; 1,000",
            id="too many",
        ),
        pytest.param(STEP + f"    each: [{'1, ' * 1_000}1]\n", "1,001 values; 1,000 are allowed", id="too many values"),
        pytest.param(STEP + "    each: {values: [a], maxParallel: 0}\n", "from 1 to 100", id="none at once"),
        pytest.param(STEP + "    each: {values: [a], parallel: 2}\n", "Did you mean 'maxParallel'?", id="a slip"),
        pytest.param(
            STEP + "    each: [b]\n  - {name: 'a[0]', command: x}\n",
            "'a[0]' is the name of an item of step 'a'",
            id="name",
        ),
        pytest.param(
            "steps:\n  - {name: a, command: 'echo {{ item }}', each: [b]}\n",
            'Write "$EVERTICK_RUN_ITEM"',
            id="in shell text",
        ),
        pytest.param(
            "steps:\n  - {name: a, command: [echo, '{{ item }}']}\n", "this does not belong to one", id="without each"
        ),
        pytest.param(
            "steps:\n  - {name: a, command: [echo, '{{ item(\"z\") }}'], matrix: {n: [1]}}\n",
            "the items of this step have no part 'z'",
            id="an unknown part",
        ),
        pytest.param(
            "steps:\n  - {name: a, command: [echo, '{{ item(-1d) }}'], each: [b]}\n",
            "does not name a part",
            id="an offset",
        ),
        pytest.param(
            STEP + "    each: [b]\n    preconditions: {file_exists: '{{ item }}'}\n",
            "this does not belong to one",
            id="in a condition, which is judged once",
        ),
        pytest.param("command: x\neach: [a]\n", "'each' belongs to a step", id="at the job"),
        pytest.param("command: x\nenv: {A: '{{ item }}'}\n", "this does not belong to one", id="in the job's env"),
        pytest.param("command: x\nonExit: {command: x, each: [a]}\n", "unknown field 'each'", id="of a handler"),
    ],
)
def test_an_error_has_its_place_and_what_to_write(text, told):
    assert told in error_of(text)


def test_shell_text_of_other_steps_may_hold_the_braces_of_others():
    assert step_of("{name: a, command: 'ansible -m debug -a \"msg={{ item }}\"'}").each is None


@pytest.mark.parametrize("written", ["each: []", "matrix: {n: []}"])
def test_a_step_that_does_nothing_is_warned_about(written):
    parsed = parse_definition(f"steps:\n  - {{name: a, command: x, {written}}}\n", "a.yaml")
    assert not parsed.errors
    assert "the step does nothing" in str(parsed.warnings[0])


@pytest.mark.parametrize(
    ("overlap", "parallel", "waits", "is_warned"),
    [
        (OverlapKind.SKIP, 8, True, True),
        (OverlapKind.REPLACE, 2, True, True),
        (OverlapKind.SKIP, 1, False, True),
        (OverlapKind.SKIP, 1, True, False),
        (OverlapKind.PARALLEL, 8, True, False),
        (OverlapKind.WAIT, 8, True, False),
    ],
)
def test_items_that_run_a_job_which_would_drop_them_are_warned_about(overlap, parallel, waits, is_warned):
    each = Each((ItemValue("a"),), max_parallel=parallel)
    parent = Job("parent", work=Work((Step("all", SubJob("child", waits=waits), each=each),)))
    child = Job("child", policy=Policy(overlap=Overlap(overlap, 4 if overlap is OverlapKind.PARALLEL else 1)))
    found = find_crowds({"parent": parent, "child": child})
    assert bool(found) is is_warned
    assert not is_warned or f"overlap: parallel({parallel})" in str(found["parent"][0])
