"""Who gets a certificate, and what it contains."""

from __future__ import annotations

import stat

import pytest
from cryptography import x509

from evertick.errors import Conflict, NotFound, SettingsError
from evertick.executors.fleet import authority as authority_module
from evertick.executors.fleet.authority import OVERLAP_US, Authority
from evertick.executors.fleet.certs import HubAddress, fingerprint_of, hub_address_of, new_request
from evertick.executors.fleet.enrolment import Token
from evertick.executors.fleet.hub_folder import hub_address_in, provide
from evertick.executors.fleet.identity import Peer, Role
from evertick.executors.fleet.registry import RECORD_FILE, MemberRegistry, Revocations, lock, member_id
from evertick.model.instant import HOUR

ADDRESS = HubAddress("tls://127.0.0.1:8786", 8787)


@pytest.fixture
def authority(tmp_path):
    made = Authority(tmp_path / "hub")
    assert made.create()
    return made


def secret_of(token: str) -> str:
    return Token.parse(token).secret


def identity_in(cert: bytes) -> list[str]:
    names = x509.load_pem_x509_certificate(cert).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    return names.value.get_values_for_type(x509.UniformResourceIdentifier)


def test_a_token_is_good_for_one_certificate_with_the_name_in_it(authority):
    token = authority.invite(8787)
    assert Token.parse(token) == (8787, secret_of(token), fingerprint_of(authority.ca))
    cert = authority.redeem(secret_of(token), "ex-a", new_request("whatever it says").csr)
    assert identity_in(cert) == ["evertick:member:ex-a"]
    with pytest.raises(Conflict, match="already used by ex-a"):
        authority.redeem(secret_of(token), "ex-b", new_request("ex-b").csr)


def test_a_name_with_a_certificate_is_given_to_no_other_machine(authority):
    authority.redeem(secret_of(authority.invite(1)), "ex-a", new_request("ex-a").csr)
    token = authority.invite(1)
    with pytest.raises(Conflict, match="already has a certificate"):
        authority.redeem(secret_of(token), "ex-a", new_request("ex-a").csr)
    # A refusal does not use the token up.
    authority.redeem(secret_of(token), "ex-b", new_request("ex-b").csr)
    authority.revoke("ex-a")
    authority.redeem(secret_of(authority.invite(1)), "ex-a", new_request("ex-a").csr)


@pytest.mark.parametrize(
    ("invited", "comes_as", "reason"),
    [
        pytest.param({"name": "ex-b"}, "ex-a", "is for ex-b", id="another name"),
        pytest.param({"lasts_us": 0}, "ex-a", "unknown or has expired", id="too late"),
    ],
)
def test_a_token_that_is_not_for_this_is_refused(authority, invited, comes_as, reason):
    token = authority.invite(1, **invited)
    with pytest.raises(Conflict, match=reason):
        authority.redeem(secret_of(token), comes_as, new_request(comes_as).csr)
    with pytest.raises(Conflict, match="unknown or has expired"):
        authority.redeem("guess", comes_as, new_request(comes_as).csr)


def test_a_role_is_in_the_token_and_not_for_its_bearer_to_choose(authority):
    token = authority.invite(1, Role.SCHEDULER)
    assert identity_in(authority.redeem(secret_of(token), "node-2", new_request("x").csr)) == [
        "evertick:scheduler:node-2"
    ]


@pytest.mark.parametrize("name", ["", "a:b", "../a", "evertick:hub:x", "ä"])
def test_names_that_could_be_taken_for_something_else_are_refused(authority, name):
    with pytest.raises(SettingsError):
        authority.redeem(secret_of(authority.invite(1)), name, new_request("x").csr)


