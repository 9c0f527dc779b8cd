"""How a pipeline handles its items, and its errors."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from evertick.errors import DefinitionError
from evertick.kinds.pipeline.definition import FailWhen
from evertick.kinds.pipeline.invoker import Answer
from evertick.kinds.pipeline.result import to_plain
from evertick.kinds.pipeline.run import run_pipeline
from tests.kinds.pipeline.scripted import Scripted, hang, pipeline, run
from tests.present import present

FOUR = [{"endpoint": name} for name in "abcd"]


def batched(**parts):
    return pipeline(FOUR, map={"prompt": "All: {{ITEMS}}", "output": ["status"], "batchSize": 2, **parts})


def rows(prompt):
    """One good row for each item of the batch, which stands between the prompt's words."""
    items = json.loads(prompt[prompt.index("[") : prompt.index("]") + 1])
    return json.dumps([{"status": item["endpoint"].upper()} for item in items])


def statuses(result):
    return [item.output["status"] for item in result.output.results]


# --- the ways a run can go wrong, in both modes: each ends as a failed run


def broken_for(name, outcome):
    """Answers well, except where the prompt names that item."""

    def answer(prompt):
        if f'"{name}"' in prompt or prompt.startswith(f"Sync {name}\n"):
            if isinstance(outcome, Exception):
                raise outcome
            return outcome
        return rows(prompt) if prompt.startswith("All") else '{"status": "ok"}'

    return answer


BAD_ANSWERS = [
    pytest.param(Answer(False, error="overloaded"), "overloaded", id="the invoker says it failed"),
    pytest.param("I would rather not.", "Failed to parse", id="the answer cannot be parsed"),
    pytest.param(RuntimeError("no network"), "no network", id="the invoker raises"),
    pytest.param("", "the answer is empty", id="the answer is empty"),
]


@pytest.mark.parametrize(("outcome", "error"), BAD_ANSWERS)
def test_a_bad_answer_fails_its_item_and_so_the_run_but_not_the_pipeline(outcome, error):
    result = run(pipeline(), broken_for("b", outcome))
    assert result.success
    assert (result.stats.successful_maps, result.stats.failed_maps) == (2, 0)
    assert [item.success for item in present(result.output).results] == [True, False]
    assert present(result.output).results[1].output == {"status": None}
    assert error in present(result.output).results[1].error
    assert "1 of 2 items failed" in present(result.failure)
    assert error in present(result.failure)


@pytest.mark.parametrize(("outcome", "error"), BAD_ANSWERS)
def test_a_bad_answer_fails_its_whole_batch_and_the_pipeline(outcome, error):
    result = run(batched(), broken_for("c", outcome))
    assert not result.success
    assert [item.success for item in present(result.output).results] == [True, True, False, False]
    assert all(error in item.error for item in present(result.output).results[2:])
    assert "2 of 4 items failed" in present(result.failure)


def hang_on(name):
    def invoke(call):
        if f'"{name}"' in call.question.prompt or call.question.prompt.startswith(f"Sync {name}\n"):
            return hang(call)
        prompt = call.question.prompt
        return Answer(True, rows(prompt) if prompt.startswith("All") else '{"status": "ok"}')

    return invoke


def test_two_timeouts_fail_the_pipeline_and_the_item_stays_visible():
    result = run_pipeline(pipeline(map__timeoutMs=20), ".", hang_on("b"))
    assert not result.success
    assert (result.stats.successful_maps, result.stats.failed_maps) == (1, 1)
    failed = present(result.output).results[1]
    assert (failed.item, failed.success) == ({"endpoint": "b"}, False)
    assert failed.error == "timed out after 20 ms, and after 40 ms on retry"
    assert "1 of 2 items failed" in present(result.failure)


def test_two_timeouts_fail_the_batch():
    result = run_pipeline(batched(timeoutMs=20), ".", hang_on("a"))
    assert not result.success
    assert [item.success for item in present(result.output).results] == [False, False, True, True]
    assert result.failure is not None


def test_a_call_that_is_late_once_is_asked_again_with_double_the_time():
    given = []

    def slow_once(call):
        given.append(call.timeout_seconds)
        return hang(call) if len(given) == 1 else Answer(True, '{"status": "ok"}')

    result = run_pipeline(pipeline([{"endpoint": "a"}], map__timeoutMs=30), ".", slow_once)
    assert given == [0.03, 0.06]
    assert result.failure is None


def test_a_wrong_number_of_results_fails_the_whole_batch():
    result = run(batched(), broken_for("a", '[{"status": 1}]'))
    assert not result.success
    assert present(result.output).results[0].error == "AI returned 1 results but batch has 2 items"
    assert [item.success for item in present(result.output).results] == [False, False, True, True]


