"""Does the local executor keep the contract, and do jobs find the documented environment?"""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from evertick.errors import SettingsError
from evertick.executors import protocol
from evertick.executors.keeper.procfs import is_alive
from evertick.loop.effects import Launch
from evertick.model.instant import SECOND, to_text
from evertick.model.job import Job
from evertick.model.lifecycle import CANCELLED, FAILED, SKIPPED, SUCCEEDED, TIMED_OUT, Trigger
from evertick.model.policy import Backoff, Retry
from evertick.model.report import LaunchRefused, RunFinished, RunStarted, RunUnknown
from evertick.model.run import RunKey
from evertick.model.work import Condition, ConditionKind, ContinueOn, Handlers, Param, Repeat, Secret, Work
from evertick.settings.parts import KeeperSettings, LaneSettings, LocalSettings
from tests.executors.contract import KEY, NINE, ExecutorContract, Reports
from tests.executors.local_runs import SOON, Place, argv, job_of, key_of, launch, sh, until, written


class TestLocalExecutor(ExecutorContract):
    @pytest.fixture
    def place(self, tmp_path):
        place = Place(tmp_path / "state")
        yield place
        place.close()

    @pytest.fixture
    def reports(self, place) -> Reports:
        return place.reports

    @pytest.fixture
    def executor(self, place):
        return place.open()


class TestLocalExecutorWithTwoKeepers(TestLocalExecutor):
    @pytest.fixture
    def executor(self, place):
        return place.open(LocalSettings(keepers=2, keeper=SOON.keeper))


# How a run ends


