"""Which addresses a message may be sent to, and that it goes to the address that was checked."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.dispatch.notify import egress as guard_module
from evertick.dispatch.notify.egress import EgressGuard, Refused, connect, is_public, masked
from evertick.errors import SettingsError
from tests.dispatch.notify.notices import receiver


def guard_with(addresses, *allowed):
    """A guard whose names mean these addresses, and who counts how often it asked."""
    made = EgressGuard.allowing(allowed)
    asked = []

    def lookup(host, port):
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    return EgressGuard(made.hosts, made.networks, lookup), asked


INSIDE = {
    "loopback": "127.0.0.1",
    "all of loopback": "127.99.1.2",
    "this host": "0.0.0.0",
    "this network": "0.1.2.3",
    "private 10": "10.0.0.1",
    "private 172": "172.16.5.4",
    "private 192": "192.168.1.1",
    "cloud metadata": "169.254.169.254",
    "carrier-grade NAT": "100.64.0.1",
    "the end of it": "100.127.255.255",
    "benchmarks": "198.18.0.1",
    "multicast": "224.0.0.1",
    "reserved": "240.0.0.1",
    "broadcast": "255.255.255.255",
    "documentation": "192.0.2.1",
    "loopback 6": "::1",
    "unspecified 6": "::",
    "unique local": "fd00::1",
    "unique local fc": "fc00::1",
    "metadata 6": "fd00:ec2::254",
    "link local 6": "fe80::1",
    "link local with its interface": "fe80::1%eth0",
    "site local": "fec0::1",
    "mapped loopback": "::ffff:127.0.0.1",
    "mapped metadata": "::ffff:169.254.169.254",
    "compatible loopback": "::127.0.0.1",
    "translated loopback": "64:ff9b::7f00:1",
    "6to4 of a private address": "2002:0a00:0001::1",
    "teredo": "2001:0:7f00:1::1",
    "multicast 6": "ff02::1",
    "documentation 6": "2001:db8::1",
    "new documentation 6": "3fff::1",
    "stateless translation of loopback": "::ffff:0:7f00:1",
    "not given out": "4000::1",
    "the host of Azure": "168.63.129.16",
    "relays of 6to4": "192.88.99.1",
}


@pytest.mark.parametrize("address", INSIDE.values(), ids=INSIDE)
def test_an_address_inside_is_refused(address):
    guard, _ = guard_with([address])
    with pytest.raises(Refused, match="not a public address"):
        guard.check("https://hooks.example.org/x")


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "100.63.255.255"])
def test_an_address_outside_is_allowed(address):
    guard, _ = guard_with([address])
    assert guard.check("https://hooks.example.org/x").addresses == (ip_address(address),)


def test_a_single_inside_address_among_many_is_enough_to_refuse():
    guard, _ = guard_with(["8.8.8.8", "10.0.0.1"])
    with pytest.raises(Refused, match=r"10\.0\.0\.1"):
        guard.check("https://hooks.example.org/x")


@pytest.mark.parametrize(
    ("allowed", "address", "is_allowed"),
    [
        pytest.param(["10.1.0.0/16"], "10.1.2.3", True, id="in an allowed network"),
        pytest.param(["10.1.0.0/16"], "10.2.2.3", False, id="beside it"),
        pytest.param(["10.1.2.3"], "10.1.2.3", True, id="an allowed address"),
        pytest.param(["10.1.2.3"], "::ffff:10.1.2.3", True, id="the same, mapped"),
        pytest.param(["fd00::/8"], "fd00::1", True, id="an allowed network of the new kind"),
        pytest.param(["Hooks.Example.org"], "10.9.9.9", True, id="an allowed host, whatever its address"),
        pytest.param(["example.org"], "10.9.9.9", False, id="its domain does not allow it"),
    ],
)
def test_the_operator_may_allow_targets_inside(allowed, address, is_allowed):
    guard, _ = guard_with([address], *allowed)
    if is_allowed:
        assert guard.check("http://hooks.example.org./x").addresses
    else:
        with pytest.raises(Refused):
            guard.check("http://hooks.example.org/x")


@pytest.mark.parametrize("entry", ["", "http://x/", "10.0.0.0/33", "a b"])
def test_an_entry_that_is_not_a_target_is_refused(entry):
    with pytest.raises(SettingsError, match="neither a host nor a network"):
        EgressGuard.allowing([entry])


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/x",
        "file:///etc/passwd",
        "https:///x",
        "https://user:pass@example.org/",
        "https://example.org:99999/",
        "https://example.org/a b",
        "https://example.org/\r\nX: y",
        "https://exämple.org/",
        "gopher://x",
        "",
    ],
)
def test_an_invalid_address_is_refused_without_a_lookup(url):
    guard, asked = guard_with(["8.8.8.8"])
    with pytest.raises(Refused) as caught:
        guard.check(url)
    assert asked == []
    assert "pass" not in str(caught.value).replace("password", "")


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "localhost", "[::1]", "[::ffff:7f00:1]"]
)
def test_every_way_to_write_this_machine_is_refused_by_the_real_lookup(host):
    with pytest.raises(Refused):
        EgressGuard.allowing().check(f"http://{host}:1/")


def test_the_name_is_asked_for_once_and_the_connection_goes_to_that_very_address(monkeypatch):
    with receiver() as here:
        guard, asked = guard_with(["127.0.0.1"], "127.0.0.0/8")
        target = guard.check(f"http://rebind.test:{here.port}/x")

        def no_lookup(*_args, **_options):
            raise AssertionError("the name was looked up again")

        monkeypatch.setattr(socket, "getaddrinfo", no_lookup)
        connection = connect(target, 5)
        connection.request("POST", "/x", b"{}")
        assert connection.getresponse().status == 200
        connection.close()
    assert asked == ["rebind.test"]
    assert here.told[0][2]["Host"] == f"rebind.test:{here.port}"


def test_a_second_address_is_tried_when_the_first_is_dead():
    with receiver() as here:
        guard, _ = guard_with(["127.0.0.2", "127.0.0.1"], "127.0.0.0/8")
        connection = connect(guard.check(f"http://x.test:{here.port}/"), 5)
        connection.close()


def test_many_dead_addresses_take_no_longer_than_one_try_may(monkeypatch):
    passed = [0.0]

    class Dead:
        def __init__(self, *_kind) -> None:
            self._patience = 0.0

        def settimeout(self, seconds: float) -> None:
            self._patience = seconds

        def connect(self, _where) -> None:
            passed[0] += self._patience
            raise TimeoutError

        def close(self) -> None:
            pass

    guard, _ = guard_with([f"198.51.100.{number}" for number in range(1, 60)], "198.51.100.0/24")
    target = guard.check("http://x.test/")
    monkeypatch.setattr(time, "monotonic", lambda: passed[0])
    monkeypatch.setattr(socket, "socket", Dead)
    with pytest.raises(TimeoutError):
        connect(target, 5, 15)
    assert passed == [15.0]


def test_a_closed_connection_is_not_opened_again_by_name():
    with receiver() as here:
        guard, _ = guard_with(["127.0.0.1"], "127.0.0.0/8")
        connection = connect(guard.check(f"http://x.test:{here.port}/"), 5)
        connection.close()
        with pytest.raises(http.client.NotConnected):
            connection.request("GET", "/")


def test_a_host_without_an_address_is_away_not_refused():
    guard, _ = guard_with([])
    with pytest.raises(OSError, match="has no address"):
        guard.check("http://nobody.test/")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        pytest.param("https://hooks.slack.com/services/T0/B0/secret", "https://hooks.slack.com/***", id="a path"),
        pytest.param("https://example.org?token=secret", "https://example.org/***", id="a query"),
        pytest.param("https://me:secret@example.org:8443/", "https://example.org:8443", id="a password"),
        pytest.param("https://example.org", "https://example.org", id="nothing to hide"),
        pytest.param("https://example.org:secret/", "an address", id="a port that is none"),
    ],
)
def test_only_scheme_and_host_are_shown(url, shown):
    assert masked(url) == shown


@given(st.ip_addresses())
def test_no_address_that_python_calls_private_is_public_here(address):
    if not address.is_global or address.is_multicast or address.is_loopback or address.is_link_local:
        assert not is_public(address)


@given(st.ip_addresses(v=4))
def test_a_mapped_address_is_as_public_as_the_address_itself(address):
    assert is_public(ip_address(f"::ffff:{address}")) is is_public(address)


def test_a_certificate_must_fit_the_name(monkeypatch, tls_receiver):
    guard, _ = guard_with(["127.0.0.1"], "127.0.0.0/8")
    connect(guard.check(f"https://receiver.test:{tls_receiver}/"), 5).close()
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(guard.check(f"https://other.test:{tls_receiver}/"), 5)


def test_an_unsigned_certificate_is_refused(monkeypatch, tls_receiver):
    monkeypatch.delenv("SSL_CERT_FILE")
    guard, _ = guard_with(["127.0.0.1"], "127.0.0.0/8")
    with pytest.raises(ssl.SSLCertVerificationError):
        connect(guard.check(f"https://receiver.test:{tls_receiver}/"), 5)


def test_the_list_of_what_is_inside_names_both_kinds_of_networks():
    assert {network.version for network in guard_module._INSIDE} == {4, 6}
