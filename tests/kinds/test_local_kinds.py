"""Which process each kind of step starts, and its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evertick.kinds import RESULT_FD, Program, StepError
from evertick.kinds.command import command_program, find_program, script_program
from evertick.kinds.http import BODY_MAX, HttpExchange, HttpRequest, parse_url, shown
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED
from evertick.model.work import Command, HttpCall, Param, Pod, PythonCall, Script, Secret
from evertick.settings.parts import KeeperSettings, LocalSettings
from tests.executors.contract import KEY
from tests.executors.local_runs import Place, job_of, launch, of_kind, script, sh


@pytest.fixture
def place(tmp_path):
    place = Place(tmp_path / "state")
    yield place
    place.close()


# Commands and scripts


def test_a_command_is_its_words_and_a_line_goes_to_the_shell():
    assert command_program(Command(("a", "b c"))) == Program(("a", "b c"))
    assert command_program(Command(("a | b",), is_shell=True)) == Program(("/bin/sh", "-c", "a | b"))


def test_a_program_is_looked_up_in_the_path_of_its_own_process(tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    with pytest.raises(PermissionError, match="chmod"):
        find_program("tool", {"PATH": str(tmp_path)}, "")
    (tmp_path / "tool").chmod(0o700)
    assert find_program("tool", {"PATH": f"/nowhere:{tmp_path}"}, "") == str(tmp_path / "tool")
    assert find_program("./tool", {}, str(tmp_path)) == f"{tmp_path}/./tool"
    with pytest.raises(FileNotFoundError, match="set PATH"):
        find_program("tool", {"PATH": "/nowhere"}, "")


@pytest.mark.parametrize(
    ("written", "argv"),
    [
        pytest.param(Script("echo"), ("/bin/sh", "-e"), id="the shell"),
        pytest.param(Script("#!/usr/bin/env python3\n"), ("/usr/bin/env", "python3"), id="its first line"),
        pytest.param(Script("#!/bin/sh\n", ("/bin/cat",)), ("/bin/cat",), id="the one that is named"),
    ],
)
def test_the_interpreter_of_a_script(written, argv):
    assert script_program(written).argv == argv


@pytest.mark.parametrize("text", ["", " \n", "#!\n"])
def test_an_empty_script_is_refused(text):
    with pytest.raises(StepError):
        script_program(Script(text))


def test_a_script_runs_from_a_private_file_that_is_gone_afterwards(place):
    assert place.run(job_of(script("stat -c %a $0\ndirname $0\n"))).state == SUCCEEDED
    assert place.log().decode().split() == ["700", str(place.folder / "keeper-0" / "scratch")]
    assert list((place.folder / "keeper-0" / "scratch").iterdir()) == []


def test_a_failing_line_ends_a_script(place):
    assert place.run(job_of(script("false\necho not reached\n"))).exit_code == 1
    assert place.log() == b""


# Elsewhere


def test_the_working_folder_of_a_pod_need_not_exist_here(place):
    end = place.run(job_of(of_kind(Pod("busybox", ("true",)), working_dir="/only/in/the/image")))
    assert end.state == FAILED
    assert "/only/in/the/image" not in end.detail
    assert b"cluster" in place.log()


# Python functions


MODULE = """
import asyncio, json, os, sys

def add(a, b):
    print("adding")
    return {"sum": a + int(b)}

async def slowly(text):
    await asyncio.sleep(0)
    return text.upper()

def fail():
    raise RuntimeError("on purpose")

def leave():
    sys.exit(5)

class Tool:
    @staticmethod
    def use():
        print(os.environ["EVERTICK_RUN_STEP"], "evertick" in sys.modules)