@pytest.mark.parametrize(
    ("step", "state", "code", "detail"),
    [
        pytest.param(argv("true"), SUCCEEDED, 0, "", id="a program that succeeds"),
        pytest.param(sh("exit 3"), FAILED, 3, "exit code 3", id="one that fails"),
        pytest.param(sh("kill -9 $$"), FAILED, -9, "killed by SIGKILL", id="one that a signal ends"),
        pytest.param(argv("no-such-program"), FAILED, 127, "the program 'no-such-program' was not found", id="none"),
        pytest.param(argv("/etc/passwd"), FAILED, 126, "is not executable", id="no program"),
        pytest.param(
            argv("true", working_dir="/nowhere"),
            FAILED,
            127,
            "the working folder '/nowhere' does not exist",
            id="no folder",
        ),
        pytest.param(argv(), FAILED, None, "its command is empty", id="an empty command"),
        pytest.param(
            sh("sleep 30", timeout_us=SECOND // 20),
            FAILED,
            -15,
            "it took longer than 50ms",
            id="one beyond its timeout",
        ),
    ],
)
def test_a_single_step_decides_how_its_run_ends(place, step, state, code, detail):
    end = place.run(job_of(step))
    assert (end.state, end.exit_code) == (state, code)
    assert detail in end.detail


def test_the_start_is_reported_before_the_end_and_in_this_order_in_time(place):
    before = time.time_ns() // 1_000
    end = place.run(job_of(argv("true")))
    started = place.start_of(KEY)
    assert before <= started.at <= end.at <= time.time_ns() // 1_000
    assert started.executor == ""


def test_a_run_beyond_its_timeout_is_timed_out_and_its_processes_are_gone(place, tmp_path):
    end = place.run(job_of(sh(f"echo $$ > {tmp_path}/pid; sleep 600"), timeout_us=SECOND // 2))
    assert (end.state, end.detail) == (TIMED_OUT, "it took longer than 500ms")
    assert not is_alive(int(written(tmp_path / "pid")))


def test_the_resources_that_a_step_used_are_known(place):
    place.run(job_of(sh("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")))
    (step,) = place.steps
    assert (step.name, step.state, step.exit_code, step.tries) == ("main", SUCCEEDED, 0, 1)
    assert step.user_us > 0
    assert step.max_rss_bytes > 0
    assert '"step"' in place.journal()


# Twice is not twice


def test_a_known_attempt_is_never_started_again(place, tmp_path):
    job = job_of(sh(f"echo ran >> {tmp_path}/runs"))
    for _ in range(3):
        place.run(job)
    executor = place.open()
    executor.launch(launch(job, attempt=2))
    place.end_of(KEY, 2)
    assert (tmp_path / "runs").read_text() == "ran\nran\n"


def test_an_attempt_with_an_older_fence_is_refused(place, tmp_path):
    place.run(job_of(argv("true")), fence=8)
    place.open().launch(launch(job_of(sh(f"touch {tmp_path}/ran")), attempt=2, fence=7))
    assert "fence 7 is older than 8" in place.refusal_of(KEY, 2).detail
    assert not (tmp_path / "ran").exists()


# Stopping


def test_a_stopped_run_is_cancelled_with_its_reason_and_real_end(place):
    executor = place.open()
    executor.launch(launch(job_of(sh("trap 'exit 5' TERM; while :; do sleep 0.01; done"))))
    place.start_of(KEY)
    executor.stop(KEY, 1, "replaced")
    end = place.end_of(KEY)
    assert (end.state, end.detail) == (CANCELLED, "replaced")
    assert end.exit_code in {5, -15}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("exec sleep 600", id="ended by the signal"),
        pytest.param("trap 'exit 5' TERM; while :; do sleep 0.01; done", id="with an exit code of its own"),
    ],
)
def test_a_step_that_was_ended_with_its_run_says_so(place, text):
    executor = place.open()
    executor.launch(launch(job_of(sh("true", "make"), sh(text, "ship", depends=("make",)))))
    place.reports.wait_until(lambda _said: [step.state for step in place.steps] == ["succeeded", "running"])
    executor.stop(KEY, 1, "cancelled by anna")
    assert place.end_of(KEY).state == CANCELLED
    assert [(step.state, step.detail) for step in place.steps] == [
        ("succeeded", ""),
        ("failed", "ended with its run: cancelled by anna"),
    ]


def test_a_step_that_repeats_and_one_that_failed_before_the_run_was_ended_say_so(place):
    again = sh("true", "again", repeat=Repeat(600 * SECOND))
    tries = sh("exit 3", "tries", retry=Retry(3, 600 * SECOND))
    executor = place.open()
    executor.launch(launch(job_of(again, tries)))
    until(lambda: place.journal().count('"exited"') == 2, "both to wait")
    executor.stop(KEY, 1, "")
    assert place.end_of(KEY).state == CANCELLED
    assert {step.name: step.detail for step in place.steps} == {
        "again": "ended with its run: cancelled",
        "tries": "exit code 3",
    }


def test_a_step_that_was_ended_by_the_timeout_of_its_run_says_so(place):
    job = job_of(sh("true", "make"), sh("exec sleep 600", "ship", depends=("make",)), timeout_us=SECOND)
    assert place.run(job).state == TIMED_OUT
    assert place.steps[1].detail == "ended with its run: it took longer than 1s"


def test_a_tree_that_ignores_the_polite_end_is_gone_after_the_stop(place, tmp_path):
    """A shell that ignores it, a child of its own session, and a grandchild whose parent has ended."""
    program = f"""
    trap '' TERM
    setsid sh -c 'trap "" TERM; echo $$ > {tmp_path}/apart; while :; do sleep 1; done' &
    (sh -c 'trap "" TERM; echo $$ > {tmp_path}/orphan; while :; do sleep 1; done' &)
    echo $$ > {tmp_path}/shell
    while :; do sleep 1; done
    """
    executor = place.open()
    executor.launch(launch(job_of(sh(program))))
    pids = [written(tmp_path / name) for name in ("shell", "apart", "orphan")]
    executor.stop(KEY, 1, "enough")
    assert place.end_of(KEY).state == CANCELLED
    assert [pid for pid in pids if is_alive(int(pid))] == []


def test_a_run_of_the_same_name_in_another_folder_is_left_alone(place, tmp_path):
    other = Place(tmp_path / "other")
    try:
        for executor in (place.open(), other.open()):
            executor.launch(launch(job_of(argv("sleep", "600"))))
        place.start_of(KEY)
        other.start_of(KEY)
        place.open().stop(KEY, 1, "enough")
        assert place.end_of(KEY).state == CANCELLED
        assert other.run(job_of(argv("true")), key=key_of(1)).state == SUCCEEDED
        assert not any(isinstance(one, RunFinished) and one.key == KEY for one in other.reports)
    finally:
        other.close()


def test_stopping_before_the_start_prevents_it(place, tmp_path):
    executor = place.open(lanes=LaneSettings(fast=1))
    (tmp_path / "gate").touch()
    waits = Condition(ConditionKind.COMMAND, f"while [ -e {tmp_path}/gate ]; do sleep 0.01; done")
    executor.launch(launch(job_of(argv("true"), preconditions=(waits,)), key_of(0)))
    executor.launch(launch(job_of(sh(f"touch {tmp_path}/ran")), key_of(1)))
    executor.stop(key_of(1), 1, "not needed")
    assert place.end_of(key_of(1)).state == CANCELLED
    (tmp_path / "gate").unlink()
    assert place.end_of(key_of(0)).state == SUCCEEDED
    assert not (tmp_path / "ran").exists()


def test_a_run_can_be_stopped_while_its_condition_is_being_asked(place):
    executor = place.open()
    asks = Condition(ConditionKind.COMMAND, "sleep 600")
    executor.launch(launch(job_of(argv("true"), preconditions=(asks,))))
    until(lambda: "accepted" in place.journal(), "the attempt to be accepted")
    executor.stop(KEY, 1, "enough")
    assert place.end_of(KEY).state == CANCELLED


def test_handlers_are_not_bound_by_the_timeout_of_their_run(place):
    handlers = Handlers(on_exit=sh("sleep 0.5; echo over", "always"))
    assert place.run(job_of(argv("true"), timeout_us=SECOND // 4, handlers=handlers)).state == SUCCEEDED
    assert place.log(step="always") == b"over\n"


def test_a_run_that_has_ended_by_itself_is_not_cancelled_any_more(place, tmp_path):
    """The keeper sleeps while the process ends and the stop arrives, so it hears of both at once."""
    executor = place.open()
    executor.launch(launch(job_of(sh(f"echo $$ > {tmp_path}/pid; while [ ! -e {tmp_path}/go ]; do sleep 0.01; done"))))
    pid = written(tmp_path / "pid")
    place.start_of(KEY)
    (keeper,) = place.keepers()
    os.kill(keeper, signal.SIGSTOP)
    (tmp_path / "go").touch()
    until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", "the process to end")
    executor.stop(KEY, 1, "too late")
    executor.reconcile([(key_of(1), 1)])
    os.kill(keeper, signal.SIGCONT)
    assert place.end_of(KEY).state == SUCCEEDED


def test_everything_can_be_stopped_and_waited_for(place):
    executor = place.open()
    for number in range(5):
        executor.launch(launch(job_of(argv("sleep", "600")), key_of(number)))
    place.start_of(key_of(4))
    assert not executor.drain(0.01)
    executor.stop_all("closing time")
    assert executor.drain(20)
    assert {one.state for one in place.reports if isinstance(one, RunFinished)} == {CANCELLED}
    assert executor.members()[0].running == 0


# What a process finds


def test_a_process_receives_the_facts_of_its_run_and_nothing_of_the_scheduler(place, monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    place.open()
    job = job_of(sh("env"), env=(("GREETING", "hello"),))
    order = Launch(RunKey("report", NINE, "by-hand"), 3, 9, job, Trigger.MANUAL, '{"a": 1}', NINE - SECOND)
    place._opened[-1].launch(order)
    place.end_of(order.key, 3)
    found = dict(row.split("=", 1) for row in place.log(order.key, attempt=3).decode().splitlines())
    assert found["GREETING"] == "hello"
    assert found["EVERTICK_RUN_JOB"] == "report"
    assert found["EVERTICK_RUN_ID"] == order.key.run_id
    assert (found["EVERTICK_RUN_ATTEMPT"], found["EVERTICK_RUN_FENCE"], found["EVERTICK_RUN_STEP"]) == (
        "3",
        "9",
        "main",
    )
    assert found["EVERTICK_RUN_SCHEDULED_FOR"] == to_text(NINE)
    assert found["EVERTICK_RUN_SCHEDULED_FOR_UNIX"] == str(NINE // SECOND)
    assert found["EVERTICK_RUN_TRIGGER"] == "manual"
    assert found["EVERTICK_RUN_PREVIOUS_SUCCESS"] == to_text(NINE - SECOND)
    assert found["EVERTICK_RUN_PARAMS"] == '{"a": 1}'
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", found["TRACEPARENT"])
    assert "DATABASE_PASSWORD" not in found
    assert "PYTHONPATH" not in found


def test_a_process_has_a_session_of_its_own_no_input_a_narrow_mask_and_no_stray_descriptors(place):
    step = sh("read x; echo input=$?; umask; ulimit -c; ls /proc/self/fd; cut -d' ' -f1,5,6 /proc/self/stat")
    place.run(job_of(step))
    *head, own = place.log().decode().splitlines()
    assert head[:3] == ["input=1", "0077", "0"]
    assert sorted(head[3:]) == ["0", "1", "2", "3"]  # the fourth is the folder that `ls` reads
    _, group, session = own.split()
    assert group == session != str(os.getsid(0))


def test_a_memory_and_a_file_limit_hold(place):
    limits = KeeperSettings(memory_bytes=300 * 1024 * 1024, files=17)
    place.open(LocalSettings(keeper=limits))
    # The limits are set just after the start.
    place.run(job_of(sh("sleep 0.2; ulimit -v; ulimit -n")))
    assert place.log().decode().split() == [str(300 * 1024), "17"]


def test_parameters_arrive_as_variables_and_never_as_shell_text(place):
    job = job_of(sh('echo "$WHO"'), params=(Param("WHO", "nobody"), Param("LEVEL", "1", {"type": "integer"})))
    params = json.dumps({"WHO": "$(echo injected); `id`", "LD_PRELOAD": "/tmp/evil.so"})
    assert place.run(job, params=params).state == SUCCEEDED
    assert place.log() == b"$(echo injected); `id`\n"


@pytest.mark.parametrize(
    ("param", "params", "reason"),
    [
        pytest.param(Param("WHO"), "", "was not given and has no default", id="one that is missing"),
        pytest.param(
            Param("N", "1", {"type": "integer"}), '{"N": "x"}', "not a whole number", id="one that does not fit"
        ),
        pytest.param(Param("N", "1"), "no json", "are not valid JSON", id="ones that cannot be read"),
    ],
)
def test_bad_parameters_fail_the_run_and_say_why(place, param, params, reason):
    end = place.run(job_of(argv("true"), params=(param,)), params=params)
    assert end.state == FAILED
    assert reason in end.detail


# Secrets


def test_a_secret_reaches_only_its_process(place, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN_AT_HOME", "s3cret/value+1")
    (tmp_path / "key").write_text("file-secret\n")
    place.open()
    env = (("TOKEN", Secret("env", "TOKEN_AT_HOME")), ("KEY", Secret("file", str(tmp_path / "key"))))
    checks = '[ "$TOKEN" = "s3cret/value+1" ] && [ "$KEY" = file-secret ] && '
    text = checks + 'printf "%s " "$TOKEN" "$KEY"; printf %s "user:$TOKEN" | base64; printf %s "$KEY" | base64'
    assert place.run(job_of(sh(text), env=env)).state == SUCCEEDED
    log = place.log()
    assert b"s3cret" not in log
    assert b"file-secret" not in log
    assert b"czNjcmV0" not in log  # the beginning of the first one in base64
    assert log.startswith(b"*** *** ")
    assert "s3cret" not in place.journal()
    assert "file-secret" not in place.journal()


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        pytest.param(
            Secret("env", "NOT_THERE"), "'NOT_THERE' is not set in the scheduler's environment", id="no variable"
        ),
        pytest.param(Secret("file", "/no/such/file"), "cannot be read: No such file", id="no file"),
        pytest.param(Secret("file", "/tmp"), "is not a file", id="a folder"),
        pytest.param(Secret("vault", "x"), "Use 'env' or 'file'", id="an unknown source"),
    ],
)
def test_a_secret_that_cannot_be_had_fails_the_run(place, secret, reason):
    end = place.run(job_of(argv("true"), env=(("X", secret),)))
    assert end.state == FAILED
    assert reason in end.detail


# Steps


def order_of(place) -> list[str]:
    return [one.name for one in place.steps if not re.search("did not succeed|before it began", one.detail)]


def test_steps_run_in_the_order_of_their_dependencies_and_hand_values_on(place):
    job = job_of(
        sh('echo "got $ONE and $TWO"', "last", depends=("two", "one")),
        sh("echo first; echo noise >&2", "one", output="ONE"),
        sh('echo "second after $ONE"', "two", depends=("one",), output="TWO"),
    )
    assert place.run(job).state == SUCCEEDED
    assert order_of(place) == ["one", "two", "last"]
    assert place.log(step="last") == b"got first and second after first\n"
    assert b"noise" in place.log(step="one")


def test_steps_that_do_not_need_each_other_run_at_the_same_time(place, tmp_path):
    """Each waits for a sign of the other."""
    meet = "touch {0}/{1}; while [ ! -e {0}/{2} ]; do sleep 0.01; done"
    job = job_of(sh(meet.format(tmp_path, "a", "b"), "one"), sh(meet.format(tmp_path, "b", "a"), "two"))
    assert place.run(job, key=KEY).state == SUCCEEDED


def test_no_more_steps_than_allowed_run_at_the_same_time(place, tmp_path):
    lone = f"mkdir {tmp_path}/alone && sleep 0.02 && rmdir {tmp_path}/alone"
    job = job_of(*(sh(lone, f"step-{number}") for number in range(4)), max_active_steps=1)
    assert place.run(job).state == SUCCEEDED


def test_steps_that_depend_on_a_failure_do_not_run_and_the_rest_do(place):
    job = job_of(
        sh("exit 4", "bad"),
        sh("true", "behind", depends=("bad",)),
        sh("true", "beside"),
        sh("true", "far", depends=("behind",)),
    )
    end = place.run(job)
    assert (end.state, end.exit_code, end.detail) == (FAILED, 4, "step 'bad': exit code 4")
    assert sorted(order_of(place)) == ["bad", "beside"]


@pytest.mark.parametrize(
    ("rule", "state", "ran"),
    [
        pytest.param(ContinueOn(), FAILED, ["bad"], id="nothing lets those behind go on"),
        pytest.param(ContinueOn(failure=True), SUCCEEDED, ["bad", "behind"], id="any failure does"),
        pytest.param(ContinueOn(exit_codes=(4,)), SUCCEEDED, ["bad", "behind"], id="this exit code does"),
        pytest.param(ContinueOn(exit_codes=(5,)), FAILED, ["bad"], id="another exit code does not"),
        pytest.param(
            ContinueOn(failure=True, marks_success=True), SUCCEEDED, ["bad", "behind"], id="and counts as well"
        ),
    ],
)
def test_a_failure_may_be_passed_over(place, rule, state, ran):
    end = place.run(job_of(sh("exit 4", "bad", continue_on=rule), sh("true", "behind", depends=("bad",))))
    assert (end.state, order_of(place)) == (state, ran)
    if rule.marks_success:
        assert place.steps[0].state == SUCCEEDED


NO_FILE = Condition(ConditionKind.FILE_EXISTS, "/no/such/file")


@pytest.mark.parametrize(
    ("rule", "ran"),
    [
        pytest.param(ContinueOn(), ["one"], id="those behind a skipped step are skipped too"),
        pytest.param(ContinueOn(skipped=True), ["one", "two"], id="unless it lets them go on"),
    ],
)
def test_a_step_whose_condition_does_not_hold_is_skipped_and_does_not_fail(place, rule, ran):
    job = job_of(sh("true", "one", preconditions=(NO_FILE,), continue_on=rule), sh("true", "two", depends=("one",)))
    assert place.run(job).state == SUCCEEDED
    assert (order_of(place), place.steps[0].state) == (ran, "skipped")


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        pytest.param(Condition(ConditionKind.FILE_EXISTS, "/etc/passwd"), True, id="a file that is there"),
        pytest.param(NO_FILE, False, id="one that is not"),
        pytest.param(Condition(ConditionKind.COMMAND, "true"), True, id="a command that agrees"),
        pytest.param(Condition(ConditionKind.COMMAND, "exit 2"), False, id="one that does not"),
        pytest.param(Condition(ConditionKind.COMMAND, "echo yes", "yes"), True, id="the output that is expected"),
        pytest.param(Condition(ConditionKind.COMMAND, "echo yes", "no"), False, id="another output"),
        pytest.param(Condition(ConditionKind.COMMAND, "echo yes", "re:^y.s$"), True, id="output that matches"),
        pytest.param(Condition(ConditionKind.COMMAND, "echo yes", "re:("), False, id="a pattern that is none"),
        pytest.param(Condition(ConditionKind.HTTP, "http://127.0.0.1:1/"), False, id="an address that does not answer"),
        pytest.param(Condition(ConditionKind.HTTP, "no address"), False, id="no address at all"),
    ],
)
def test_a_run_is_skipped_when_its_condition_does_not_hold(place, tmp_path, condition, holds):
    end = place.run(job_of(sh(f"touch {tmp_path}/ran"), preconditions=(condition,)))
    assert end.state == (SUCCEEDED if holds else SKIPPED)
    assert end.detail.startswith("" if holds else "condition: ")
    assert (tmp_path / "ran").exists() == holds
    assert any(isinstance(one, RunStarted) for one in place.reports) == holds


def test_a_step_is_retried_as_often_as_defined(place, tmp_path):
    again = Retry(max_retries=3, delay_us=1_000, backoff=Backoff.FIXED)
    job = job_of(sh(f"echo x >> {tmp_path}/tries; [ $(wc -l < {tmp_path}/tries) -ge 3 ]", retry=again))
    assert place.run(job).state == SUCCEEDED
    assert place.steps[0].tries == 3


def test_a_step_that_never_succeeds_fails_after_its_last_try(place, tmp_path):
    again = Retry(max_retries=2, delay_us=1_000, backoff=Backoff.FIXED)
    assert place.run(job_of(sh(f"echo x >> {tmp_path}/tries; exit 9", retry=again))).exit_code == 9
    assert (tmp_path / "tries").read_text() == "x\n" * 3


@pytest.mark.parametrize(
    ("repeat", "state", "times"),
    [
        pytest.param(Repeat(1_000, limit=4), SUCCEEDED, 4, id="so many times"),
        pytest.param(
            Repeat(1_000, 9, Condition(ConditionKind.COMMAND, "[ $(wc -l < runs) -ge 3 ]")), SUCCEEDED, 3, id="until"
        ),
        pytest.param(Repeat(1_000, 2, NO_FILE), FAILED, 2, id="until, in vain"),
    ],
)
def test_a_step_is_repeated(place, tmp_path, repeat, state, times):
    assert place.run(job_of(sh("echo x >> runs", repeat=repeat, working_dir=str(tmp_path)))).state == state
    assert (tmp_path / "runs").read_text() == "x\n" * times


def test_a_run_that_waits_between_two_tries_can_be_stopped(place, tmp_path):
    again = Retry(max_retries=9, delay_us=3_600 * SECOND, backoff=Backoff.FIXED)
    executor = place.open()
    executor.launch(launch(job_of(sh(f"echo > {tmp_path}/tried; exit 1", retry=again))))
    written(tmp_path / "tried")
    executor.stop(KEY, 1, "enough")
    assert place.end_of(KEY).state == CANCELLED


@pytest.mark.parametrize(
    ("step", "ran"),
    [
        pytest.param(sh("true"), ["main", "glad", "always"], id="success"),
        pytest.param(sh("false"), ["main", "sorry", "always"], id="failure"),
    ],
)
def test_handlers_run_by_how_the_steps_ended(place, step, ran):
    handlers = Handlers(
        on_success=sh('echo "$EVERTICK_RUN_OUTCOME"', "glad"),
        on_failure=sh("exit 7", "sorry"),
        on_cancel=sh("true", "gone"),
        on_exit=sh('echo "$EVERTICK_RUN_OUTCOME"; exit 1', "always"),
    )
    end = place.run(job_of(step, handlers=handlers))
    assert order_of(place) == ran
    assert end.state == (SUCCEEDED if ran[1] == "glad" else FAILED)
    assert end.exit_code == (0 if ran[1] == "glad" else 1)
    assert place.log(step="always").decode().strip() == end.state


def test_a_cancelled_run_has_its_own_handler(place):
    executor = place.open()
    handlers = Handlers(on_cancel=sh("true", "gone"), on_exit=sh("true", "always"))
    executor.launch(launch(job_of(sh("sleep 600"), handlers=handlers)))
    place.start_of(KEY)
    executor.stop(KEY, 1, "enough")
    assert place.end_of(KEY).state == CANCELLED
    assert order_of(place) == ["main", "gone", "always"]


def test_a_retry_continues_from_the_failed_step(place, tmp_path):
    job = job_of(
        sh(f"echo made; echo x >> {tmp_path}/makes", "make", output="MADE"),
        sh(f'echo "$MADE"; [ -e {tmp_path}/ready ]', "use", depends=("make",)),
    )
    assert place.run(job).state == FAILED
    (tmp_path / "ready").touch()
    again = RunKey("report", NINE, "retry-1")
    assert place.run(job, key=again, params=resuming(place)).state == SUCCEEDED
    assert (tmp_path / "makes").read_text() == "x\n"
    assert place.log(again, step="use") == b"made\n"
    assert [(step.name, step.reused_from) for step in place.steps] == [("make", KEY.run_id), ("use", "")]


@pytest.mark.parametrize(
    "length", [pytest.param(10, id="short"), pytest.param(100_000, id="longer than the ledger keeps")]
)
def test_a_retry_hands_on_what_was_printed_before_whole(place, tmp_path, length):
    job = job_of(
        sh(f"head -c {length} /dev/zero | tr '\\0' x; echo x >> {tmp_path}/makes", "make", output="MADE"),
        sh(f"[ ${{#MADE}} -eq {length} ] && [ -e {tmp_path}/ready ]", "use", depends=("make",)),
    )
    assert place.run(job).state == FAILED
    (tmp_path / "ready").touch()
    assert place.run(job, key=RunKey("report", NINE, "retry-1"), params=resuming(place)).state == SUCCEEDED
    assert (tmp_path / "makes").read_text() == "x\n"


def test_a_step_whose_output_is_secret_is_repeated(place, tmp_path):
    place.open(environ={**os.environ, "TOKEN": "hush-hush"})
    job = job_of(
        sh(f'echo "$T"; echo x >> {tmp_path}/makes', "make", output="MADE", env=(("T", Secret("env", "TOKEN")),)),
        sh(f'[ "$MADE" = hush-hush ] && [ -e {tmp_path}/ready ]', "use", depends=("make",)),
    )
    assert place.run(job).state == FAILED
    (tmp_path / "ready").touch()
    assert "hush" not in resuming(place)
    assert place.run(job, key=RunKey("report", NINE, "retry-1"), params=resuming(place)).state == SUCCEEDED
    assert (tmp_path / "makes").read_text() == "x\nx\n"


def test_a_step_that_changed_since_is_repeated(place, tmp_path):
    def job(text):
        return job_of(sh(text, "make"), sh(f"[ -e {tmp_path}/ready ]", "use", depends=("make",)))

    assert place.run(job("true")).state == FAILED
    (tmp_path / "ready").touch()
    assert (
        place.run(job(f"touch {tmp_path}/made"), key=RunKey("report", NINE, "r"), params=resuming(place)).state
        == SUCCEEDED
    )
    assert (tmp_path / "made").exists()


def resuming(place) -> str:
    """What a retry of the first run from its failed step is given."""
    steps = [one._asdict() for one in place.steps]
    return json.dumps({"resume_from": {"run": KEY.run_id, "attempt": 1, "steps": steps}})


def test_steps_are_reported_during_the_run(place, tmp_path):
    executor = place.open()
    executor.launch(launch(job_of(sh("true", "first"), sh("sleep 600", "second", depends=("first",)))))
    place.reports.wait_until(
        lambda _: [(one.name, one.state) for one in place.steps] == [("first", "succeeded"), ("second", "running")]
    )
    executor.stop(KEY, 1, "enough")
    place.end_of(KEY)
    assert [(one.name, one.state) for one in place.steps] == [("first", "succeeded"), ("second", "failed")]


def test_steps_that_were_never_reached_have_a_reason(place):
    place.run(job_of(sh("exit 3", "first"), sh("true", "second", depends=("first",))))
    assert [(one.name, one.state, one.detail) for one in place.steps] == [
        ("first", "failed", "exit code 3"),
        ("second", "skipped", "step 'first' did not succeed"),
    ]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("head -c 200000 /dev/zero | tr '\\0' x", "a variable holds", id="too long"),
        pytest.param("printf 'a\\0b'", "NUL byte", id="with a NUL byte"),
    ],
)
def test_output_that_no_variable_can_hold_fails_the_step(place, text, reason):
    end = place.run(job_of(sh(text, output="OUT")))
    assert end.state == FAILED
    assert reason in end.detail


