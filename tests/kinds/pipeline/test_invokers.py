"""Which invoker answers: programs, functions, services, or none."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evertick.errors import DefinitionError
from evertick.kinds.pipeline import command_invoker
from evertick.kinds.pipeline.command_invoker import CommandInvoker
from evertick.kinds.pipeline.http_invoker import HttpInvoker
from evertick.kinds.pipeline.invoker import Answer, Call, Caller, Cancelled, Question, TimedOut, await_calls
from evertick.kinds.pipeline.invokers import DRY_RUN_WARNING, Chosen, call_python, choose, dry_run, invoker_of
from evertick.kinds.pipeline.run import run_pipeline
from tests.kinds.pipeline.scripted import pipeline
from tests.present import present


def ask(invoker, prompt="Hello", **known):
    return invoker(Call(Question(prompt, **known), 10.0))


def python(code):
    return CommandInvoker((sys.executable, "-c", code), dict(os.environ))


# --- a program


def test_a_program_reads_the_prompt_and_prints_the_answer():
    answer = ask(python("import sys; print(sys.stdin.read().upper())"), "Grüße " * 50_000)
    assert answer == Answer(True, ("GRÜSSE " * 50_000).strip())


def test_a_program_receives_the_model_and_works_in_the_folder(tmp_path):
    answer = ask(
        python("import os; print(os.environ['EVERTICK_RUN_MODEL'], os.getcwd())"), model="m", directory=str(tmp_path)
    )
    assert answer.response == f"m {tmp_path.resolve()}"


@pytest.mark.parametrize(
    ("invoker", "error"),
    [
        pytest.param(python("import sys; sys.exit('no quota')"), "exited with 1: no quota", id="a bad exit code"),
        pytest.param(CommandInvoker(("/no/such/program",), {}), "could not be started", id="no such program"),
        pytest.param(python("import os; os.kill(os.getpid(), 9)"), "exited with -9", id="killed"),
    ],
)
def test_a_program_that_fails_is_a_failed_answer(invoker, error):
    answer = ask(invoker)
    assert not answer.success
    assert error in answer.error


def test_a_program_that_never_stops_talking_is_ended(monkeypatch):
    monkeypatch.setattr(command_invoker, "ANSWER_BYTES_MAX", 1_000)
    answer = ask(python("import itertools\nfor _ in itertools.count(): print('x' * 1000)"))
    assert "more than 1,000 bytes" in answer.error


def test_a_program_that_is_given_up_is_ended_with_its_children(tmp_path):
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    # The grandchild holds the pipe open for as long as it lives.
    invoker = CommandInvoker(("/bin/sh", "-c", f"(echo here; exec sleep 600) > {fifo} & wait"), dict(os.environ))
    is_there, seen = threading.Event(), []

    def watch():
        with fifo.open() as alive:
            seen.append(alive.readline())
            is_there.set()
            seen.append(alive.read())

    watcher = threading.Thread(target=watch)
    watcher.start()
    with pytest.raises(Cancelled):
        Caller(invoker, is_there.is_set).ask(Question("x", directory=str(tmp_path)), 60_000)
    watcher.join(60)
    assert seen == ["here\n", ""]


def test_the_process_waits_for_a_cancelled_call_before_it_exits():
    told, seen = threading.Event(), []

    def slow_to_end(call):
        call.aborted.wait()
        told.wait(0.2)  # never set: what it takes to end a program
        seen.append("ended")
        return Answer(False)

    looks = iter([False])
    with pytest.raises(Cancelled):
        Caller(slow_to_end, lambda: next(looks, True)).ask(Question("x"), 60_000)
    await_calls(60)
    assert seen == ["ended"]


def test_what_a_program_leaves_behind_is_ended_when_it_has_answered(tmp_path):
    fifo = tmp_path / "alive"
    os.mkfifo(fifo)
    seen = []
    reader = threading.Thread(target=lambda: seen.append(fifo.read_text()))
    reader.start()
    answer = ask(CommandInvoker(("/bin/sh", "-c", f"exec 5>{fifo}; sleep 600 & echo done"), dict(os.environ)))
    reader.join(60)
    assert (answer.response, seen) == ("done", [""])


# --- a function


def test_a_function_is_handed_what_it_takes():
    known = {"model": "m", "fields": ("a",)}
    assert ask(call_python(lambda prompt: prompt.upper()), **known).response == "HELLO"
    assert ask(call_python(lambda prompt, model: f"{prompt} {model}"), **known).response == "Hello m"
    assert json.loads(ask(call_python(lambda _prompt, **options: options), **known).response) == {
        "model": "m",
        "fields": ["a"],
        "timeout_seconds": 10.0,
    }


def test_a_function_may_be_a_coroutine_or_answer_for_itself():
    async def later(prompt):
        return {"said": prompt}

    assert ask(call_python(later)).response == '{"said": "Hello"}'
    assert ask(call_python(lambda _: Answer(False, error="no"))) == Answer(False, error="no")
    assert not ask(call_python(lambda _: None)).success


def test_a_function_is_found_beside_the_pipeline(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "my_answers.py").write_text('def reply(prompt):\n    return \'{"status": "mine"}\'\n')
    invoker = invoker_of({"python": "my_answers:reply"}, "invoker", tmp_path, {})
    result = run_pipeline(pipeline(), tmp_path, invoker)
    assert [one.output["status"] for one in present(result.output).results] == ["mine", "mine"]


# --- a service


class Service:
    """A chat completions endpoint on this machine that answers as it is told."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str], object]] = []
        self.status, self.body = 200, json.dumps({"choices": [{"message": {"content": "Hi"}}]})
        self.may_answer = threading.Event()
        self.may_answer.set()
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.asked.append((self.path, dict(self.headers), body))
                service.may_answer.wait(10)
                with contextlib.suppress(ConnectionError):
                    self.send_response(service.status)
                    self.send_header("Location", "http://127.0.0.1:1/")
                    self.end_headers()
                    self.wfile.write(service.body.encode())

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/chat/completions?x=1"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def service():
    service = Service()
    yield service
    service.may_answer.set()
    service.server.shutdown()
    service.server.server_close()