def test_a_result_that_is_not_an_object_fails_only_its_item():
    result = run(batched(), broken_for("a", '[{"status": 1}, 7]'))
    assert [item.success for item in present(result.output).results] == [True, False, True, True]
    assert present(result.output).results[1].error == "Result at index 1 is not an object"


@pytest.mark.parametrize("data", [pytest.param(pipeline(), id="standard"), pytest.param(batched(), id="batch")])
@pytest.mark.parametrize(
    "outcome",
    [pytest.param(Answer(False, error="overloaded"), id="refused"), pytest.param("no fields", id="unparsable")],
)
def test_an_ai_reduce_that_fails_fails_the_run_and_keeps_the_answers(data, outcome):
    data = {**data, "reduce": {"type": "ai", "prompt": "Sum up", "output": ["title"]}}

    def answer(prompt):
        if prompt.startswith("Sum"):
            return outcome
        return rows(prompt) if prompt.startswith("All") else '{"status": "ok"}'

    result = run(data, answer)
    assert not result.success
    assert result.error.startswith("Reduce phase failed: ")
    assert result.failure == result.error
    assert all(item.success for item in present(result.output).results)


def test_a_cancelled_run_ends_what_is_under_way_and_drops_what_was_answered():
    wanted = threading.Event()
    ended = threading.Event()

    def invoke(call):
        if call.question.prompt.startswith("Sync b"):
            wanted.set()
            hang(call)
            ended.set()
        return Answer(True, '{"status": "ok"}')

    result = run_pipeline(pipeline(), ".", invoke, is_cancelled=wanted.is_set)
    assert (result.success, result.error, result.output) == (False, "Operation cancelled", None)
    assert result.is_cancelled
    assert result.failure == "Operation cancelled"
    assert ended.wait(60)


def test_a_cancelled_batch_run_fails_the_batches_that_are_left():
    wanted = threading.Event()

    def invoke(call):
        return hang(call) if '"c"' in call.question.prompt else Answer(True, rows(call.question.prompt))

    def cancel_after_the_first(progress):
        if progress.phase == "map":
            wanted.set()

    result = run_pipeline(
        batched(parallel=1), ".", invoke, is_cancelled=wanted.is_set, on_progress=cancel_after_the_first
    )
    assert result.is_cancelled
    assert [item.error for item in present(result.output).results] == [
        "",
        "",
        "Operation cancelled",
        "Operation cancelled",
    ]
    assert result.failure == "Operation cancelled"


def test_no_items_are_a_success_without_output():
    result = run(pipeline([]))
    assert (result.success, result.output, result.failure, result.formatted) == (True, None, None, "")


def test_no_items_in_batch_mode_are_an_empty_reduce():
    result = run(pipeline([], map={"prompt": "{{ITEMS}}", "output": ["a"], "batchSize": 5}))
    assert (result.success, result.formatted, result.failure) == (True, "[]", None)


@pytest.mark.parametrize("batch_size", [pytest.param(1, id="standard"), pytest.param(2, id="batch")])
@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        pytest.param({"reduce": {"type": "xml"}}, "'reduce.type' is 'xml'", id="a reduce that is not known"),
        pytest.param(
            {"map__prompt": None, "map__promptFile": "no.md"}, "'no.md' was not found", id="a prompt that is missing"
        ),
        pytest.param({"map__skill": "none"}, "SKILL.md", id="a skill that is missing"),
        pytest.param(
            {"input": {"from": {"type": "csv", "path": "no.csv"}}},
            "CSV file not found",
            id="a CSV file that is missing",
        ),
        pytest.param({"map__prompt": "Sync {{nope}}"}, "{{nope}}", id="a variable that no item has"),
    ],
)
def test_what_cannot_be_begun_is_raised(tmp_path, parts, reason, batch_size):
    with pytest.raises(DefinitionError) as caught:
        run(pipeline(map__batchSize=batch_size, **parts), directory=tmp_path)
    assert reason in str(caught.value)


# --- when is it a failure?


@pytest.mark.parametrize(
    ("fail_when", "is_failure"),
    [
        pytest.param(None, True, id="by default any failed item"),
        pytest.param(0, True, id="0"),
        pytest.param(1, False, id="1 is allowed"),
        pytest.param("25%", False, id="a quarter is allowed"),
        pytest.param("24%", True, id="less than a quarter is not"),
    ],
)
@pytest.mark.parametrize("mode", ["standard", "batch"])
def test_how_many_items_may_fail(fail_when, is_failure, mode):
    data = pipeline(FOUR) if mode == "standard" else batched()
    outcome = Answer(False, error="no") if mode == "standard" else '[{"status": 1}, 7]'
    result = run({**data, "failWhen": fail_when}, broken_for("b" if mode == "standard" else "a", outcome))
    assert present(result.output).summary.failed_items == 1
    assert (result.failure is not None) is is_failure


