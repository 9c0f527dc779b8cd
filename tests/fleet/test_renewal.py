"""Do certificates renew themselves in time, and can their authority be replaced while it is in use?"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import socket
import ssl
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509

from evertick.errors import Conflict, ExecutorUnavailable
from evertick.executors.fleet import authority as authority_module
from evertick.executors.fleet import certs, enrolment
from evertick.executors.fleet.authority import Authority
from evertick.executors.fleet.certs import HubAddress, fingerprint_of
from evertick.executors.fleet.enrolment import EnrolmentServer, ask_trust, enrol, renew
from evertick.executors.fleet.executor import FleetExecutor
from evertick.executors.fleet.hub_folder import hub_address_in, provide
from evertick.executors.fleet.identity import Role
from evertick.executors.fleet.renewal import LOOK_SECONDS, needs_renewal, renew_if_due
from evertick.executors.fleet.settings import CERT_FILE, NEXT_KEY_FILE, Certificates, fleet_at
from evertick.executors.fleet.silent_connections import AT_ONCE
from evertick.loop.effects import Launch
from evertick.loop.messages import LaunchRefused
from evertick.model.instant import DAY, HOUR, MINUTE
from evertick.model.lifecycle import SUCCEEDED
from evertick.private_file import write_private
from evertick.settings.parts import FleetSettings
from tests.executors.contract import Reports
from tests.executors.local_runs import job_of, launch, sh
from tests.fleet.local_fleet import LONG_US, LocalFleet, wait_for
from tests.ports import free_port


class Hub:
    """What `fleet start` keeps and answers, without Dask."""

    def __init__(self, folder: Path) -> None:
        self.address = HubAddress(f"tls://127.0.0.1:{free_port()}", free_port())
        self.folder = folder
        provision = provide(folder, self.address)
        self.authority = provision.authority
        self._server = EnrolmentServer(self.authority, provision.certificates, "127.0.0.1", self.address.join_port)
        self._server.start()

    def look(self) -> None:
        """What its process does every other second."""
        provide(self.folder, self.address)

    def close(self) -> None:
        self._server.close()


def test_a_join_port_that_is_closed_leaves_no_thread(tmp_path):
    hub = Hub(tmp_path / "hub")
    hub.close()
    assert [one for one in threading.enumerate() if one.name == "evertick-enrolment"] == []


@pytest.fixture
def hub(tmp_path):
    hub = Hub(tmp_path / "hub")
    yield hub
    hub.close()


@pytest.fixture
def at(monkeypatch):
    """Let the authority work at another time."""
    now = authority_module._now

    def at(offset_us: int) -> None:
        monkeypatch.setattr(authority_module, "_now", lambda: now() + offset_us)

    return at


def cert_in(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / "cert.pem").read_bytes())


def signer_of(folder: Path) -> str:
    return cert_in(folder).issuer.rfc4514_string()


@pytest.mark.parametrize("role", [Role.MEMBER, Role.SCHEDULER])
@pytest.mark.parametrize(
    ("lifetime_us", "age_us", "is_due"),
    [
        pytest.param(365 * DAY, 0, False, id="a new one"),
        pytest.param(365 * DAY, 240 * DAY, False, id="one with more than a third left"),
        pytest.param(365 * DAY, 250 * DAY, True, id="one with less"),
        pytest.param(HOUR, 10 * MINUTE, False, id="a short one that is young"),
        pytest.param(HOUR, 50 * MINUTE, True, id="a short one that ends soon"),
    ],
)
def test_a_certificate_is_replaced_when_a_third_of_its_life_is_left(
    hub, at, tmp_path, role, lifetime_us, age_us, is_due
):
    folder = tmp_path / "elsewhere"
    at(-age_us)
    Authority(hub.folder, lifetime_us).issue(folder, role, "ex-a", address=hub.address)
    at(0)
    before = cert_in(folder)
    assert needs_renewal(Certificates.in_folder(folder)) is is_due
    pause = renew_if_due(folder)
    assert (cert_in(folder).serial_number != before.serial_number) is is_due
    assert not needs_renewal(Certificates.in_folder(folder))
    assert 0 < pause <= LOOK_SECONDS
    assert renew_if_due(folder)  # what it has now is taken


def test_files_of_the_hub_and_of_the_operator_are_left_alone(hub, tmp_path, at):
    at(-300 * DAY)
    hub.authority.issue(tmp_path / "by-hand", Role.MEMBER, "ex-a")
    at(0)
    before = cert_in(tmp_path / "by-hand")
    assert renew_if_due(tmp_path / "by-hand") == renew_if_due(hub.folder / "scheduler") == LOOK_SECONDS
    assert cert_in(tmp_path / "by-hand") == before


def test_a_revoked_certificate_is_not_renewed(hub, tmp_path, at):
    at(-300 * DAY)
    hub.authority.issue(tmp_path / "ex-a", Role.MEMBER, "ex-a", address=hub.address)
    at(0)
    hub.authority.revoke("ex-a")
    with pytest.raises(Conflict, match="revoked"):
        renew_if_due(tmp_path / "ex-a")


@pytest.mark.parametrize("sends", [b"", b"\x16\x03\x01"], ids=["nothing", "half a hello"])
def test_connections_that_ask_nothing_make_room(hub, tmp_path, sends, monkeypatch):
    monkeypatch.setattr(enrolment, "SECONDS", 120.0)  # none of them goes by itself
    monkeypatch.setattr(enrolment, "LIMIT_SECONDS", 120.0)
    certificates = hub.authority.issue(tmp_path / "ex-a", Role.MEMBER, "ex-a", address=hub.address)
    with contextlib.ExitStack() as stack:
        for _ in range(3 * AT_ONCE):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", hub.address.join_port)))
            with contextlib.suppress(OSError):
                one.sendall(sends)
        assert ask_trust(hub.address, certificates) == hub.authority.ca


def test_a_client_that_sends_a_byte_now_and_then_is_dropped(hub, monkeypatch):
    monkeypatch.setattr(enrolment, "LIMIT_SECONDS", 0.5)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", hub.address.join_port), 30) as plain,
        context.wrap_socket(plain) as secure,
        contextlib.suppress(OSError),
    ):
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            secure.sendall(b" ")
            time.sleep(0.05)
        raise AssertionError("the connection was kept")


def test_the_port_answers_again_when_there_are_descriptors(hub, tmp_path, monkeypatch):
    refused = threading.Event()
    monkeypatch.setattr(enrolment.log, "warning", lambda *_: refused.set())
    certificates = hub.authority.issue(tmp_path / "ex-a", Role.MEMBER, "ex-a", address=hub.address)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.socket() as first, socket.socket() as second:
        lowest = os.dup(first.fileno())
        os.close(lowest)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, before[1]))
        try:
            # Where the port waits already, it has a descriptor for the first; for the second there is none.
            first.connect(("127.0.0.1", hub.address.join_port))
            second.connect(("127.0.0.1", hub.address.join_port))
            assert refused.wait(30)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert ask_trust(hub.address, certificates) == hub.authority.ca


def no_replacement(source, target, replace=os.replace):
    """As a kill right before it."""
    if source.name == NEXT_KEY_FILE:
        raise KeyboardInterrupt
    replace(source, target)


@pytest.mark.parametrize("cut_at", [NEXT_KEY_FILE, CERT_FILE, "the end"])
def test_a_certificate_has_its_key_wherever_a_renewal_is_cut_short(hub, tmp_path, monkeypatch, cut_at):
    folder = tmp_path / "ex-a"
    hub.authority.issue(folder, Role.MEMBER, "ex-a", address=hub.address)

    def write(path, content):
        if path.name == cut_at:
            raise KeyboardInterrupt
        write_private(path, content)

    monkeypatch.setattr(certs, "write_private", write)
    monkeypatch.setattr(os, "replace", no_replacement)
    with pytest.raises(KeyboardInterrupt):
        renew(folder)
    monkeypatch.undo()
    paths = Certificates(*(str(folder / name) for name in ("ca.pem", "cert.pem", "key.pem")))
    assert ask_trust(hub.address, paths) == hub.authority.ca
    assert ask_trust(hub.address, Certificates.in_folder(folder)) == hub.authority.ca


class TestRotationOfTheAuthority:
    @pytest.fixture
    def machines(self, hub, tmp_path):
        made = {"ex-a": Role.MEMBER, "node-2": Role.SCHEDULER}
        for name, role in made.items():
            hub.authority.issue(tmp_path / name, role, name, address=hub.address)
        return [tmp_path / name for name in made]

    def test_all_certificates_are_replaced_and_the_former_authority_is_not_trusted(self, hub, machines, tmp_path, at):
        first = signer_of(machines[0])
        following = hub.authority.begin_rotation()
        with pytest.raises(Conflict, match=r"would be locked out \(2\).*member ex-a.*scheduler node-2"):
            hub.authority.finish_rotation()
        hub.look()
        for folder in machines:
            renew_if_due(folder)
        assert {signer_of(folder) for folder in (*machines, hub.folder / "hub")} == {first}
        shutil.copytree(machines[0], tmp_path / "stolen")
        hub.authority.finish_rotation()
        hub.look()
        for folder in machines:
            renew_if_due(folder)
        assert first not in {signer_of(folder) for folder in (*machines, hub.folder / "hub", hub.folder / "scheduler")}
        assert fingerprint_of(hub.authority.ca) == following
        assert renew_if_due(tmp_path / "stolen"), "the former ones are good for an hour more"
        assert not hub.authority.forget_former()
        at(2 * HOUR)
        assert hub.authority.forget_former()
        at(0)
        hub.look()
        assert (hub.authority.ca, hub.authority.next_fingerprint) == (hub.authority.signing, "")
        for folder in machines:
            renew_if_due(folder)
            assert (folder / "ca.pem").read_bytes() == hub.authority.signing

    def test_a_certificate_of_the_former_authority_does_not_get_in_when_that_is_forgotten(self, hub, tmp_path, at):
        former = Authority(tmp_path / "copy")
        shutil.copytree(hub.folder / "authority", tmp_path / "copy" / "authority")  # its key was stolen
        hub.authority.begin_rotation()
        hub.look()
        hub.authority.finish_rotation()
        hub.look()
        at(2 * HOUR)
        assert hub.authority.forget_former()
        at(0)
        hub.look()
        former.issue(tmp_path / "forged", Role.SCHEDULER, "mallory", address=hub.address)
        (tmp_path / "forged" / "ca.pem").write_bytes(hub.authority.signing)
        with pytest.raises(ExecutorUnavailable):
            renew_if_due(tmp_path / "forged")

    def test_a_rotation_that_is_cut_short_has_happened_or_not(self, hub, machines, monkeypatch):
        following = hub.authority.begin_rotation()
        for folder in machines:
            renew_if_due(folder)

        def cut() -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(hub.authority, "_settle", cut)
            with pytest.raises(KeyboardInterrupt):
                hub.authority.finish_rotation()
        assert fingerprint_of(hub.authority.signing) == following
        hub.look()
        for folder in machines:
            renew_if_due(folder)
            assert signer_of(folder) == signer_of(hub.folder / "hub")
        with pytest.raises(Conflict, match="no rotation is in progress"):
            hub.authority.finish_rotation()

    def test_only_one_at_a_time(self, hub):
        hub.authority.begin_rotation()
        with pytest.raises(Conflict, match="already in progress"):
            hub.authority.begin_rotation()
        hub.look()
        hub.authority.finish_rotation()
        with pytest.raises(Conflict, match="former authority are still valid"):
            hub.authority.begin_rotation()

    def test_those_who_do_not_come_along_can_be_left_behind(self, hub, machines):
        hub.authority.begin_rotation()
        hub.look()
        hub.authority.finish_rotation(is_forced=True)
        hub.look()
        with pytest.raises(ExecutorUnavailable):
            renew_if_due(machines[0])

    def test_a_machine_joins_at_every_stage(self, hub, tmp_path):
        for number, step in enumerate((lambda: None, hub.authority.begin_rotation, hub.authority.finish_rotation)):
            for known in range(number):
                renew_if_due(tmp_path / f"ex-{known}")
            step()
            hub.look()
            folder, name = tmp_path / f"ex-{number}", f"ex-{number}"
            enrol(hub.address.url, hub.authority.invite(hub.address.join_port), name, folder)
            assert renew_if_due(folder)

    def test_a_stranger_cannot_put_its_authority_beside_the_one_that_a_token_names(self, hub, tmp_path, monkeypatch):
        token = hub.authority.invite(hub.address.join_port)
        genuine = hub.authority.ca
        stranger = Hub(tmp_path / "stranger")
        try:
            both = stranger.authority.ca + genuine
            monkeypatch.setattr(Authority, "ca", property(lambda _: both))
            to_stranger = token.replace(str(hub.address.join_port), str(stranger.address.join_port), 1)
            with pytest.raises(ExecutorUnavailable):
                enrol(stranger.address.url, to_stranger, "ex-a", tmp_path / "ex-a")
        finally:
            stranger.close()
        assert not (tmp_path / "ex-a").exists()


@pytest.mark.slow
def test_members_and_schedulers_elsewhere_renew_while_they_work(tmp_path, reports, at):
    local_fleet = LocalFleet(tmp_path, is_secure=True)
    try:
        local_fleet.start()
        local_fleet.token()  # the hub is there
        hub = Authority(tmp_path / "hub")
        at(-300 * DAY)
        old = {"ex-a": tmp_path / "ex-a" / "certs", "node-2": tmp_path / "node-2" / "certs"}
        address = hub_address_in(hub.folder)
        hub.issue(old["ex-a"], Role.MEMBER, "ex-a", address=address)
        certificates = hub.issue(old["node-2"], Role.SCHEDULER, "node-2", address=address)
        at(0)
        serials = {name: cert_in(folder).serial_number for name, folder in old.items()}
        local_fleet.join("ex-a")
        executor = FleetExecutor(
            tmp_path / "node-2", fleet_at(local_fleet.url, certificates, FleetSettings(lease_us=LONG_US))
        )
        executor.open(reports)
        try:
            for name, folder in old.items():
                wait_for(partial(has_new_certificate, folder, serials[name]), f"{name} to renew")
                assert not needs_renewal(Certificates.in_folder(folder))
            local_fleet.wait_until_ready(executor, "ex-a")
            order = launch(job_of(sh("true"), id="renewed"))._replace(executor="fleet:ex-a")
            # The member's keeper may still start, and refuse until then; a scheduler launches again as well.
            wait_for(lambda: is_accepted(executor, order, reports), "the launch to be accepted")
            assert reports.end_of(order.key).state is SUCCEEDED
        finally:
            executor.close()
    finally:
        local_fleet.close()


def is_accepted(executor: FleetExecutor, order: Launch, reports: Reports) -> bool:
    known = len(list(reports))
    executor.launch(order)
    said = reports.wait_until(lambda all_: len(all_) > known)
    return not isinstance(list(said)[known], LaunchRefused)


def has_new_certificate(folder: Path, serial: int) -> bool:
    return cert_in(folder).serial_number != serial
