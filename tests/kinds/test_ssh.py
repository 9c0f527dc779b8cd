"""Does a command on another machine run, end and stop like a local one? With a real sshd."""

from __future__ import annotations

import base64
import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from evertick.executors.keeper.procfs import is_alive
from evertick.kinds import ExitNote, StepError
from evertick.kinds import ssh as ssh_kind
from evertick.kinds.ssh import remote_text, ssh_program, ssh_words
from evertick.kinds.ssh_runner import MarkFilter
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED, TIMED_OUT
from evertick.model.policy import Retry
from evertick.model.run import RunKey
from evertick.model.work import Param, Secret, SshCommand, Step
from evertick.settings.parts import KeeperSettings, LocalSettings
from tests.executors.contract import KEY
from tests.executors.local_runs import Place, job_of, key_of, kill, launch, sh, until, written
from tests.kinds.servers import SilentRelay, SshServer

pytestmark = pytest.mark.slow

MARK = "0123456789abcdef"


@pytest.fixture(scope="module")
def server() -> Iterator[SshServer]:
    server = SshServer()
    yield server
    server.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("state"))
    place.open(environ={"TOKEN": "geheim-1234", "PATH": os.environ["PATH"]})
    yield place
    place.close()


_numbers = count()


@pytest.fixture
def key() -> RunKey:
    """A run of its own in the place that all tests share."""
    return key_of(next(_numbers))


def command(server: SshServer, *words: str, **known) -> SshCommand:
    """A single word is a line for the shell."""
    at = {"port": server.port, "key": str(server.key), "known_hosts": str(server.known_hosts), **known}
    return SshCommand(at.pop("host", server.host), words, is_shell=len(words) == 1, user=server.user, **at)


def remote(server: SshServer, *words: str, name: str = "main", **known) -> Step:
    own = {field: known.pop(field) for field in ("port", "key", "known_hosts", "working_dir", "host") if field in known}
    return Step(name, command(server, *words, **own), **known)


# What the processes are given


def test_the_key_of_the_host_is_always_checked_and_nothing_is_forwarded():
    words = ssh_words(SshCommand("db1", ("true",), key="keys/id 100%", known_hosts="~/hosts", port=2222), "/srv", MARK)
    for option in ("BatchMode=yes", "StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "ForwardAgent=no"):
        assert option in words
    assert 'IdentityFile="/srv/keys/id 100%%"' in words
    assert f'UserKnownHostsFile="{Path.home()}/hosts"' in words
    assert words[-4:-1] == ["2222", "--", "db1"]
    assert MARK in words[-1]


def test_the_text_for_the_remote_shell_is_one_line_and_no_value_becomes_code():
    env = {"A": "it's $HOME `id`\n$(id)"}
    text = remote_text(SshCommand("db1", ("echo", "a b", "$A;'"), working_dir="/srv/x y"), env, MARK, 5)
    assert "\n" not in text
    ran = subprocess.run(["/bin/sh", "-n", "-c", text], capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    with pytest.raises(StepError, match="NUL"):
        remote_text(SshCommand("db1", ("a\0",)), {}, MARK, 5)
    with pytest.raises(StepError, match="cannot be set by a shell"):
        remote_text(SshCommand("db1", ("a",)), {"A;reboot": "1"}, MARK, 5)


def test_secrets_are_in_no_argument():
    program = ssh_program(SshCommand("db1", ("true",)), {"TOKEN": "geheim"}, "/", 5)
    assert "geheim" not in " ".join(program.argv)
    request = json.loads(program.payload or b"")
    assert "geheim" not in " ".join(request["argv"])
    assert "geheim" in request["text"]


@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_marks_are_taken_out_of_the_output_wherever_it_is_split(size):
    stream = f"hello {MARK} ready\none{MARK[:5]}two\npart{MARK} end 255\nrest".encode()
    marks = MarkFilter(MARK)
    out = b"".join(marks.feed(stream[at : at + size]) for at in range(0, len(stream), size)) + marks.finish()
    assert out == f"hello one{MARK[:5]}two\npartrest".encode()
    assert (marks.is_ready, marks.exit_code) == (True, 255)


# What becomes of it


def test_an_ssh_step_prints_and_ends_as_its_command_does(place, key, server):
    assert place.run(job_of(remote(server, "echo one; echo two >&2")), key=key).state is SUCCEEDED
    assert sorted(place.log(key).split()) == [b"one", b"two"]
    end = place.run(job_of(remote(server, "exit 7")), key=key, attempt=2)
    assert (end.state, end.exit_code) == (FAILED, 7)
    end = place.run(job_of(remote(server, "exit 255")), key=key, attempt=3)
    assert (end.state, end.exit_code, end.detail) == (FAILED, 255, "exit code 255")


def test_values_go_in_and_come_out_and_secrets_are_masked(place, key, server, tmp_path):
    odd = 'a\'b\n$(id) \\ "q"'
    job = job_of(
        sh("printf 'hello there'", "first", output="WORD"),
        remote(
            server,
            "printf",
            "%s|",
            "a b",
            "$HOME;id",
            name="words",
            depends=("first",),
            output="WORDS",
        ),
        remote(
            server,
            'echo "$WORD|$DAY|$EVERTICK_RUN_STEP|$ODD|$TOKEN|$(pwd)|${EVERTICK_KEEPER-none}"',
            depends=("words",),
            env=(("ODD", odd.replace("$", "$$")), ("TOKEN", Secret("env", "TOKEN"))),
            working_dir=str(tmp_path),
            output="ANSWER",
        ),
        sh('test "$WORDS" = "a b|\\$HOME;id|" && echo "$ANSWER"', "last", depends=("main",)),
        params=(Param("DAY"),),
    )
    assert place.run(job, params=json.dumps({"DAY": "$(id)"}), key=key).state is SUCCEEDED
    shown = f"hello there|$(id)|main|{odd}|***|{tmp_path}|none\n".encode()
    assert place.log(key) == shown
    assert place.log(key, step="last") == shown


def test_arguments_of_processes_hold_no_secret_on_either_side(place, key, server):
    line = "cat /proc/[0-9]*/cmdline 2>/dev/null | base64"
    assert place.run(job_of(remote(server, line, env=(("TOKEN", Secret("env", "TOKEN")),))), key=key).state is SUCCEEDED
    assert b"geheim-1234" not in base64.b64decode(place.log(key))


def test_another_key_of_the_host_is_refused(place, key, server):
    other = server.write_known_hosts(server.port, key="stranger")
    end = place.run(job_of(remote(server, "echo never", known_hosts=str(other))), key=key)
    assert (end.state, end.exit_code) == (FAILED, 255)
    assert "cannot be reached: Host key verification failed." in end.detail
    assert b"never" not in place.log(key)


def test_an_unknown_host_is_refused_and_not_remembered(place, key, server, tmp_path):
    empty = tmp_path / "hosts"
    empty.touch()
    end = place.run(job_of(remote(server, "echo never", known_hosts=str(empty))), key=key)
    assert "Host key verification failed" in end.detail
    assert empty.read_bytes() == b""


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        pytest.param({"key": "stranger"}, "Permission denied (publickey)", id="a key that is not allowed"),
        pytest.param({"port": 1}, "Connection refused", id="a port without a server"),
        pytest.param({"host": "host.invalid"}, "host.invalid", id="a name without an address"),
    ],
)
def test_a_host_that_cannot_be_reached_fails_the_step_with_the_words_of_openssh(place, key, server, changes, said):
    if "key" in changes:
        changes = {"key": str(server.folder / changes["key"])}
    end = place.run(job_of(remote(server, "true", **changes)), key=key)
    assert (end.state, end.exit_code) == (FAILED, 255)
    assert "cannot be reached" in end.detail
    assert said in end.detail