def test_the_threshold_of_the_pipeline_overrides_the_settings():
    invoker = Scripted(broken_for("b", Answer(False, error="no")))
    assert run_pipeline(pipeline(), ".", invoker, fail_when=FailWhen(1)).failure is None
    assert run_pipeline(pipeline(failWhen=0), ".", invoker, fail_when=FailWhen(1)).failure is not None


def test_an_item_that_the_filter_could_not_judge_is_a_failed_item():
    data = pipeline(filter={"type": "ai", "ai": {"prompt": "Keep {{endpoint}}?"}})
    result = run(
        data,
        lambda prompt: (
            Answer(False, error="away") if "Keep b" in prompt else "yes" if "Keep" in prompt else '{"status": 1}'
        ),
    )
    assert [item.item["endpoint"] for item in present(result.output).results] == ["a"]
    assert present(result.filtered).errors == ("filter: away",)
    assert result.failure == "1 of 2 items failed. First error: filter: away"


# --- order, prompts, models


def test_results_keep_the_order_of_the_items_whatever_order_they_come_in():
    first_waits = threading.Event()

    def invoke(call):
        if "Sync a" in call.question.prompt:
            assert first_waits.wait(60)
        elif "Sync d" in call.question.prompt:
            first_waits.set()
        return Answer(True, json.dumps({"status": call.question.prompt[5]}))

    assert statuses(run_pipeline(pipeline(FOUR), ".", invoke)) == list("abcd")


def test_batches_keep_the_order_of_the_items_too():
    second_done = threading.Event()

    def invoke(call):
        if '"a"' in call.question.prompt:
            assert second_done.wait(60)
        else:
            second_done.set()
        return Answer(True, rows(call.question.prompt))

    assert statuses(run_pipeline(batched(), ".", invoke)) == list("ABCD")


def test_the_answer_to_a_batch_is_kept_once():
    result = run(batched(), rows)
    assert [item.raw_response is not None for item in present(result.output).results] == [True, False, True, False]


def test_no_more_calls_are_under_way_than_parallel_allows():
    lock, under_way, most = threading.Lock(), 0, 0
    both = threading.Barrier(2)

    def invoke(call):
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        both.wait(60)
        with lock:
            under_way -= 1
        return Answer(True, '{"status": 1}')

    run_pipeline(pipeline(FOUR, map__parallel=2), ".", invoke)
    assert most == 2


def test_the_prompt_of_an_item_asks_for_its_fields():
    invoker = Scripted(lambda _: '{"severity": 1}')
    data = pipeline(
        [{"title": "Login fails"}], map={"prompt": "Categorize: {{title}}", "output": ["severity", "category"]}
    )
    run_pipeline(data, ".", invoker)
    assert invoker.prompts == ["Categorize: Login fails\n\nReturn JSON with these fields: severity, category"]


def test_without_fields_the_answer_is_kept_as_text_and_nothing_is_added_to_the_prompt():
    invoker = Scripted(lambda prompt: prompt.upper())
    result = run_pipeline(pipeline(map__output=None, reduce={"type": "text"}), ".", invoker)
    assert sorted(invoker.prompts) == ["Sync a", "Sync b"]
    assert result.formatted == "--- Item 1 ---\nSYNC A\n\n--- Item 2 ---\nSYNC B"


def test_a_model_may_come_from_the_item_and_an_empty_one_is_the_default():
    invoker = Scripted(lambda _: '{"status": 1}')
    items = [{"endpoint": "a", "model": "small"}, {"endpoint": "b", "model": ""}]
    run_pipeline(pipeline(items, map__model="{{model}}"), ".", invoker)
    assert {call.question.prompt[5]: call.question.model for call in invoker.calls} == {"a": "small", "b": None}


def test_item_fields_win_over_parameters_and_a_missing_one_is_empty_later():
    invoker = Scripted(lambda _: "ok")
    items = [{"a": "1", "lang": "Latin", "x": "X"}, {"a": "2"}]
    data = pipeline(
        items, map={"prompt": "{{a}}-{{lang}}-{{x}}"}, input__parameters=[{"name": "lang", "value": "Greek"}]
    )
    run_pipeline(data, ".", invoker)
    assert sorted(invoker.prompts) == ["1-Latin-X", "2-Greek-"]


def test_parameters_of_the_run_override_the_pipeline_and_are_overridden_by_the_item():
    invoker = Scripted(lambda _: "ok")
    data = pipeline([{"a": "1"}, {"a": "2", "lang": "own"}], map={"prompt": "{{a}} {{lang}}"}, parameters={"lang": "x"})
    run_pipeline(data, ".", invoker, parameters={"lang": "given"})
    assert sorted(invoker.prompts) == ["1 given", "2 own"]