# Lanes


def test_many_slow_jobs_do_not_keep_a_fast_one_from_starting(place, tmp_path):
    """They hang in their conditions, all at once and for the first time, until the fast one has run."""
    executor = place.open(lanes=LaneSettings(fast=10, slow=5))
    fast = job_of(sh("true"), id="fast")
    place.run(fast)
    hangs = Condition(ConditionKind.COMMAND, f"until [ -e {tmp_path}/go ]; do sleep 0.2; done")
    slow = [key_of(0, f"slow-{number}") for number in range(40)]
    for key in slow:
        executor.launch(launch(job_of(sh("true"), id=key.job_id, preconditions=(hangs,)), key=key))
    assert place.run(fast, key=key_of(1, "fast")).state == SUCCEEDED
    ended = {one.key for one in place.reports if isinstance(one, RunFinished)}
    assert not ended & set(slow)
    (tmp_path / "go").touch()
    assert {place.end_of(key).state for key in slow} == {SUCCEEDED}


def test_a_full_lane_refuses_and_drops_nothing(place, tmp_path):
    lanes = LaneSettings(fast=1, fast_queue=1)
    executor = place.open(lanes=lanes)
    (tmp_path / "gate").touch()
    waits = Condition(ConditionKind.COMMAND, f"while [ -e {tmp_path}/gate ]; do sleep 0.01; done")
    for number in range(3):
        executor.launch(launch(job_of(argv("true"), preconditions=(waits,)), key_of(number)))
    assert place.refusal_of(key_of(2)).detail == "too many launches are in progress"
    (tmp_path / "gate").unlink()
    place.end_of(key_of(1))
    executor.launch(launch(job_of(argv("true")), key_of(2)))
    assert place.end_of(key_of(2)).state == SUCCEEDED


