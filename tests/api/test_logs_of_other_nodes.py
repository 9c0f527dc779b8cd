"""Can the log of a run be read on every node, and does the answer name its place when it cannot?"""

from __future__ import annotations

import http.client
import json
import struct
from contextlib import contextmanager
from urllib.parse import quote

import pytest

from evertick.api.factory import open_app_state
from evertick.api.log_endpoint import LogEndpoint
from evertick.api.server import ApiServer
from evertick.definitions.source import Folder
from evertick.errors import ExecutorUnavailable
from evertick.executors.fleet.authority import Authority
from evertick.executors.fleet.identity import Role as FleetRole
from evertick.executors.log_store import LogStore, LogUploads
from evertick.executors.paths import file_name, run_folder
from evertick.model.lifecycle import SUCCEEDED
from evertick.model.node_address import NodeAddress, read_address
from evertick.operations.log_files import LogsReader
from evertick.operations.node_logs import NodeLogs, machine_name
from evertick.operations.run_logs import RunLogs
from evertick.settings import Settings
from evertick.store import RunFilter
from evertick.stores import open_store
from tests.executors.local_runs import until
from tests.operations.ledger import at, entry, fill, job, key, ran

pytestmark = pytest.mark.slow


@pytest.fixture
def ledger(fresh_postgres):
    """A run that ran on a1, and one that ran on a member of the fleet."""
    url = fresh_postgres()
    store = open_store(url)
    fill(store, entry(1), entry(2), watermark=4)
    ran(store, key(1), at(1), at(2), SUCCEEDED, executor="local@a1")
    ran(store, key(2), at(2), at(3), SUCCEEDED, executor="fleet:ex-a")
    yield url, store
    store.close()


@contextmanager
def node(name, ledger, folder, **settings):
    url, _ = ledger
    store = open_store(url)
    known = Settings.load(folder, overrides={"port": "0", "node": name, **settings})
    state = folder / name
    state.mkdir(exist_ok=True)
    app_state = open_app_state(store, url, lambda: Folder(jobs={"etl": job()}), known, state)
    server = ApiServer(app_state)
    server.start(lambda _: None)
    try:
        until(lambda: name in NodeLogs(store, app_state.now).nodes(), f"{name} is announced")
        yield server, app_state
    finally:
        server.stop()
        store.close()


def write_log(folder, run, data, *, suffix=""):
    place = folder.joinpath("logs", *run_folder(run), "1")
    place.mkdir(parents=True)
    (place / f"{file_name('main')}.log{suffix}").write_bytes(data)