def test_values_that_are_no_texts_are_written_as_texts_and_break_no_format():
    items = [{"n": 5, "f": 1.0, "b": True, "z": None, "l": [1, {"a": 2}]}]
    for kind in ("list", "table", "csv", "json", "text"):
        result = run(pipeline(items, map={"prompt": "{{n}}"}, reduce={"type": kind}), lambda _: "ok")
        assert result.failure is None
    assert present(result.output).results[0].item == {"n": "5", "f": "1", "b": "true", "z": "", "l": '[1, {"a": 2}]'}


def test_in_a_batch_parameters_are_filled_in_and_unknown_names_stay():
    invoker = Scripted(rows)
    data = pipeline(
        FOUR,
        map={"prompt": "All {{ITEMS}} in {{lang}} not {{COUNT}}", "output": ["status"], "batchSize": 3},
        input__parameters=[{"name": "lang", "value": "Latin"}],
    )
    run_pipeline(data, ".", invoker)
    assert all("in Latin not {{COUNT}}\n\nReturn a JSON array with" in prompt for prompt in invoker.prompts)
    assert sorted(present(call.question.count) for call in invoker.calls) == [1, 3]


def test_the_limit_takes_the_first_and_zero_takes_none():
    assert statuses(run(pipeline(FOUR, input__limit=3))) == ["ok"] * 3
    assert run(pipeline(FOUR, input__limit=0)).output is None


def test_progress_is_reported_by_phase():
    seen: list[Any] = []
    run_pipeline(pipeline(), ".", Scripted(lambda _: '{"status": 1}'), on_progress=seen.append)
    assert [(one.phase, one.done, one.total) for one in seen] == [
        ("input", 2, 2),
        ("map", 1, 2),
        ("map", 2, 2),
        ("reduce", 1, 1),
    ]


def test_a_batch_that_the_prompt_does_not_show_is_warned_about():
    result = run(pipeline(map__batchSize=2, map__parallel=20), lambda _: '[{"status": 1}, {"status": 2}]')
    assert any("{{ITEMS}}" in warning for warning in result.warnings)
    assert any("map.parallel is 20" in warning for warning in result.warnings)


def test_the_time_it_took_is_the_clocks():
    ticks = iter(range(100))
    result = run_pipeline(pipeline(), ".", Scripted(lambda _: '{"status": 1}'), clock=lambda: float(next(ticks)))
    assert (result.stats.map_ms, result.stats.reduce_ms, result.total_ms) == (1_000, 1_000, 5_000)


# --- one question, and items that are made up


def test_a_job_is_one_question():
    data = {
        "job": {"prompt": "Report on {{team}}", "output": ["title"]},
        "parameters": [{"name": "team", "value": "core"}],
    }
    invoker = Scripted(lambda _: '{"title": "yes", "more": 1}')
    result = run_pipeline(data, ".", invoker)
    assert invoker.prompts == ["Report on core\n\nReturn JSON with these fields: title"]
    assert (json.loads(result.formatted), result.items_processed, result.failure) == ({"title": "yes"}, 1, None)


def test_a_job_that_fails_fails_the_run():
    result = run({"job": {"prompt": "Report"}}, lambda _: Answer(False, error="away"))
    assert (result.success, result.failure) == (False, "away")


def test_items_may_be_made_up_when_that_is_approved():
    generate = {"prompt": "Three cities", "schema": ["city", "size"], "autoApprove": True}
    data = pipeline(input={"generate": generate}, map={"prompt": "About {{city}}: {{size}}"}, reduce={"type": "text"})
    invoker = Scripted(
        lambda p: '[{"city": "Rome", "size": 3, "x": 1}, {"city": "Bonn"}]' if p.startswith("Three") else p
    )
    result = run_pipeline(data, ".", invoker)
    assert [item.raw_text for item in present(result.output).results] == ["About Rome: 3", "About Bonn: "]
    assert invoker.prompts[0] == "Three cities\n\nReturn a JSON array where each object has these fields: city, size"


def test_items_that_could_not_be_made_up_fail_the_run():
    generate = {"prompt": "Three cities", "schema": ["city"], "autoApprove": True}
    result = run(pipeline(input={"generate": generate}, map={"prompt": "{{city}}"}), lambda _: "no")
    assert result.failure == "Failed to generate input: it contains no JSON array"


def test_the_result_as_data_holds_the_result_of_each_item():
    result = to_plain(run(pipeline(), broken_for("b", Answer(False, error="no"))))
    plain = json.loads(json.dumps(result))
    assert plain == result
    assert plain["itemsProcessed"] == 2
    assert plain["output"]["summary"] == {
        "totalItems": 2,
        "successfulItems": 1,
        "failedItems": 1,
        "outputFields": ["status"],
    }
    assert plain["output"]["results"][1] == {
        "item": {"endpoint": "b"},
        "output": {"status": None},
        "success": False,
        "error": "no",
    }
    assert plain["executionStats"]["failedMaps"] == 0