@pytest.mark.slow
def test_jobs_that_are_slow_to_start_do_not_hold_a_fast_one_up(place, tmp_path):
    """They fill the fast lane before anybody can know that they are slow, and have to give their places up."""
    lanes = LaneSettings(fast=10, slow_after_us=SECOND // 5)
    executor = place.open(lanes=lanes)
    (tmp_path / "gate").touch()
    waits = Condition(ConditionKind.COMMAND, f"while [ -e {tmp_path}/gate ]; do sleep 0.1; done")
    for number in range(40):
        slow = job_of(argv("true"), id=f"slow-{number}", preconditions=(waits,))
        executor.launch(launch(slow, key_of(0, slow.id)))
    executor.launch(launch(job_of(argv("true"), id="fast"), key_of(0, "fast")))
    assert place.end_of(key_of(0, "fast")).state == SUCCEEDED
    assert not any(isinstance(one, RunFinished) and one.key.job_id != "fast" for one in place.reports)
    (tmp_path / "gate").unlink()
    assert executor.drain(60)


# The folder and the socket


def test_everything_in_the_state_folder_is_private(place):
    place.run(job_of(sh("echo hi")))
    modes = {
        path.relative_to(place.folder).as_posix(): oct(path.stat().st_mode & 0o777) for path in place.folder.rglob("*")
    }
    assert set(modes.values()) <= {"0o700", "0o600"}
    assert modes["keeper-0/keeper.sock"] == "0o600"


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(b"\0\xff\xfe" * 1000 + b"\n", id="bytes"),
        pytest.param(b'["hello",1]\n["launch",1,2,3]\n', id="an order with missing parts"),
        pytest.param(b'["hello",1]\n["stop",{},[],null,"x","y"]\n', id="a stop of nothing"),
        pytest.param(b'["hello",1]\n["confirmed"]\n', id="a confirmation of nothing"),
        pytest.param(b'["hello",1]\n["delivered",Infinity]\n', id="a number that is none"),
        pytest.param(b'["hello",1]\n["dance"]\n', id="an unknown verb"),
        pytest.param(b"[" * 100_000 + b"\n", id="a deep nesting"),
        pytest.param(b'["launch","a",1,"",1,1,"x","",null,"{}",{}]\n', id="no greeting"),
    ],
)
def test_garbage_on_the_socket_ends_that_connection_alone(place, garbage):
    place.run(job_of(argv("true")))
    with protocol.connect(place.folder / "keeper-0") as sock:
        sock.settimeout(20)
        sock.sendall(garbage)
        while sock.recv(65536):
            pass
    assert place.run(job_of(argv("true")), key=key_of(1)).state == SUCCEEDED
    assert len(place.keepers()) == 1