def test_a_failed_connection_is_retried(place, key, server, tmp_path):
    hosts = tmp_path / "hosts"
    hosts.touch()
    job = job_of(remote(server, "echo done", known_hosts=str(hosts), retry=Retry(1_000, delay_us=SECOND // 10)))
    place._opened[-1].launch(launch(job, key))
    until(lambda: b"try 2" in place.log(key), "another try")
    hosts.write_bytes(server.known_hosts.read_bytes())
    assert place.end_of(key).state is SUCCEEDED


def test_a_key_with_a_forced_command_is_explained(place, key, server):
    kept = server.allowed.read_text()
    stranger = (server.folder / "stranger.pub").read_text()
    server.allowed.write_text(f'{kept}command="exit 3" {stranger}')
    try:
        end = place.run(job_of(remote(server, "true", key=str(server.folder / "stranger"))), key=key)
    finally:
        server.allowed.write_text(kept)
    assert (end.state, end.exit_code) == (FAILED, 255)
    assert "without a forced command" in end.detail


def group_of(file: Path) -> list[int]:
    return [int(word) for word in written(file).split()]


def family(file: Path, *, obeys: bool = True) -> str:
    """A shell with a child, both named in a file; they obey SIGTERM or ignore it."""
    trap = 'trap "echo ending; exit 9" TERM' if obeys else 'trap "" TERM'
    return f"{trap}; sleep 600 & echo $$ $! > {shlex.quote(str(file))}; echo up; wait; wait"


@pytest.mark.parametrize("obeys", [True, False], ids=["that obeys", "that ignores the signal"])
def test_a_stop_ends_the_processes_there(place, key, server, tmp_path, obeys):
    file = tmp_path / "pids"
    place._opened[-1].launch(launch(job_of(remote(server, family(file, obeys=obeys))), key))
    pids = group_of(file)
    place._opened[-1].stop(key, 1, "enough")
    assert place.end_of(key).state is CANCELLED
    until(lambda: not any(map(is_alive, pids)), "the processes there to end")


def test_a_command_that_obeys_a_stop_is_read_to_its_end(tmp_path, server):
    place = Place(tmp_path / "state")
    place.open(LocalSettings(keeper=KeeperSettings(kill_after_us=60 * SECOND, idle_us=2 * SECOND)))
    try:
        file = tmp_path / "pids"
        place._opened[-1].launch(launch(job_of(remote(server, family(file)))))
        group_of(file)
        place._opened[-1].stop(KEY, 1, "enough")
        assert place.end_of(KEY).state is CANCELLED
        assert place.log() == b"up\nending\n"
    finally:
        place.close()


def test_a_timeout_ends_the_processes_there(place, key, server, tmp_path):
    file = tmp_path / "pids"
    end = place.run(job_of(remote(server, family(file)), timeout_us=4 * SECOND), key=key)
    assert end.state is TIMED_OUT
    pids = group_of(file) if file.exists() else []  # a busy machine may not have come so far
    until(lambda: not any(map(is_alive, pids)), "the processes there to end")


def test_a_process_left_behind_does_not_hold_the_step(place, key, server, tmp_path):
    file = tmp_path / "pid"
    assert place.run(job_of(remote(server, f"sleep 600 & echo $! > {file}; echo done")), key=key).state is SUCCEEDED
    (pid,) = group_of(file)
    assert place.log(key) == b"done\n"
    assert is_alive(pid)
    kill(pid)


def test_a_killed_keeper_leaves_nothing_running_once_its_attempt_is_stopped(place, key, server, tmp_path):
    file = tmp_path / "pids"
    place._opened[-1].launch(launch(job_of(remote(server, family(file))), key))
    pids = group_of(file)
    for pid in place.keepers():
        kill(pid)
    place._opened[-1].stop(key, 1, "enough")
    until(lambda: not any(map(is_alive, pids)), "the processes there to end")


def test_a_restarted_scheduler_gets_the_result_of_a_command_that_runs_meanwhile(place, key, server, tmp_path):
    go, up = tmp_path / "go", tmp_path / "up"
    line = f"echo up > {up}; while [ ! -e {go} ]; do sleep 0.05; done; echo done; exit 4"
    first = place._opened[-1]
    first.launch(launch(job_of(remote(server, line)), key))
    written(up)
    first.close()
    second = place.open()
    second.reconcile([(key, 1)])
    go.touch()
    end = place.end_of(key)
    assert (end.state, end.exit_code) == (FAILED, 4)
    assert place.log(key) == b"done\n"


def test_the_result_of_a_command_whose_keeper_was_killed_is_recovered(place, key, server, tmp_path):
    go, up = tmp_path / "go", tmp_path / "up"
    line = f"echo up > {up}; while [ ! -e {go} ]; do sleep 0.05; done; exit 4"
    place._opened[-1].launch(launch(job_of(remote(server, line)), key))
    written(up)
    for pid in place.keepers():
        kill(pid)
    go.touch()
    end = place.end_of(key)
    assert (end.state, end.exit_code, end.detail) == (FAILED, 4, "exit code 4")


# The connection


def runner(program, tmp_path: Path) -> tuple[subprocess.Popen[bytes], Path]:
    payload, note = tmp_path / "payload", tmp_path / "note"
    payload.write_bytes(program.payload)
    words = ["/bin/sh", "-c", 'exec "$@" 3<"$PAYLOAD" 4>"$NOTE"', "sh", *program.argv]
    env = {**os.environ, "PAYLOAD": str(payload), "NOTE": str(note)}
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT), note


@pytest.mark.parametrize("is_silent", [True, False], ids=["silently", "with an error"])
def test_a_lost_connection_ends_the_command_there_before_the_step_ends(server, tmp_path, monkeypatch, is_silent):
    monkeypatch.setattr(ssh_kind, "SILENCE_SECONDS", 4)
    monkeypatch.setattr(ssh_kind, "TICK_SECONDS", 1)
    monkeypatch.setattr(ssh_kind, "_OPTIONS", ("ServerAliveInterval=1", *ssh_kind._OPTIONS))
    relay, file = SilentRelay(server.port), tmp_path / "pids"
    try:
        server.write_known_hosts(relay.port)
        process, note = runner(ssh_program(command(server, family(file), port=relay.port), {}, "/", 2), tmp_path)
        pids = group_of(file)
        relay.cut() if is_silent else relay.break_all()
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 255
        left = ExitNote.decode(note.read_bytes())
        assert left.is_lost
        assert "was lost" in left.reason
        assert b"waiting" in said
        assert [pid for pid in pids if is_alive(pid)] == []
    finally:
        relay.close()


def test_heartbeats_keep_a_silent_command_running(server, tmp_path, monkeypatch):
    monkeypatch.setattr(ssh_kind, "HEARTBEAT_SECONDS", 0.2)
    monkeypatch.setattr(ssh_kind, "SILENCE_SECONDS", 4)
    monkeypatch.setattr(ssh_kind, "TICK_SECONDS", 1)
    process, _ = runner(ssh_program(command(server, "sleep 7; echo done"), {}, "/", 2), tmp_path)
    said, _ = process.communicate(timeout=120)
    assert (process.returncode, said) == (0, b"done\n")
