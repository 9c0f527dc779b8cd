"""Does every route return what it declares, as the operations return it?"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from fastapi.routing import APIRoute
from pydantic import TypeAdapter

from evertick.api.app import make_app, make_routes
from evertick.api.app_state import FAILURES_MAX
from evertick.api.badges import svg
from evertick.api.routes_hooks import is_signed, signature
from evertick.model.instant import SECOND
from evertick.model.ledger import runs_lease
from evertick.model.lifecycle import FAILED, Trigger
from evertick.model.run import RunKey
from evertick.operations.tokens import Role
from tests.api.conftest import ORIGIN
from tests.api.http_client import TestClient
from tests.operations.ledger import TEXT, at, entry, fill, ran

V1 = "/api/v1"
RUN = "etl@2026-03-02T02:00:00Z"
RUNNING = "etl@2026-03-02T04:00:00Z"
QUESTIONS = {
    "/jobs": {"/jobs", "/jobs?search=et&tag=sales&state=running&limit=1&sparkline=5", "/jobs?gone=true"},
    "/jobs/{job}": {"/jobs/etl"},
    "/jobs/{job}/explain": {"/jobs/etl/explain"},
    "/jobs/{job}/graph": {"/jobs/etl/graph"},
    "/jobs/{job}/upcoming": {"/jobs/etl/upcoming?count=3"},
    "/jobs/{job}/why": {"/jobs/etl/why", "/jobs/etl/why?at=2026-03-02T04:00", "/jobs/etl/why?at=2026-03-02T04:10"},
    "/jobs/{job}/calendar": {"/jobs/etl/calendar?from=2026-03-01&to=2026-03-31"},
    "/jobs/{job}/durations": {"/jobs/etl/durations"},
    "/jobs/{job}/catchup": {"/jobs/etl/catchup", "/jobs/etl/catchup?keep=all"},
    "/jobs/{job}/badge": {"/jobs/etl/badge"},
    "/blackouts": {"/blackouts"},
    "/runs": {
        "/runs",
        "/runs?job=etl&state=failed&trigger=scheduler&executor=local",
        "/runs?triggerType=catchup&reason=overlap&tag=sales&from=2026-03-01T00:00Z&to=2026-03-03T00:00Z",
        f"/runs?limit=1&cursor={RUN}",
    },
    "/ledger/gaps": {"/ledger/gaps", "/ledger/gaps?job=etl&limit=1"},
    "/ledger/verify": {"/ledger/verify"},
    "/runs/{run}": {f"/runs/{RUN}", f"/runs/{RUN.replace('@', '%40').replace(':', '%3A')}", f"/runs/{RUNNING}"},
    "/runs/{run}/why": {f"/runs/{RUN}/why"},
    "/runs/{run}/logs": {f"/runs/{RUN}/logs"},
    "/overview": {"/overview"},
    "/timeline": {
        "/timeline?from=2026-03-01T00:00Z&to=2026-03-03T00:00Z",
        "/timeline?from=2026-03-01T00:00Z&to=2026-03-03T00:00Z&cells=1",
    },
    "/calendar": {"/calendar?from=2026-03-01&to=2026-03-03&zone=Asia/Kathmandu"},
    "/upcoming": {"/upcoming"},
    "/plan": {"/plan?to=2026-03-03T00:00Z"},
    "/load": {"/load?to=2026-03-03T00:00Z"},
    "/cron": {"/cron?expression=30 2 * * *&timezone=Europe/Berlin"},
    "/zones": {"/zones"},
    "/runs/{run}/definition": {"/runs/etl@2026-03-02T04:00:00Z/definition"},
    "/jobs/{job}/backfill": {"/jobs/etl/backfill?limit=3"},
    "/executors": {"/executors"},
    "/queues": {"/queues"},
    "/nodes": {"/nodes"},
    "/status": {"/status"},
    "/session": {"/session"},
    "/tokens": {"/tokens"},
    "/settings": {"/settings"},
    "/attention": {"/attention"},
    "/jobs/{job}/steps": {"/jobs/etl/steps"},
    "/audit": {"/audit"},
    "/definitions": {"/definitions"},
}
WITHOUT_A_SHAPE = {"/openapi.json", "/events", "/jobs/{job}/definition"}
LOG = "/runs/{run}/logs/{attempt}/{step}"
ANSWERED_ELSEWHERE = {LOG, f"{LOG}/search", f"{LOG}/times", "/requests/{request}", "/jobs/{job}/backfill/{request}"}


@cache
def result_types():
    """What the description promises, by method and path."""
    return {
        (method, route.path_format): route.response_model
        for route in make_routes(is_described=True).router.routes
        if isinstance(route, APIRoute) and route.response_model is not None
        for method in route.methods or ()
    }


def fits(method, path, answer):
    """Whether an answer has the shape that the description promises: nothing missing, nothing beside it."""
    assert answer.status_code == 200, answer.text
    TypeAdapter(result_types()[method, V1 + path]).validate_json(answer.content, strict=False)
    return answer.json()


@pytest.mark.parametrize("path", QUESTIONS)
def test_an_answer_has_the_shape_that_is_described(client, path):
    for question in sorted(QUESTIONS[path]):
        assert fits("GET", path, client.get(V1 + question)) is not None


OLD = "etl@2026-03-02T02:30:00Z~chain/a@2026-03-02T02:30:00Z~api-1/etl"
"""A run under an id as versions up to 0.1 made them: with slashes."""


@pytest.mark.parametrize("path", ["", "/why", "/logs", "/retry", "/cancel"])
def test_a_run_whose_id_has_slashes_is_addressed_with_them_escaped(client, store, path):
    chained = RunKey("etl", at(2.5), "chain/a@2026-03-02T02:30:00Z~api-1/etl")
    fill(store, entry(2.5, key=chained, trigger=Trigger.CHAINED), watermark=4)
    if path != "/cancel":
        ran(store, chained, at(2.5), at(2.6), FAILED)
    assert chained.run_id == OLD
    url = f"{V1}/runs/{quote(OLD, safe='')}{path}"
    answer = client.post(url) if path in ("/retry", "/cancel") else client.get(url)
    assert answer.status_code == 200, answer.text
    if path == "":
        assert answer.json()["run"] == OLD
    if path == "/cancel":
        assert json.loads(store.claim(None, 10)[0].payload) == {"run_id": OLD}


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_escaped_slash_leads_to_no_other_route(client, method):
    """What the guard looks at and what answers are the same path."""
    asked = client.request(method, f"{V1}/runs%2F{RUN}/cancel")
    assert asked.status_code in (404, 405)  # as the page's shell is asked, which only reads


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        pytest.param("etl", RUNNING, id="a job is its latest run"),
        pytest.param("etl@2026-03-02T02", RUN, id="a beginning"),
        pytest.param(RUN, RUN, id="a whole id"),
    ],
)
def test_every_route_of_a_run_takes_a_job_or_a_beginning_of_an_id(client, reference, meant):
    assert client.get(f"{V1}/runs/{reference}").json()["run"] == meant
    assert client.get(f"{V1}/runs/{reference}/why").json()["run"]["run"] == meant
    assert client.get(f"{V1}/runs/{reference}/logs").status_code == 200
    done = client.post(f"{V1}/runs/{reference}/{'retry' if meant == RUN else 'cancel'}")
    assert done.status_code == 200, done.text


def test_a_beginning_that_several_runs_have_names_them(client):
    answer = client.get(f"{V1}/runs/etl@2026-03-02T0")
    assert answer.status_code == 404
    told = answer.json()
    assert told["suggestions"] == [f"etl@2026-03-02T0{hour}:00:00Z" for hour in (4, 3, 2, 1)]
    assert "matches several runs" in told["detail"]


def test_every_question_is_asked_here():
    asked = {V1 + path for path in (*QUESTIONS, *WITHOUT_A_SHAPE, *ANSWERED_ELSEWHERE)}
    routes = {
        route.path_format
        for route in make_routes().router.routes
        if isinstance(route, APIRoute) and route.path.startswith(V1) and "GET" in (route.methods or ())
    }
    assert routes == asked


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        pytest.param("POST", "/jobs/etl/trigger", {"params": {"FORMAT": "json"}}, id="trigger"),
        pytest.param("POST", "/jobs/etl/trigger", None, id="trigger without a word"),
        pytest.param("POST", "/jobs/etl/pause", {"note": "holidays"}, id="pause"),
        pytest.param("POST", "/jobs/etl/resume", {"catchup": "latest"}, id="resume"),
        pytest.param("POST", "/jobs/etl/cancel", None, id="cancel a job's runs"),
        pytest.param("POST", f"/runs/{RUNNING}/cancel", None, id="cancel a run"),
        pytest.param("POST", f"/runs/{RUN}/retry", {"from_failed": False}, id="retry"),
        pytest.param(
            "POST", "/jobs/etl/backfill", {"from": "2026-03-02T01:00Z", "to": "2026-03-02T04:00Z"}, id="backfill"
        ),
    ],
)
def test_a_request_is_in_the_ledger_once_however_often_it_is_sent(client, store, method, path, body):
    template = {"trigger": "/jobs/{job}/trigger", "pause": "/jobs/{job}/pause", "resume": "/jobs/{job}/resume"}
    template |= {"backfill": "/jobs/{job}/backfill", "retry": "/runs/{run}/retry"}
    word = path.rpartition("/")[2]
    kind = template.get(word) or ("/jobs/{job}/cancel" if path.startswith("/jobs") else "/runs/{run}/cancel")
    answers = [
        fits(method, kind, client.request(method, V1 + path, json=body, headers={"idempotency-key": "k1"}))
        for _ in range(2)
    ]
    assert answers[0]["request"] == answers[1]["request"]
    (request,) = store.claim(None, 10)
    assert (request.id, request.submitted_by) == (answers[0]["request"], "admin")
    fits("GET", "/requests/{request}", client.get(f"{V1}/requests/{request.id}"))


def test_the_scheduler_is_notified_of_a_request_at_once(client, control):
    assert client.get(f"{V1}/jobs/etl").status_code == 200
    assert control.looks == 0, "looking asks for nothing"
    assert client.post(f"{V1}/jobs/etl/trigger").status_code == 200
    assert control.looks == 1


def test_the_same_key_for_something_else_is_a_conflict(client):
    for params, status in (({}, 200), ({"FORMAT": "json"}, 409)):
        answer = client.post(f"{V1}/jobs/etl/trigger", json={"params": params}, headers={"idempotency-key": "k"})
        assert answer.status_code == status


def test_the_same_key_of_another_caller_is_another_request(client, tokens, store):
    for role in (Role.OPERATOR, Role.ADMIN):
        headers = {"idempotency-key": "k", "authorization": f"Bearer {tokens[role]}"}
        assert client.post(f"{V1}/jobs/etl/trigger", headers=headers).status_code == 200
    assert len(store.claim(None, 10)) == 2


def test_a_backfill_is_previewed_followed_and_cancelled(client, store):
    body = {"from": "2026-03-02T01:00Z", "to": "2026-03-02T04:00Z", "preview": True}
    preview = fits("POST", "/jobs/{job}/backfill", client.post(f"{V1}/jobs/etl/backfill", json=body))
    assert (preview["chosen"], preview["total"], preview["request"]) == (2, 3, None)
    assert "backfill" not in client.get(f"{V1}/audit").text, "whoever has only looked has done nothing"
    asked = client.post(f"{V1}/jobs/etl/backfill", json={**body, "preview": False}).json()
    place = f"{V1}/jobs/etl/backfill/{asked['request']}"
    assert fits("GET", "/jobs/{job}/backfill/{request}", client.get(place))["total"] == 2
    assert fits("DELETE", "/jobs/{job}/backfill/{request}", client.delete(place))["cancelled"] == 2


@pytest.mark.parametrize(
    ("method", "path", "status", "word"),
    [
        pytest.param("GET", "/jobs/elt", 404, "etl", id="a job that is not there"),
        pytest.param("GET", "/runs/etl@2026-03-02T09:00:00Z", 404, "etl@", id="a run that is not there"),
        pytest.param("GET", "/runs/elt", 404, "etl", id="the run of a job that is not there"),
        pytest.param("POST", "/runs/elt/cancel", 404, "etl", id="the same, to cancel it"),
        pytest.param("GET", "/runs/etl@noon/why", 422, "invalid run id 'etl@noon'", id="what no id begins with"),
        pytest.param("GET", "/runs/etl@0001-01-01T00:00:00+23:59", 422, "invalid run id", id="before all time"),
        pytest.param("GET", "/jobs?search=%00", 400, "NUL", id="a character that is none"),
        pytest.param("GET", "/runs?state=done", 422, "succeeded", id="a word that is not there"),
        pytest.param("GET", "/runs?limit=0", 422, "limit", id="a number out of bounds"),
        pytest.param("GET", "/runs?from=soon", 422, "not a time", id="no time"),
        pytest.param("GET", "/cron?expression=61 * * * *", 422, "61", id="no expression"),
        pytest.param("GET", "/calendar?zone=Mars/Olympus", 422, "zone", id="no zone"),
        pytest.param("POST", f"/runs/{RUN}/cancel", 409, "has ended", id="what has ended"),
        pytest.param("POST", "/jobs/etl/backfill", 422, "body", id="a body that is missing"),
        pytest.param(
            "DELETE",
            "/jobs",
            405,
            "DELETE is not allowed for /api/v1/jobs. Allowed: GET",
            id="a method that is not there",
        ),
        pytest.param("PUT", "/definitions/etl", 422, "body", id="a definition that is missing"),
    ],
)
def test_an_error_is_a_problem_document(client, method, path, status, word):
    answer = client.request(method, V1 + path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    problem = answer.json()
    assert problem["status"] == status
    assert word in problem["detail"]


@pytest.mark.parametrize(
    ("path", "body", "told"),
    [
        pytest.param("trigger", "{", "it is not JSON", id="no JSON"),
        pytest.param("trigger", '{"parms": {}}', "parms: unknown field", id="a field that is not there"),
        pytest.param(
            "backfill", '{"from": "2026-03-02", "to": "2026-03-01"}', "is not after its start", id="not after its start"
        ),
    ],
)
def test_what_is_wrong_with_a_body_is_reported_in_words_of_the_api(client, path, body, told):
    headers = {"content-type": "application/json"}
    answer = client.post(f"{V1}/jobs/etl/{path}", content=body, headers=headers)
    assert answer.status_code == 422
    assert told in answer.json()["detail"]
    assert "--" not in answer.json()["detail"]


@pytest.mark.parametrize(
    "text", ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/tokens.json", "%00", "é" * 200]
)
def test_no_name_from_outside_becomes_a_path(client, text):
    for path in (f"/jobs/{text}/definition", f"/runs/{RUN}/logs/1/{text}", f"/runs/{text}/logs"):
        answer = client.get(V1 + path)
        assert answer.status_code in (400, 404, 422)
        assert "root:" not in answer.text


def test_a_log_is_read_by_parts_and_as_a_file(client, app_state, tmp_path):
    folder = tmp_path / "logs"
    from evertick.executors.paths import file_name, run_folder
    from evertick.model.run import RunKey

    place = folder.joinpath(*run_folder(RunKey.from_run_id(RUN)), "1")
    place.mkdir(parents=True)
    (place / f"{file_name('main')}.log").write_text("größe\n<script>\n")
    path = f"{V1}/runs/{RUN}/logs/1/main"
    found = fits("GET", f"{LOG}/search", client.get(f"{path}/search?text=SCRIPT"))
    assert (found["items"], found["total"], found["size"]) == ([{"line": 2, "offset": 8}], 1, 17)
    fits("GET", f"{LOG}/times", client.get(f"{path}/times"))
    first = fits("GET", "/runs/{run}/logs/{attempt}/{step}", client.get(f"{path}?limit=3"))
    rest = client.get(f"{path}?offset={first['next_offset']}").json()
    assert (first["text"] + rest["text"], rest["is_complete"], rest["size"]) == ("größe\n<script>\n", True, 17)
    whole = client.get(f"{path}?download=1")
    assert whole.text == "größe\n<script>\n"
    assert whole.headers["content-type"].startswith("text/plain")
    assert whole.headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize(
    ("asked", "status", "content", "told"),
    [
        pytest.param("bytes=2-", 206, b"\xff\xfe\x00c", "bytes 2-5/6", id="from a byte on"),
        pytest.param("bytes=0-1", 206, b"ab", "bytes 0-1/6", id="the beginning"),
        pytest.param("bytes=4-900", 206, b"\x00c", "bytes 4-5/6", id="beyond its end"),
        pytest.param("bytes=6-", 416, b"", "bytes */6", id="behind its end"),
        pytest.param("bytes=3-2", 416, b"", "bytes */6", id="backwards"),
        pytest.param("bytes=-2", 200, b"ab\xff\xfe\x00c", None, id="a form that is not known is answered with all"),
        pytest.param("lines=1-2", 200, b"ab\xff\xfe\x00c", None, id="so is a unit"),
    ],
)
def test_a_part_of_a_log_is_byte_for_byte_what_was_printed(client, app_state, tmp_path, asked, status, content, told):
    from evertick.executors.paths import file_name, run_folder
    from evertick.model.run import RunKey

    place = tmp_path.joinpath("logs", *run_folder(RunKey.from_run_id(RUN)), "1")
    place.mkdir(parents=True)
    (place / f"{file_name('main')}.log").write_bytes(b"ab\xff\xfe\x00c")
    answer = client.get(f"{V1}/runs/{RUN}/logs/1/main?download=1", headers={"range": asked})
    assert (answer.status_code, answer.content, answer.headers.get("content-range")) == (status, content, told)


class TestHooks:
    SECRET = "a-secret-that-is-long"

    @pytest.fixture
    def hook(self, make_app_state, monkeypatch):
        monkeypatch.setenv("ETL_HOOK", self.SECRET)
        monkeypatch.delenv("NOT_THERE", raising=False)
        app_state = make_app_state(**{"api.hooks": "etl=env:ETL_HOOK,lost=env:NOT_THERE"})
        with TestClient(make_app(app_state), base_url=ORIGIN) as client:
            yield client

    def test_a_signed_call_starts_the_job_and_a_second_copy_of_it_nothing(self, hook, store):
        body = json.dumps({"params": {"FORMAT": "json"}}).encode()
        signed = {"x-evertick-signature": signature(self.SECRET, at(4.5) // SECOND, body)}
        for _ in range(2):
            assert hook.post(f"{V1}/hooks/etl", content=body, headers=signed).status_code == 200
        (request,) = store.claim(None, 10)
        assert json.loads(request.payload) == {"trigger": "webhook", "params": '{"FORMAT": "json"}'}
        assert request.submitted_by == "hook of etl"

    @pytest.mark.parametrize("more", ["\x0b", " \t", "\x1c", "\x85", "\xa0"], ids=repr)
    def test_a_copy_of_a_signed_call_with_blanks_in_its_signature_starts_nothing(self, hook, store, more):
        """Python takes more characters for blanks than HTTP does, and each copy would be a call of its own."""
        now = at(4.5)
        signed = signature(self.SECRET, now // SECOND, b"{}")
        for written in (signed, more + signed, signed + more):
            assert is_signed(self.SECRET, written, b"{}", now) is (written == signed)
            header = {b"x-evertick-signature": written.encode("latin-1")}
            hook.post(f"{V1}/hooks/etl", content=b"{}", headers=header)
        assert len(store.claim(None, 10)) == 1

    def test_the_secret_itself_will_do(self, hook):
        assert hook.post(f"{V1}/hooks/etl", headers={"x-evertick-token": self.SECRET}).status_code == 200

    @pytest.mark.parametrize(
        ("job", "headers"),
        [
            pytest.param("etl", {}, id="nothing"),
            pytest.param("etl", {"x-evertick-token": "wrong"}, id="a wrong secret"),
            pytest.param("etl", {"x-evertick-token": ""}, id="an empty one"),
            pytest.param("other", {"x-evertick-token": SECRET}, id="another job"),
            pytest.param("lost", {"x-evertick-token": ""}, id="a secret that is not there"),
            pytest.param(
                "etl", {"x-evertick-signature": signature(SECRET, at(4) // SECOND, b"{}")}, id="half an hour old"
            ),
            pytest.param(
                "etl", {"x-evertick-signature": signature(SECRET, at(4.5) // SECOND, b"{ }")}, id="for another body"
            ),
            pytest.param(
                "etl", {"x-evertick-signature": signature("x", at(4.5) // SECOND, b"{}")}, id="by somebody else"
            ),
            pytest.param("etl", {"x-evertick-signature": "t=1,v1=00"}, id="nonsense"),
        ],
    )
    def test_no_other_role_starts_it(self, hook, store, job, headers):
        assert hook.post(f"{V1}/hooks/{job}", content=b"{}", headers=headers).status_code == 401
        assert not store.claim(None, 10)

    def test_failures_keep_no_good_caller_out(self, hook):
        for _ in range(FAILURES_MAX + 2):
            last = hook.post(f"{V1}/hooks/etl", headers={"x-evertick-token": "wrong"}).status_code
        assert last == 429
        assert hook.post(f"{V1}/hooks/etl", headers={"x-evertick-token": self.SECRET}).status_code == 200

    def test_a_body_too_deep_to_read_is_refused(self, hook):
        deep = b"[" * 200_000 + b"]" * 200_000
        answer = hook.post(f"{V1}/hooks/etl", content=deep, headers={"x-evertick-token": self.SECRET})
        assert answer.status_code == 422

    def test_a_secret_that_can_be_guessed_opens_nothing(self, make_app_state, monkeypatch):
        monkeypatch.setenv("SHORT", "fifteen letters")
        app_state = make_app_state(**{"api.hooks": "etl=env:SHORT"})
        with TestClient(make_app(app_state), base_url=ORIGIN) as client:
            answer = client.post(f"{V1}/hooks/etl", headers={"x-evertick-token": "fifteen letters"})
        assert answer.status_code == 401


def test_a_badge_escapes_the_name_of_its_job():
    picture = svg('a" onload="alert(1)', "running")
    assert ElementTree.fromstring(picture).attrib["aria-label"] == 'a" onload="alert(1): running'


def test_a_badge_is_shown_to_everyone_who_knows_its_address(client):
    path = client.get(f"{V1}/jobs/etl/badge").json()["path"]
    client.headers.pop("authorization")
    picture = client.get(path)
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/svg+xml")
    assert "etl: late" in picture.text  # its last run failed, and the next one runs
    assert client.get(path[:-1]).status_code == 401
    assert client.get(path.replace("etl", "other")).status_code == 401


def test_readiness_is_the_schedulers(client, control, app_state):
    assert client.get("/readyz").status_code == 200
    control.told = {**control.told, "planner": {"lag_seconds": 99.0}}
    app_state.operations.live._ask._known = None
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["reasons"]) == (503, ["planning lags by 99 s"])
    control.told = {**control.told, "planner": {}, "stuck": {"now": 2, "repaired": 5}}
    app_state.operations.live._ask._known = None
    assert client.get("/readyz").json()["reasons"] == ["stuck entries: 2; run evertick verify"]
    told = client.get("/metrics").text.splitlines()
    assert {"evertick_stuck_runs 2.0", "evertick_runs_repaired_total 5.0"} <= set(told)
    control.told = {**control.told, "deadlines": {"missed": 3, "late_jobs": 1}}
    app_state.operations.live._ask._known = None
    told = client.get("/metrics").text.splitlines()
    assert {"evertick_deadlines_missed_total 3.0", "evertick_jobs_past_deadline 1.0"} <= set(told)
    control.told = {**control.told, "stuck": {}, "integrity": {"state": "damaged", "finding": "row 3"}}
    app_state.operations.live._ask._known = None
    assert client.get("/readyz").json()["reasons"] == ["the ledger is damaged; run evertick db check"]
    assert "evertick_ledger_damaged 1.0" in client.get("/metrics").text.splitlines()
    keepers = [{"is_silent": True, "silent_seconds": 7.0, "replaced": 2}, {"is_silent": False, "replaced": 1}]
    control.told = {**control.told, "integrity": {}, "executors": {"local@a": {"keepers": keepers}, "local@b": {}}}
    app_state.operations.live._ask._known = None
    assert "keepers that do not respond: 1, the longest for 7 s" in client.get("/readyz").json()["reasons"][0]
    told = client.get("/metrics").text.splitlines()
    assert {"evertick_keepers_silent 1.0", "evertick_keepers_replaced_total 3.0"} <= set(told)
    control.told, app_state.operations.live._ask._known = None, None
    assert client.get("/readyz").json()["reasons"] == ["the scheduler does not respond"]
    assert client.head("/readyz").status_code == 503, "a probe that asks for the headers alone believes the status"
    assert client.get("/healthz").status_code == 200


def test_metrics_count_what_the_ledger_and_the_scheduler_know(client):
    lines = client.get("/metrics").text.splitlines()
    for line in (
        "evertick_up 1.0",
        'evertick_occurrences_total{outcome="failed"} 1.0',
        'evertick_skipped_total{reason="missed"} 5.0',
        "evertick_planner_lag_seconds 0.5",
        'evertick_start_lateness_seconds_bucket{le="1"} 3.0',
        'evertick_runs{state="running"} 1.0',
        'evertick_queue_depth{queue="db"} 0.0',
    ):
        assert line in lines


class TestDefinitions:
    def test_they_are_looked_at_and_brought_over_without_being_written(self, client, tmp_path):
        good = client.post(f"{V1}/definitions/validate", json={"text": TEXT}).json()
        assert (good["errors"], good["job"]) == ([], "definition")
        bad = client.post(f"{V1}/definitions/validate", json={"text": "schedule: 61 * * * *\ncommand: x\n"}).json()
        assert bad["errors"][0]["line"] == 1
        found = client.post(f"{V1}/definitions/import/crontab", json={"text": "0 9 * * * /bin/true\n"}).json()
        assert len(found["files"]) == 1
        assert not list(tmp_path.glob("*.yaml"))

    def test_they_are_written_only_when_the_settings_allow_it(self, client, tmp_path):
        assert client.put(f"{V1}/definitions/new", json={"text": TEXT}).status_code == 409
        assert client.delete(f"{V1}/definitions/etl").status_code == 409
        assert not list(tmp_path.glob("*.yaml"))

    def test_a_valid_one_is_written_when_the_settings_allow_it(self, make_app_state, tokens, tmp_path):
        from evertick.api.app import make_app

        app_state = make_app_state(**{"api.allow_definitions": "true"})
        headers = {"authorization": f"Bearer {tokens[Role.EDITOR]}"}
        with TestClient(make_app(app_state), base_url=ORIGIN, headers=headers) as client:
            assert client.put(f"{V1}/definitions/new", json={"text": TEXT}).status_code == 200
            assert (tmp_path / "new.yaml").read_text() == TEXT
            assert client.put(f"{V1}/definitions/bad", json={"text": "schedule: x\n"}).status_code == 422
            assert client.put(f"{V1}/definitions/a", json={"text": f"name: b\n{TEXT}"}).status_code == 422
            assert client.put(f"{V1}/definitions/..", json={"text": TEXT}).status_code in (404, 405, 422)
            assert client.put(f"{V1}/definitions/A%20b", json={"text": TEXT}).status_code == 422
        assert [path.name for path in tmp_path.glob("*.yaml")] == ["new.yaml"]


def test_settings_and_tokens_show_no_secret(client, tokens):
    shown = client.get(f"{V1}/settings").text + client.get(f"{V1}/tokens").text + client.get(f"{V1}/audit").text
    assert not any(token in shown for token in tokens.values())
    made = client.post(f"{V1}/tokens", json={"name": "ci", "role": "operator"}).json()
    assert made["token"].startswith("evt_")
    assert client.post(f"{V1}/tokens", json={"name": "ci", "role": "operator"}).status_code == 409
    assert client.delete(f"{V1}/tokens/ci").json()["id"] == made["id"]
    assert client.delete(f"{V1}/tokens/ci").status_code == 404


def test_without_a_build_the_server_runs_and_says_how_to_make_one(app_state):
    from evertick.api.app import make_app

    with TestClient(make_app(replace(app_state, site=None)), base_url=ORIGIN) as client:
        answer = client.get("/")
        assert (answer.status_code, "make web" in answer.text) == (200, True)
        assert client.get("/jobs/etl").status_code == 503


def test_a_member_of_the_fleet_is_given_nothing_more(make_app_state, tokens, monkeypatch):
    from evertick.api.app import make_app
    from evertick.executors.fleet import admin
    from evertick.model.member import Member

    def set_cordon(settings, name, *, is_closed):
        assert settings.url == "tcp://127.0.0.1:8786"
        return Member(name, True, 3, is_open=not is_closed)

    monkeypatch.setattr(admin, "set_cordon", set_cordon)
    app_state = make_app_state(**{"fleet.url": "tcp://127.0.0.1:8786"})
    headers = {"authorization": f"Bearer {tokens[Role.OPERATOR]}"}
    with TestClient(make_app(app_state), base_url=ORIGIN, headers=headers) as client:
        for verb, is_open in (("drain", False), ("undrain", True)):
            answer = client.post(f"{V1}/executors/fleet/members/ex-a/{verb}")
            assert answer.json()["status"] == {"member": "ex-a", "is_open": is_open, "running": 3}
        assert client.post(f"{V1}/executors/local/members/x/drain").status_code == 404
        for verb in ("remove", "forget"):
            assert client.post(f"{V1}/executors/fleet/members/ex-a/{verb}").status_code == 403


def test_an_admin_removes_a_member_of_the_fleet(make_app_state, tokens, monkeypatch):
    from evertick.api.app import make_app
    from evertick.executors.fleet import admin

    gone = []
    monkeypatch.setattr(admin, "remove", lambda _, name, *, by_force: gone.append((name, by_force)))
    monkeypatch.setattr(admin, "forget", lambda _, name: gone.append((name, None)))
    app_state = make_app_state(**{"fleet.url": "tcp://127.0.0.1:8786"})
    headers = {"authorization": f"Bearer {tokens[Role.ADMIN]}"}
    with TestClient(make_app(app_state), base_url=ORIGIN, headers=headers) as client:
        assert client.post(f"{V1}/executors/fleet/members/ex-a/remove").status_code == 200
        assert client.post(f"{V1}/executors/fleet/members/ex-b/remove", json={"force": True}).status_code == 200
        assert client.post(f"{V1}/executors/local/members/x/remove").status_code == 404
        assert client.post(f"{V1}/executors/fleet/members/ex-c/forget").status_code == 200
        assert client.post(f"{V1}/executors/local/members/x/forget").status_code == 404
    assert gone == [("ex-a", False), ("ex-b", True), ("ex-c", None)]


def test_a_node_is_forgotten_by_an_admin_and_the_audit_log_has_a_line(make_app_state, tokens):
    from evertick.api.app import make_app

    app_state = make_app_state()
    now = app_state.operations.now()
    with TestClient(make_app(app_state), base_url=ORIGIN) as client:
        for role, node, status in (
            (Role.OPERATOR, "east", 403),
            (Role.ADMIN, "east", 404),
            (Role.ADMIN, "west", 200),
            (Role.ADMIN, "west", 404),
        ):
            app_state.operations.store.lease(
                [runs_lease("west", "f1")], "west/f1", 60_000_000 if status == 200 else 0, now
            )
            headers = {"authorization": f"Bearer {tokens[role]}"}
            answer = client.post(f"{V1}/nodes/{node}/forget", json={"force": False}, headers=headers)
            assert answer.status_code == status, answer.text
        headers = {"authorization": f"Bearer {tokens[Role.ADMIN]}"}
        lines = client.get(f"{V1}/audit", headers=headers).json()["items"]
    assert "POST /api/v1/nodes/{node}/forget" in {one["action"] for one in lines}


def test_without_a_fleet_no_member_can_be_drained(client):
    assert client.post(f"{V1}/executors/fleet/members/ex-a/drain").status_code == 409


@pytest.mark.parametrize(
    ("path", "name", "hint"),
    [
        pytest.param("/runs?status=failed", "status", "state", id="a filter by another name"),
        pytest.param("/jobs/etl?verbose=1", "verbose", "no parameters", id="where there is nothing to choose"),
    ],
)
def test_an_unknown_parameter_is_refused_and_the_known_ones_are_named(client, path, name, hint):
    answer = client.get(f"/api/v1{path}")
    assert (answer.status_code, answer.json()["field"]) == (422, name)
    assert hint in answer.json()["hint"]