@pytest.mark.slow
def test_a_line_without_end_is_cut_off(place):
    place.run(job_of(argv("true")))
    with protocol.connect(place.folder / "keeper-0") as sock:
        sock.settimeout(20)
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            sock.sendall(b"x" * 64 * 1024 * 1024)


def test_a_folder_of_another_user_is_refused(place, monkeypatch):
    place.folder.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(SettingsError, match="belongs to another user"):
        place.open()


def test_a_keeper_that_cannot_be_started_refuses_and_says_why(place, monkeypatch):
    monkeypatch.setattr("evertick.executors.keeper_process.sys.executable", "/no/such/python")
    executor = place.open()
    executor.launch(launch(job_of(argv("true"))))
    assert "No such file" in place.refusal_of(KEY).detail
    assert not executor.members()[0].is_healthy


def test_a_keeper_goes_when_it_is_asked_to_and_another_comes_when_it_is_needed(place):
    place.run(job_of(argv("true")))
    (first,) = place.keepers()
    executor = place._opened[-1]
    executor.dismiss_keepers()
    until(lambda: first not in place.keepers(), "the keeper to go")
    assert place.run(job_of(argv("true")), key=key_of(1)).state == SUCCEEDED
    executor.reconcile([(KEY, 1)])
    until(lambda: sum(isinstance(one, RunFinished) and one.key == KEY for one in place.reports) == 2, "its memory")