"""


@pytest.fixture
def module(tmp_path):
    (tmp_path / "jobs_module.py").write_text(MODULE)
    (tmp_path / "json.py").write_text("raise AssertionError('a file beside the job hides the standard library')")
    return tmp_path


def call(place, module, target, arguments=None, **known):
    step = of_kind(PythonCall(f"jobs_module:{target}", arguments or {}), working_dir=str(module), output="OUT")
    return place.run(job_of(step, sh('echo "$OUT"', "show", depends=("main",)), **known), params=known.get("given", ""))


@pytest.mark.parametrize(
    ("target", "arguments", "result"),
    [
        pytest.param("add", {"a": 1, "b": 2}, {"sum": 3}, id="a function"),
        pytest.param("slowly", {"text": "hi"}, "HI", id="an asynchronous one"),
        pytest.param("Tool.use", {}, None, id="one inside a class"),
    ],
)
def test_a_function_is_called_and_its_result_handed_on(place, module, target, arguments, result):
    assert call(place, module, target, arguments).state == SUCCEEDED
    assert json.loads(place.log(step="show")) == result


def test_what_a_function_prints_is_in_the_log_and_it_knows_its_step(place, module):
    call(place, module, "Tool.use")
    assert place.log() == b"main False\n"


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        pytest.param("fail", 1, b"RuntimeError: on purpose", id="one that raises"),
        pytest.param("leave", 5, b"", id="one that leaves"),
        pytest.param("absent", 1, b"AttributeError", id="one that is not there"),
        pytest.param("add", 1, b"missing 2 required positional arguments", id="one with other arguments"),
    ],
)
def test_a_function_that_fails(place, module, target, code, said):
    end = call(place, module, target)
    assert (end.state, end.exit_code) == (FAILED, code)
    assert said in place.log()
    assert b"python_runner.py" not in place.log()


def test_parameters_of_the_run_are_arguments_of_the_function(place, module):
    step = of_kind(PythonCall("jobs_module:add", {"a": 1}), working_dir=str(module), output="OUT")
    job = job_of(step, sh('echo "$OUT"', "show", depends=("main",)), params=(Param("b", "41"),))
    place.run(job)
    assert json.loads(place.log(step="show")) == {"sum": 42}


def test_a_value_that_is_not_a_function_is_refused(place):
    assert "'package.module:function'" in place.run(job_of(of_kind(PythonCall("os.system")))).detail


# HTTP


class AnswerServer(ThreadingHTTPServer):
    gate: threading.Event
    url: str
    redirects: dict[str, str]


class Answers(BaseHTTPRequestHandler):
    server: AnswerServer

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        kind = self.path.split("?")[0].strip("/")
        if kind == "silent":
            self.server.gate.wait(30)
            return
        headers, status, body = {}, 200, b"hello"
        if kind.isdigit():
            status = int(kind)
        elif kind == "large":
            body = b"x" * (BODY_MAX + 1000)
        elif kind == "echo":
            length = int(self.headers.get("Content-Length", 0))
            body = json.dumps([self.command, dict(self.headers), self.rfile.read(length).decode()]).encode()
        elif kind in self.server.redirects:
            status, headers["Location"] = 302, self.server.redirects[kind]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - a name of the library's

    def log_message(self, *_):
        """Not into the output of the tests."""


@pytest.fixture
def site():
    server = AnswerServer(("127.0.0.1", 0), Answers)
    server.daemon_threads = True
    server.gate = threading.Event()
    server.url = f"http://127.0.0.1:{server.server_port}"
    server.redirects = {
        "near": "/echo",
        "far": f"http://localhost:{server.server_port}/echo",
        "file": "file:///etc/passwd",
        "round": "/round",
    }
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.gate.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize(
    ("path", "expected", "state", "detail"),
    [
        pytest.param("/200", (), SUCCEEDED, "", id="an answer from 200 to 299"),
        pytest.param("/204", (204,), SUCCEEDED, "", id="the answer that is expected"),
        pytest.param("/200", (201,), FAILED, "answered 200 OK; expected 201", id="another one"),
        pytest.param("/500", (), FAILED, "answered 500", id="an error"),
        pytest.param("/near", (), SUCCEEDED, "", id="a redirect"),
        pytest.param("/302", (302,), SUCCEEDED, "", id="a redirect that is expected"),
        pytest.param("/file", (), FAILED, "redirects to file:", id="a redirect out of the web"),
        pytest.param("/round", (), FAILED, "redirects more than 5 times", id="a redirect without end"),
    ],
)
def test_a_call_is_judged_by_its_answer(place, site, path, expected, state, detail):
    end = place.run(job_of(of_kind(HttpCall(site.url + path, expected_statuses=expected))))
    assert end.state == state
    assert detail in end.detail


def test_the_answer_is_in_the_log_and_handed_on(place, site):
    steps = (of_kind(HttpCall(site.url + "/hi"), output="OUT"), sh('echo "<$OUT>"', "show", depends=("main",)))
    assert place.run(job_of(*steps)).state == SUCCEEDED
    assert (place.log(), place.log(step="show")) == (b"hello", b"<hello>\n")


def test_a_large_answer_is_cut(place, site):
    assert place.run(job_of(of_kind(HttpCall(site.url + "/large")))).state == SUCCEEDED
    assert len(place.log()) < BODY_MAX + 100
    assert b"the rest of the response was left out" in place.log()


def test_secrets_are_sent_and_masked(place, site, monkeypatch):
    monkeypatch.setenv("API_TOKEN", "very-secret-token")
    place.open()
    headers = (("X-Token", Secret("env", "API_TOKEN")), ("Content-Type", "text/x"))
    kind = HttpCall(site.url + "/echo", "POST", headers, "the body")
    assert place.run(job_of(of_kind(kind))).state == SUCCEEDED
    method, sent, body = json.loads(place.log())
    assert (method, body) == ("POST", "the body")
    assert (sent["X-Token"], sent["Content-Type"], sent["User-Agent"]) == ("***", "text/x", "evertick")


def test_no_credential_follows_a_redirect_to_another_host(site):
    request = HttpRequest(site.url + "/far", headers=(("Authorization", "Bearer x"), ("Accept", "text/y")))
    _, sent, _ = json.loads(HttpExchange(request).run().body)
    assert "Authorization" not in sent
    assert sent["Accept"] == "text/y"


def test_a_silent_server_is_given_up_at_the_timeout(place, site):
    end = place.run(job_of(of_kind(HttpCall(site.url + "/silent"), timeout_us=SECOND // 10)))
    assert (end.state, end.detail) == (FAILED, "it took longer than 100ms")


def test_a_call_under_way_can_be_stopped(place, site):
    executor = place.open()
    executor.launch(launch(job_of(of_kind(HttpCall(site.url + "/silent")))))
    place.start_of(KEY)
    executor.stop(KEY, 1, "enough")
    assert place.end_of(KEY).state == CANCELLED


def test_an_address_without_a_listener(place):
    end = place.run(job_of(of_kind(HttpCall("http://user:pw@127.0.0.1:1/path?token=x"))))
    assert end.state == FAILED
    assert "GET http://127.0.0.1:1/path: [Errno 111]" in end.detail


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://host/", "http://", "//host/x", "http://host:x/", "http://h/a b"]
)
def test_an_address_that_is_not_http_is_refused(url):
    with pytest.raises(StepError):
        parse_url(url)


@pytest.mark.parametrize(
    ("url", "is_shown_as"),
    [
        pytest.param("https://user:secret@host:8/path?token=secret", "https://host:8/path", id="a path and a query"),
        pytest.param("https://host?token=secret", "https://host", id="a query without a path"),
        pytest.param("https://host#token=secret", "https://host", id="a part of a page"),
        pytest.param("https://host?to=https://a:secret@b/c", "https://host", id="an address in a query"),
        pytest.param("host/path?token=secret", "host/path", id="no scheme"),
    ],
)
def test_a_shown_address_holds_no_credential(url, is_shown_as):
    assert shown(url) == is_shown_as


def test_a_header_cannot_smuggle_another_one(site):
    answer = HttpExchange(HttpRequest(site.url + "/echo", headers=(("X", "a\r\nY: b"),))).run()
    assert not answer.is_good


def test_settings_of_a_keeper_survive_the_journey():
    settings = KeeperSettings(kill_after_us=1, memory_bytes=2, hidden=("/a", "/b"))
    assert KeeperSettings.from_text(settings.to_text()) == settings
    assert LocalSettings().keeper == KeeperSettings()


@pytest.mark.parametrize(
    ("is_pipe", "written"),
    [
        pytest.param(True, ["gone", True], id="a keeper from before an upgrade"),
        pytest.param(False, ["gone", True, 7], id="a keeper of today"),
    ],
)
def test_an_exit_note_is_written_as_its_keeper_reads_it(tmp_path, is_pipe, written):
    words = "from evertick.kinds import ExitNote, write_exit_note; write_exit_note(ExitNote('gone', True, 7))"
    reader, writer = os.pipe() if is_pipe else (os.open(tmp_path / "note", os.O_RDWR | os.O_CREAT),) * 2
    line = f'exec "$1" -c "$2" {RESULT_FD}>&{writer}'
    subprocess.run(["bash", "-c", line, "bash", sys.executable, words], pass_fds=(writer,), check=True)
    data = os.read(reader, 4_096) if is_pipe else os.pread(reader, 4_096, 0)
    for fd in {reader, writer}:
        os.close(fd)
    assert json.loads(data) == written
