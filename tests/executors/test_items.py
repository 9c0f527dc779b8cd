"""Does a step with `each` run all its items, and keep the result of each?"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from evertick.errors import NotFound
from evertick.executors.fleet.validation import STEPS_MAX
from evertick.executors.keeper.attempt_context import RUN_ITEMS_MAX
from evertick.executors.keeper.procfs import stat_of
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED, TIMED_OUT
from evertick.model.policy import Backoff, Retry
from evertick.model.report import SubRunWanted
from evertick.model.steps import ITEM_SHOWN_MAX, StepRecord, steps_text
from evertick.model.subrun import SubRunEnd
from evertick.model.work import Condition, ConditionKind, ContinueOn, Each, ItemValue, PythonCall, Secret, Step, SubJob
from tests.executors.contract import KEY
from tests.executors.local_runs import argv, job_of, key_of, kill, launch, of_kind, sh, until

GOES_ON = ContinueOn(failure=True)


def each(*values: str, **known) -> Each:
    return Each(tuple(map(ItemValue, values)), **known)


def states(steps: Sequence[StepRecord]) -> dict[str, str]:
    return {step.name: step.state for step in steps}


def record(place, name: str) -> StepRecord:
    (found,) = [step for step in place.steps if step.name == name]
    return found


def test_each_value_reaches_a_process_of_its_own_and_outputs_are_in_the_order_of_the_list(place):
    # The first waits for the last: the order is that of the list, not of the ends.
    text = (
        'echo "$EVERTICK_RUN_STEP $EVERTICK_RUN_INDEX"; [ "$FILE" = a ] && until [ -e c ]; do sleep 0.01; done; '
        'touch "$FILE"; echo "$EVERTICK_RUN_ITEM"'
    )
    item = sh(text, "all", each=each("a", "b", "$c'; x", "c"), env=(("FILE", "{{ item }}"),), output="ALL")
    show = sh('printf %s "$ALL"', "show", depends=("all",))
    assert place.run(job_of(item, show, working_dir=str(place.folder.parent))).state == SUCCEEDED
    assert json.loads(place.log(step="show")) == [
        "all[0] 0\na",
        "all[1] 1\nb",
        "all[2] 2\n$c'; x",
        "all[3] 3\nc",
    ]
    assert place.log(step="all[1]") == b"all[1] 1\nb\n"
    assert {step.name: (step.item_of, step.item) for step in place.steps if step.item_of} == {
        f"all[{number}]": ("all", value) for number, value in enumerate(["a", "b", "$c'; x", "c"])
    }
    assert record(place, "all").output == place.log(step="show").decode()


def test_a_matrix_and_a_list_of_an_earlier_step_reach_arguments_and_functions(place):
    source = sh("""printf '%s' '[{"file": "x y", "n": 2}, {"file": "z", "n": 3}]'""", "list", output="FILES")
    call = Step(
        "call",
        PythonCall("builtins:dict", {"file": '{{ item("file") }}', "n": '{{ item("n") }}'}),
        each=Each(from_step="list"),
        depends=("list",),
        output="CALLED",
    )
    grid = argv(
        "echo", '{{ item("r") }}/{{ item("n") }}', name="grid", each=Each(matrix=(("r", ("eu", "us")), ("n", ("1",))))
    )
    show = sh('printf "%s" "$CALLED"', "show", depends=("call", "grid"))
    assert place.run(job_of(source, call, grid, show)).state == SUCCEEDED
    assert json.loads(place.log(step="show")) == [{"file": "x y", "n": "2"}, {"file": "z", "n": "3"}]
    assert [place.log(step=f"grid[{number}]") for number in (0, 1)] == [b"eu/1\n", b"us/1\n"]


def test_exactly_as_many_items_run_at_once_as_the_step_allows(place):
    # Each waits until another runs beside it: with one at a time the first would wait for ever.
    text = (
        'mkdir "r$EVERTICK_RUN_INDEX" && until [ "$(cat pairs 2>/dev/null)" ] || [ "$(ls -d r* | wc -l)" -ge 2 ]; do '
        "sleep 0.01; done; echo x >> pairs; ls -d r* | wc -l; sleep 0.05; ls -d r* | wc -l; rmdir "
        '"r$EVERTICK_RUN_INDEX"'
    )
    folder = place.folder.parent / "work"
    folder.mkdir()
    many = sh(text, "all", each=each(*"abcdefgh", max_parallel=2), output="ALL")
    assert place.run(job_of(many, working_dir=str(folder))).state == SUCCEEDED
    seen = [int(line) for text in json.loads(record(place, "all").output or "") for line in text.split()]
    assert (len(seen), max(seen)) == (16, 2)


def test_after_a_failed_item_no_further_one_starts_unless_the_step_continues(place):
    text = 'test "$EVERTICK_RUN_ITEM" != b'
    stops = sh(text, "stops", each=each("a", "b", "c", "d", max_parallel=1), output="A", continue_on=GOES_ON)
    goes_on = sh(
        text, "goes on", each=each("a", "b", "c", max_parallel=1, continues_on_failure=True), continue_on=GOES_ON
    )
    show = sh('printf %s "$A"', "show", depends=("stops", "goes on"))
    assert place.run(job_of(stops, goes_on, show)).state == SUCCEEDED
    assert states(place.steps) == {
        "stops": "failed",
        "stops[0]": "succeeded",
        "stops[1]": "failed",
        "stops[2]": "skipped",
        "stops[3]": "skipped",
        "goes on": "failed",
        "goes on[0]": "succeeded",
        "goes on[1]": "failed",
        "goes on[2]": "succeeded",
        "show": "succeeded",
    }
    assert record(place, "stops").detail == "1 of 4 items failed, 2 did not start; the first: stops[1]: exit code 1"
    assert (record(place, "stops").exit_code, record(place, "goes on").exit_code) == (1, 1)
    assert place.log(step="show") == b'["", null, null, null]'


def test_an_exit_code_tolerates_a_step_only_if_all_its_failed_items_have_it(place):
    tolerant = ContinueOn(exit_codes=(3,))
    both = each("3", "3", max_parallel=1, continues_on_failure=True)
    mixed = each("3", "4", max_parallel=1, continues_on_failure=True)
    step = sh("exit $EVERTICK_RUN_ITEM", "all", continue_on=tolerant)
    assert place.run(job_of(replace(step, each=both)), key=key_of(1)).state == SUCCEEDED
    end = place.run(job_of(replace(step, each=mixed)), key=key_of(2))
    assert (end.state, end.detail) == (FAILED, "2 of 2 items failed; the first: all[0]: exit code 3")


def test_an_empty_list_is_a_success_and_one_that_cannot_be_read_a_failure(place):
    def listed(text: str, number: int):
        source = sh(f"printf '%s' '{text}'", "list", output="L")
        step = sh("true", "all", each=Each(from_step="list"), depends=("list",), output="ALL")
        return place.run(job_of(source, step, sh('echo "$ALL"', "show", depends=("all",))), key=key_of(number))

    assert listed("", 1).state == SUCCEEDED
    assert (record(place, "all").detail, record(place, "all").output) == ("it had no items", "[]")
    end = listed('["a",', 2)
    assert end.state == FAILED
    assert "step 'all': the list of step 'list' cannot be read: it begins with '[' and is not a JSON list" in end.detail


def test_a_retry_of_the_step_repeats_only_the_items_that_failed(place):
    again = Retry(max_retries=2, delay_us=1, backoff=Backoff.FIXED)
    text = 'echo x >> "tries$EVERTICK_RUN_ITEM"; test "$(wc -l < "tries$EVERTICK_RUN_ITEM")" -ge "$EVERTICK_RUN_ITEM"'
    folder = place.folder.parent
    step = sh(text, "all", each=each("1", "2", "3"), retry=again)
    assert place.run(job_of(step, working_dir=str(folder))).state == SUCCEEDED
    assert [(step.name, step.tries) for step in sorted(place.steps) if step.item_of] == [
        ("all[0]", 1),
        ("all[1]", 2),
        ("all[2]", 3),
    ]


def test_a_run_that_resumes_another_repeats_only_the_items_that_failed(place):
    folder = place.folder.parent
    text = 'echo "$EVERTICK_RUN_ITEM" | tee -a ran; test "$EVERTICK_RUN_ITEM" != b || test -e mended'
    step = sh(text, "all", each=each("a", "b", "c", continues_on_failure=True), output="ALL")
    job = job_of(step, sh('printf %s "$ALL"', "show", depends=("all",)), working_dir=str(folder))
    assert place.run(job, key=key_of(1)).state == FAILED
    first = place.steps
    (folder / "mended").touch()
    (folder / "ran").unlink()
    earlier = {"run": key_of(1).run_id, "attempt": 1, "steps": json.loads(steps_text(first))}
    params = json.dumps({"resume_from": earlier})
    assert place.run(job, key=key_of(2), params=params).state == SUCCEEDED
    assert (folder / "ran").read_text() == "b\n"
    assert {step.name: bool(step.reused_from) for step in place.steps if step.item_of} == {
        "all[0]": True,
        "all[1]": False,
        "all[2]": True,
    }
    assert json.loads(place.log(key_of(2), "show")) == ["a", "b", "c"]
    # With other values nothing is taken over.
    other = job_of(sh(text, "all", each=each("x", "b", "c"), output="ALL"), working_dir=str(folder))
    assert place.run(other, key=key_of(3), params=params).state == SUCCEEDED
    assert not [step for step in place.steps if step.reused_from]


def test_cancelling_the_run_ends_the_items_that_run_and_starts_no_others(place):
    step = sh("echo $$; exec sleep 600", "all", each=each(*"abcdef", max_parallel=2))
    executor = place.open()
    executor.launch(launch(job_of(step)))
    pids = [int(running_log(place, f"all[{number}]")) for number in (0, 1)]
    executor.stop(KEY, 1, "enough")
    assert place.end_of(KEY).state == CANCELLED
    assert [states(place.steps)[f"all[{number}]"] for number in range(6)] == ["failed"] * 2 + ["skipped"] * 4
    assert [record(place, f"all[{number}]").detail for number in (0, 1)] == ["ended with its run: enough"] * 2
    assert record(place, "all").detail == "ended with its run: enough; 0 of 6 items succeeded"
    until(lambda: not any(stat_of(pid) for pid in pids), "the processes to end")


def running_log(place, step: str) -> str:
    """The first line that an item has printed."""
    found: list[str] = []

    def has_line() -> bool:
        try:
            text = place.log(step=step).decode()
        except NotFound:
            return False
        found[:] = text.splitlines()
        return text.endswith("\n")

    until(has_line, f"output of {step}")
    return found[0]


def test_the_timeout_of_the_step_is_for_each_item_and_that_of_the_job_for_all(place):
    text = 'test "$EVERTICK_RUN_ITEM" = a || exec sleep 600'
    step = sh(text, "all", each=each("b", "a", continues_on_failure=True), timeout_us=SECOND)
    end = place.run(job_of(step), key=key_of(1))
    assert (end.state, end.detail) == (FAILED, "1 of 2 items failed; the first: all[0]: it took longer than 1s")
    whole = sh("exec sleep 600", "all", each=each(*"abc", max_parallel=1))
    assert place.run(job_of(whole, timeout_us=SECOND), key=key_of(2)).state == TIMED_OUT


def test_items_outlive_the_scheduler_and_the_next_one_receives_their_records(place):
    folder = place.folder.parent
    text = 'until [ -e "go$EVERTICK_RUN_ITEM" ]; do sleep 0.01; done; echo "$EVERTICK_RUN_ITEM"'
    first = place.open()
    step = sh(text, "all", each=each("a", "b", "c", max_parallel=1), output="ALL")
    first.launch(launch(job_of(step, working_dir=str(folder))))
    (folder / "goa").touch()
    place.reports.wait_until(lambda _said: states(place.steps).get("all[1]") == "running")
    first.close()
    (folder / "gob").touch()
    (folder / "goc").touch()
    until(lambda: '"finished"' in place.journal(), "the run to end")
    place.open()
    assert place.end_of(KEY).state == SUCCEEDED
    assert json.loads(record(place, "all").output or "") == ["a", "b", "c"]
    assert [record(place, f"all[{number}]").item for number in range(3)] == ["a", "b", "c"]


def test_when_the_keeper_is_killed_the_ledger_has_the_items_that_ended(place):
    folder = place.folder.parent
    text = '[ "$EVERTICK_RUN_ITEM" = a ] || exec sleep 600'
    executor = place.open()
    executor.launch(launch(job_of(sh(text, "all", each=each("a", "b", "c", max_parallel=1)), working_dir=str(folder))))
    place.reports.wait_until(lambda _said: states(place.steps).get("all[1]") == "running")
    (pid,) = place.keepers()
    kill(pid)
    executor.stop(KEY, 1, "enough")
    place.loss_of(KEY)
    assert {step.name: (step.state, step.item_of, step.item) for step in place.steps} == {
        "all": ("lost", "", ""),
        "all[0]": ("succeeded", "all", "a"),
        "all[1]": ("lost", "all", "b"),
    }


def test_a_condition_is_judged_once_for_all_items(place):
    met = Condition(ConditionKind.COMMAND, "echo x >> judged; false")
    step = sh("true", "all", each=each("a", "b"), preconditions=(met,))
    place.run(job_of(step, working_dir=str(place.folder.parent)))
    assert states(place.steps) == {"all": "skipped"}
    assert (place.folder.parent / "judged").read_text() == "x\n"


def test_a_value_that_holds_a_secret_is_kept_nowhere(place, monkeypatch):
    monkeypatch.setenv("TOKEN", 'a-"secret"-value')
    source = sh("""printf '%s\\n' "$T" plain""", "list", output="L")
    step = sh('echo "$EVERTICK_RUN_ITEM"', "all", each=Each(from_step="list"), depends=("list",), output="ALL")
    place.run(job_of(source, step, env=(("T", Secret("env", "TOKEN")),)))
    assert states(place.steps)["all"] == "succeeded"
    assert (record(place, "all[0]").item, record(place, "all[1]").item) == ("", "plain")
    assert (record(place, "all[0]").digest, record(place, "all").output) == ("", None)
    written = [path.read_text(errors="replace") for path in place.folder.rglob("*") if path.is_file()]
    assert not [text for text in written if "secret" in text and "value" in text]


def test_a_value_that_holds_a_secret_becomes_no_argument_which_others_could_see(place, monkeypatch):
    monkeypatch.setenv("TOKEN", "a-secret-value")
    source = sh('echo "$T"', "list", output="L")
    step = argv("echo", "{{ item }}", name="all", each=Each(from_step="list"), depends=("list",))
    end = place.run(job_of(source, step, env=(("T", Secret("env", "TOKEN")),)))
    assert (end.state, "Use $EVERTICK_RUN_ITEM" in end.detail, "a-secret" in end.detail) == (FAILED, True, False)


def test_the_record_of_as_many_items_as_a_run_may_have_is_accepted_from_a_member():
    """An end whose steps are too long would be refused, and the run would never end."""
    step, value = "x" * 90, "\x01" * ITEM_SHOWN_MAX
    record = StepRecord(f"{step}[999]", "succeeded", exit_code=0, detail="why " * 200, output="y" * 4_096, has_log=True)
    record = record._replace(digest="0123456789ab.0123456789ab", item_of=step, item=value, reused_from="r" * 60)
    assert len(steps_text([record] * RUN_ITEMS_MAX)) <= STEPS_MAX


def test_a_run_with_too_many_items_fails_with_the_limit(place):
    numbers = sh("seq 1 1000", "list", output="L")
    steps = [
        sh("true", name, each=Each(from_step="list", max_parallel=1), depends=("list",), env=(("A", "${NONE}"),))
        for name in ("a", "b", "c")
    ]
    end = place.run(job_of(numbers, *steps))
    assert end.state == FAILED
    assert any("more than 2,000 items" in step.detail for step in place.steps)


def test_items_that_are_runs_of_another_job_each_ask_for_their_own(place):
    call = of_kind(SubJob("other", (("FILE", "{{ item }}"),)), "call", each=each("a", "b"), output="FOUND")
    executor = place.open()
    executor.launch(launch(job_of(call)))

    def asked(said):
        return {one.step: one for one in said if isinstance(one, SubRunWanted)}

    found = asked(place.reports.wait_until(lambda said: len(asked(said)) == 2))
    assert {name: json.loads(one.params) for name, one in found.items()} == {
        "call[0]": {"FILE": "a"},
        "call[1]": {"FILE": "b"},
    }
    for number in (1, 0):
        executor.sub_run_ended(KEY, 1, f"call[{number}]", 1, SubRunEnd(SUCCEEDED, "", {"main": str(number)}))
    assert place.end_of(KEY).state == SUCCEEDED
    assert json.loads(record(place, "call").output or "") == [{"main": "0"}, {"main": "1"}]
    assert len({step.sub_run for step in place.steps if step.item_of} - {""}) == 2