@pytest.mark.slow
def test_an_idle_keeper_without_a_scheduler_exits_by_itself(place):
    executor = place.open(LocalSettings(keeper=KeeperSettings(idle_us=SECOND // 10)))
    executor.launch(launch(job_of(argv("true"))))
    place.end_of(KEY)
    executor.close()
    until(lambda: not place.keepers(), "the keeper to go")
    place.open().reconcile([(KEY, 1), (KEY, 2)])
    place.reports.wait_until(lambda said: RunUnknown(KEY, 2) in said)


def test_a_single_keeper_serves_a_folder_however_many_are_started(place):
    first, second = place.open(), place.open()
    for number in range(20):
        (first if number % 2 else second).launch(launch(job_of(argv("true")), key_of(number)))
    for number in range(20):
        place.end_of(key_of(number))
    # The other one finds the folder taken and goes.
    until(lambda: len(place.keepers()) == 1, "one keeper to remain")
    assert not any(isinstance(one, LaunchRefused) for one in place.reports)


def test_a_job_without_steps_succeeds(place):
    assert place.run(Job("report", work=Work())).state == SUCCEEDED


def test_a_state_folder_may_be_relative_to_the_schedulers_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = Place(Path("state"))
    try:
        assert place.run(job_of(sh("echo here"))).state == SUCCEEDED
        assert place.log() == b"here\n"
        place.folder = tmp_path / "state"
        assert len(place.keepers()) == 1
    finally:
        place.close()


def test_the_socket_is_reached_in_a_folder_of_any_depth(tmp_path):
    place = Place(tmp_path / "/".join(["deep" * 10] * 4))
    try:
        assert place.run(job_of(argv("true"))).state == SUCCEEDED
    finally:
        place.close()