@pytest.mark.parametrize(
    "csr", [b"", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"]
)
def test_a_request_that_is_none_is_refused(authority, csr):
    with pytest.raises(Conflict, match="cannot be read"):
        authority.redeem(secret_of(authority.invite(1)), "ex-a", csr)


def test_what_replaces_a_certificate_ends_it_a_little_later(authority):
    authority.sign(new_request("x").csr, Role.MEMBER, "ex-a")
    authority.sign(new_request("x").csr, Role.MEMBER, "ex-a", renews=True)
    old, new = authority.list_certificates()
    assert old.revoked_at == new.issued_at + OVERLAP_US
    assert new.revoked_at == 0


def test_a_certificate_is_renewed_while_it_is_good_and_not_without_end(authority, monkeypatch):
    monkeypatch.setattr(authority_module, "RENEWED_MAX", 2)
    authority.sign(new_request("x").csr, Role.MEMBER, "ex-a")
    (first,) = authority.list_certificates()
    for _ in range(2):
        assert identity_in(authority.renew(new_request("x").csr, first.serial)) == ["evertick:member:ex-a"]
    with pytest.raises(Conflict, match="too often"):
        authority.renew(new_request("x").csr, first.serial)
    authority.revoke("ex-a")
    with pytest.raises(Conflict, match="was revoked"):
        authority.renew(new_request("x").csr, first.serial)


def test_revoking_what_is_not_there_says_so(authority):
    with pytest.raises(NotFound, match="'ex-a'"):
        authority.revoke("ex-a")


def test_everything_is_for_its_owner_only(tmp_path):
    provide(tmp_path / "hub", ADDRESS)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "hub").rglob("*")}
    assert len(modes) > 10
    assert [path for path, mode in modes.items() if mode & 0o077] == []


def test_a_second_start_keeps_what_the_first_has_made(tmp_path):
    first = provide(tmp_path, ADDRESS)
    cert = (tmp_path / "hub" / "cert.pem").read_bytes()
    second = provide(tmp_path, ADDRESS)
    assert (first.is_new, second.is_new) == (True, False)
    assert (tmp_path / "hub" / "cert.pem").read_bytes() == cert
    assert (hub_address_in(tmp_path), hub_address_of(tmp_path / "scheduler")) == (ADDRESS, ADDRESS)


def test_two_hubs_do_not_share_a_folder(tmp_path):
    held = lock(tmp_path)
    with pytest.raises(Conflict, match="is already running"):
        lock(tmp_path)
    assert held


@pytest.mark.parametrize("text", ["", "abc", "1.2", "x.y.z", "70000.a.b", "8787..c"])
def test_another_text_is_not_taken_for_a_token(text):
    with pytest.raises(SettingsError, match="not a fleet token"):
        Token.parse(text)


class TestNames:
    def test_a_name_belongs_to_the_folder_that_had_it_first(self, tmp_path):
        mine, other = member_id(tmp_path), "another"
        assert member_id(tmp_path) == mine
        assert MemberRegistry(tmp_path).claim("ex-a", mine)
        # Another hub, on the same folder.
        again = MemberRegistry(tmp_path)
        assert not again.claim("ex-a", other)
        assert again.claim("ex-a", mine)
        again.release("ex-a")
        assert MemberRegistry(tmp_path).claim("ex-a", other)

    @pytest.mark.parametrize("owner", ["", "x" * 101])
    def test_a_member_that_does_not_say_who_it_is_has_no_name(self, tmp_path, owner):
        assert not MemberRegistry(tmp_path).claim("ex-a", owner)


def test_the_hub_learns_what_was_revoked(authority):
    authority.sign(new_request("x").csr, Role.MEMBER, "ex-a")
    authority.sign(new_request("x").csr, Role.MEMBER, "ex-b")
    seen = Revocations(authority.folder / RECORD_FILE)
    seen.look()
    peers = {one.name: Peer(one.role, one.name, one.serial) for one in authority.list_certificates()}
    assert not any(map(seen, peers.values()))
    authority.revoke("ex-a")
    seen.look()
    assert {name: seen(peer) for name, peer in peers.items()} == {"ex-a": True, "ex-b": False}
    assert seen.freed == {"ex-a"}
    (authority.folder / RECORD_FILE).write_text("torn")
    seen.look()
    assert seen(peers["ex-a"])


def test_an_invitation_lasts_as_long_as_it_says(authority):
    authority.invite(1, lasts_us=HOUR)
    (invitation,) = authority.read().invitations
    assert invitation.digest not in authority.invite(1)
    assert invitation.used_by == ""