def ask(server, app_state, path, token=None, method="GET", body=None):
    token = token or app_state.tokens.first()
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=180)
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    connection.request(method, f"/api/v1{path}", body, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def run_path(run):
    return f"/runs/{quote(run.run_id, safe='')}"


def test_a_log_is_fetched_from_the_node_that_has_it(ledger, tmp_path):
    with node("a1", ledger, tmp_path), node("a2", ledger, tmp_path) as (server, app_state):
        printed = b"hello\n" * 30_000
        write_log(tmp_path / "a1", key(1), printed)
        detail = json.loads(ask(server, app_state, run_path(key(1)))[1])
        assert [(log["step"], log["size"]) for log in detail["logs"]] == [("main", len(printed))]
        assert detail["absent_logs"] == []
        assert ask(server, app_state, f"{run_path(key(1))}/logs/1/main?download=true") == (200, printed)
        text = json.loads(ask(server, app_state, f"{run_path(key(1))}/logs/1/main?offset=179994")[1])
        assert (text["text"], text["is_complete"]) == ("hello\n", True)
        index = tmp_path.joinpath("a1", "logs", *run_folder(key(1)), "1", "main.log.times")
        index.write_bytes(struct.pack("<QQ", 6, key(1).scheduled_for))
        times = json.loads(ask(server, app_state, f"{run_path(key(1))}/logs/1/main/times?offset=9")[1])
        assert [time["offset"] for time in times["items"]] == [6]
        merged = ask(server, app_state, f"{run_path(key(1))}/logs/1/*?download=true")[1]
        assert merged.count(b"\tmain\thello\n") == 30_000
        # Whoever asks for what is here only gets that: nodes do not ask in a circle.
        assert json.loads(ask(server, app_state, f"{run_path(key(1))}/logs?here=true")[1])["items"] == []


@pytest.mark.parametrize(
    ("is_announced", "reason"),
    [
        pytest.param(False, "the node a1 does not announce its address", id="it stopped"),
        pytest.param(
            True, "the node a1 cannot be reached at http://127.0.0.1:9: Connection refused", id="it was killed"
        ),
    ],
)
def test_a_log_on_an_absent_node_is_not_shown_as_empty(ledger, tmp_path, is_announced, reason):
    _, store = ledger
    with node("a2", ledger, tmp_path) as (server, app_state):
        if is_announced:
            LogEndpoint(store, NodeAddress("a1", "http://127.0.0.1:9", "x", machine_name()), app_state.now).announce()
        detail = json.loads(ask(server, app_state, run_path(key(1)))[1])
        sentence = f"The log of attempt 1 is on node a1, which is unreachable: {reason}."
        (absent,) = detail["absent_logs"]
        assert (absent["attempt"], absent["kind"], absent["name"]) == (1, "node", "a1")
        assert (absent["cause"], absent["reason"], absent["text"]) == ("unreachable", reason, sentence)
        status, body = ask(server, app_state, f"{run_path(key(1))}/logs/1/main")
        assert (status, json.loads(body)["detail"]) == (503, sentence)


def test_the_copy_of_a_members_log_that_is_whole_is_shown(ledger, tmp_path):
    with node("a1", ledger, tmp_path), node("a2", ledger, tmp_path) as (_, app_state):
        write_log(tmp_path / "a2", key(2), b"half", suffix=".part")
        write_log(tmp_path / "a1", key(2), b"half and whole")
        assert app_state.operations.log_bytes(key(2).run_id, 1, "main") == (b"half and whole", 14, True)


def test_a_copy_in_the_store_is_read_where_the_node_is_away(ledger, tmp_path):
    write_log(tmp_path / "a1", key(1), b"hello\n")
    url = f"file://{tmp_path}/copies"
    LogUploads(tmp_path / "a1", LogStore(url)).copy(key(1))
    with node("a2", ledger, tmp_path, **{"logs.store": url}) as (server, app_state):
        detail = json.loads(ask(server, app_state, run_path(key(1)))[1])
        assert (detail["absent_logs"], [log["size"] for log in detail["logs"]]) == ([], [6])
        assert ask(server, app_state, f"{run_path(key(1))}/logs/1/main?download=true") == (200, b"hello\n")


def test_a_store_that_is_away_is_not_an_empty_log(ledger):
    (row,) = ledger[1].query(_only(key(1))).rows

    class Away(LogsReader):
        def list_logs(self, *_):
            raise RuntimeError("no credentials")

        def read_log(self, *_, **__):
            raise AssertionError("it has none")

        def read_times(self, *_):
            raise AssertionError("it has none")

    (absent,) = RunLogs(None, "a2", None, Away()).find(row).absent
    assert absent.sentence == (
        "The log of attempt 1 is on the log store, which is unreachable: RuntimeError: no credentials."
    )


def test_what_nodes_prove_themselves_with_opens_one_node_and_for_reading_only(ledger, tmp_path):
    _, store = ledger
    with node("a1", ledger, tmp_path) as (server, app_state), node("a2", ledger, tmp_path) as (_, other):
        leases = store.lease((), "", 0, app_state.now())
        tokens = {address.node: address.token for address in map(read_address, leases) if address}
        assert ask(server, app_state, run_path(key(1)), tokens["a1"])[0] == 200
        assert ask(server, app_state, run_path(key(1)), tokens["a2"])[0] == 401
        assert ask(server, app_state, "/jobs/etl/trigger", tokens["a1"], "POST", "{}")[0] == 403
        assert app_state.node_token != other.node_token
        assert app_state.node_token not in repr(app_state)
        nodes = json.loads(ask(server, app_state, "/nodes")[1])
        assert tokens["a1"] not in json.dumps(nodes)


def test_over_tls_only_the_certificate_that_was_announced_is_talked_to(ledger, tmp_path):
    authority = Authority(tmp_path / "certs")
    authority.create()
    certs = authority.issue(tmp_path / "certs" / "server", FleetRole.HUB, "server", ["127.0.0.1"])
    own = {"api.tls_cert": str(certs.cert), "api.tls_key": str(certs.key)}
    write_log(tmp_path / "a1", key(1), b"hello\n")
    with node("a1", ledger, tmp_path, **own) as (server, app_state):
        _, store = ledger
        logs = RunLogs(None, "a2", NodeLogs(store, app_state.now))
        (row,) = store.query(_only(key(1))).rows
        assert logs.read(row, 1, "main", 0, 100) == (b"hello\n", 6, True)
        address = app_state.address(server.url)
        wrong = address._replace(certificate=address.certificate[::-1])
        LogEndpoint(store, wrong, app_state.now).announce()
        with pytest.raises(ExecutorUnavailable, match="not the one it announced"):
            RunLogs(None, "a2", NodeLogs(store, app_state.now)).read(row, 1, "main", 0, 100)


def test_an_address_of_another_machine_that_means_this_one_is_not_asked(ledger, tmp_path):
    _, store = ledger
    with node("a1", ledger, tmp_path) as (_, app_state):
        (row,) = store.query(_only(key(1))).rows
        found = RunLogs(None, "a2", NodeLogs(store, app_state.now, machine="another")).find(row)
        assert found.absent[0].reason == "the node a1 listens on its own machine only (setting `host`)"
        assert found.files == ()
        assert machine_name() == machine_name() != "another"


def _only(run):
    return RunFilter(since=run.scheduled_for, until=run.scheduled_for + 1)