def test_a_service_is_sent_the_prompt_the_model_and_the_key(service, tmp_path):
    invoker = invoker_of(
        {"http": {"url": service.url, "model": "small", "keyEnv": "MY_KEY"}}, "invoker", tmp_path, {"MY_KEY": "k-1"}
    )
    assert ask(invoker).response == "Hi"
    assert ask(invoker, model="large").response == "Hi"
    path, headers, body = service.asked[0]
    assert (path, headers["Authorization"]) == ("/v1/chat/completions?x=1", "Bearer k-1")
    assert body == {"model": "small", "messages": [{"role": "user", "content": "Hello"}]}
    assert service.asked[1][2]["model"] == "large"


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        pytest.param(
            401, "bad key k-secret given", "401 Unauthorized: bad key *** given", id="refused, without the key"
        ),
        pytest.param(307, "", "307 Temporary Redirect", id="a redirect is not followed"),
        pytest.param(200, "<html>", "Expecting value", id="not JSON"),
        pytest.param(200, '{"choices": []}', "no choices[0].message.content", id="no choice"),
    ],
)
def test_a_service_that_does_not_answer_well_is_a_failed_answer(service, status, body, error):
    service.status, service.body = status, body
    answer = ask(HttpInvoker(service.url, "m", "k-secret"))
    assert not answer.success
    assert error in answer.error
    assert "k-secret" not in answer.error + repr(HttpInvoker(service.url, "m", "k-secret"))
    assert len(service.asked) == 1


def test_a_service_that_hangs_is_given_up(service):
    service.may_answer.clear()
    with pytest.raises(TimedOut):
        Caller(HttpInvoker(service.url, "m")).ask(Question("x"), 100, tries_again=False)


def test_a_service_that_is_away_is_a_failed_answer_without_the_query(service):
    service.server.shutdown()
    service.server.server_close()
    answer = ask(HttpInvoker(service.url, "m"))
    assert not answer.success
    assert "refused" in answer.error
    assert "x=1" not in answer.error


def test_without_a_model_nothing_is_asked(service):
    assert "no model is set" in ask(HttpInvoker(service.url)).error
    assert service.asked == []


# --- nobody


def test_a_dry_run_answers_what_was_asked_for_and_always_the_same():
    assert ask(dry_run, "Caller one\nline two") == Answer(True, "[dry run] Caller one")
    assert json.loads(ask(dry_run, fields=("a", "include")).response) == {"a": "dry-run a", "include": True}
    assert json.loads(ask(dry_run, fields=("a",), count=2).response) == [{"a": "dry-run a"}] * 2


# --- the choice


def words_of(chosen: Chosen) -> tuple[str, ...]:
    assert isinstance(chosen.invoker, CommandInvoker)
    return chosen.invoker.words


def test_the_pipelines_own_invoker_comes_first_then_the_settings_then_a_dry_run(tmp_path):
    environ = {"EVERTICK_INVOKER": '{"command": ["from-env"]}'}
    assert words_of(choose({"command": ["own"]}, tmp_path, environ, {"command": ["set"]})) == ("own",)
    assert words_of(choose(None, tmp_path, environ, {"command": ["set"]})) == ("set",)
    assert words_of(choose(None, tmp_path, environ)) == ("from-env",)
    assert choose(None, tmp_path, {"EVERTICK_INVOKER": "dry-run"}) == (dry_run, "EVERTICK_INVOKER", "")
    assert choose(None, tmp_path, {}) == (dry_run, "default", DRY_RUN_WARNING)


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        pytest.param("gpt", "names no invoker", id="a word"),
        pytest.param({"command": ["a"], "python": "a:b"}, "names no invoker", id="two at once"),
        pytest.param({"magic": 1}, "the unknown invoker 'magic'", id="an unknown kind"),
        pytest.param({"command": "ls -l"}, "must be a list of words", id="a command as text"),
        pytest.param({"command": [""]}, "empty program", id="an empty program"),
        pytest.param({"python": "nofunction"}, "not a function", id="no function"),
        pytest.param({"python": "json:nothing"}, "cannot be loaded", id="a function that is not there"),
        pytest.param({"python": "json:__name__"}, "cannot be called", id="something else"),
        pytest.param({"http": {}}, "has no URL", id="no address"),
        pytest.param({"http": {"url": "ftp://x"}}, "not a valid URL", id="another protocol"),
        pytest.param({"http": {"url": "http://x:port/"}}, "invoker.http.url", id="a port that is none"),
        pytest.param({"http": {"url": "http://x", "keyEnv": "sk-123"}}, "never the key itself", id="the key itself"),
        pytest.param({"http": {"url": "http://x", "keyEnv": "NO_KEY"}}, "NO_KEY, which is not set", id="no key"),
        pytest.param(
            {"http": {"url": "http://x", "keyEnv": "BAD"}}, "characters that no key has", id="a key of two lines"
        ),
    ],
)
def test_an_invoker_that_cannot_be_is_refused(written, reason, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(DefinitionError) as caught:
        invoker_of(written, "invoker", tmp_path, {"BAD": "a\r\nb"})
    assert reason in str(caught.value)
    assert "sk-123" not in str(caught.value)


def test_a_setting_that_is_not_json_is_refused(tmp_path):
    with pytest.raises(DefinitionError, match="EVERTICK_INVOKER"):
        choose(None, tmp_path, {"EVERTICK_INVOKER": "{command"})
