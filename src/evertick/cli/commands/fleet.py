"""`evertick fleet`: run jobs on other machines."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli.commands.fleet_certs import certs, folder_option, token
from evertick.cli.commands.fleet_members import (
    FleetCommand,
    certs_option,
    cordon,
    drain,
    forget,
    list_,
    remove,
    uncordon,
    url_argument,
)
from evertick.cli.lazy import SuggestingGroup
from evertick.cli.output import note

if TYPE_CHECKING:
    from evertick.executors.fleet.process_supervisor import Part
    from evertick.executors.fleet.settings import Certificates

http_option = click.option(
    "--dask-http-port",
    "http_port",
    default=0,
    type=click.IntRange(0, 65_535),
    help="Serve Dask's own status page on this local port, to every user of this machine; default: off.",
)
SIGNAL_SECONDS = 0.2
"""How often to check for a signal."""


@click.group(cls=SuggestingGroup)
def fleet() -> None:
    """Run jobs on other machines.

    \b
    Example, all on one machine:
      evertick fleet start &
      evertick fleet join tls://127.0.0.1:8786 --name ex-a --token $(evertick fleet token -o name) &
      evertick serve jobs --fleet tls://127.0.0.1:8786
    """


for command in (certs, token, list_, cordon, uncordon, drain, remove, forget):
    fleet.add_command(command)
# An alias: `fleet members`.
fleet.add_command(FleetCommand("members", callback=list_.callback, params=list_.params, help=list_.help, hidden=True))


@fleet.command()
@click.option("--url", help="Address to listen on: tls://HOST:PORT; default: tls://127.0.0.1:8786.")
@click.option("--join-port", default=0, help="Port on which machines join; default: the URL's port + 1.")
@click.option(
    "--insecure", is_flag=True, help="No certificates, this machine only; every user of this machine can run jobs."
)
@http_option
@folder_option
@certs_option
def start(
    url: str | None, join_port: int, insecure: bool, http_port: int, folder: Path | None, certs: Path | None
) -> None:
    """Start the hub that members and schedulers connect to.

    The first start creates a certificate authority and prints the command with which a machine joins. The hub holds no
    run state: after a restart, members and schedulers reconnect.

    \b
    Examples:
      evertick fleet start
      evertick fleet start --url tls://10.0.0.1:8786
    """
    from evertick.executors.fleet.process_supervisor import Part
    from evertick.executors.fleet.registry import default_folder, lock
    from evertick.executors.fleet.settings import Certificates, check_url, need_dask

    need_dask()
    where = url or f"{'tcp' if insecure else 'tls'}://127.0.0.1:8786"
    _check_scheme(where, insecure=insecure)
    home = (folder or default_folder()).absolute()
    held = lock(home)
    try:
        if insecure or certs:
            certificates = Certificates.in_folder(certs) if certs else None
            check_url(where, certificates)
            _supervise("scheduler", Part(where, certificates, folder=str(home), http_port=http_port))
        _start_with_authority(where, join_port, http_port, home)
    finally:
        os.close(held)


def _start_with_authority(url: str, join_port: int, http_port: int, home: Path) -> None:
    from urllib.parse import urlsplit

    from evertick.cli.commands.fleet_certs import join_command
    from evertick.errors import Conflict
    from evertick.executors.fleet.settings import PORT, check_url, need_cryptography

    need_cryptography()
    from evertick.executors.fleet.certs import HubAddress
    from evertick.executors.fleet.enrolment import EnrolmentServer
    from evertick.executors.fleet.hub_folder import provide, reachable_url
    from evertick.executors.fleet.identity import Role
    from evertick.executors.fleet.process_supervisor import CERTIFICATE_SECONDS, Part

    parts = urlsplit(url)
    address = HubAddress(url, join_port or (parts.port or PORT) + 1)
    provision = provide(home, address)
    check_url(url, provision.certificates)
    try:
        server = EnrolmentServer(provision.authority, provision.certificates, parts.hostname or "", address.join_port)
    except OSError as error:
        raise Conflict(
            f"cannot listen on port {address.join_port}, on which machines join: {error}. Use --join-port."
        ) from None
    server.start()
    if provision.is_new:
        invitation = provision.authority.invite(address.join_port)
        note("To let one machine join within 24 hours, run there:")
        note(f"  {join_command(reachable_url(url), invitation, Role.MEMBER)}")
        note("For another machine: evertick fleet token")
    part = Part(url, provision.certificates, folder=str(home), http_port=http_port)

    def renew_if_due() -> float:
        provide(home, address)
        return CERTIFICATE_SECONDS

    _supervise("scheduler", part, renew_if_due)


@fleet.command(cls=FleetCommand)
@url_argument
@click.option("--name", required=True, help="Unique and permanent name of this member.")
@click.option(
    "--token", "token_text", envvar="EVERTICK_FLEET_TOKEN", help="For the first join; from 'evertick fleet token'."
)
@click.option(
    "--label", "labels", multiple=True, metavar="NAME=VALUE", help="A label for the jobs' runsOn; repeatable."
)
@click.option("--folder", type=click.Path(path_type=Path), help="State folder; default: ~/.evertick-NAME.")
@click.option("--slots", default=0, help="Maximum number of parallel attempts; 0: unlimited.", show_default=True)
@click.option("--cpu", metavar="N", help="Processors available to jobs; default: all.")
@click.option("--memory", metavar="SIZE", help="Memory available to jobs, for example 8GiB; default: all.")
@click.option("--gpus", metavar="N", help="GPUs available to jobs; default: all NVIDIA GPUs found.")
@click.option("--resource", "resources", multiple=True, metavar="NAME=N", help="Another resource; repeatable.")
@click.option(
    "--lease",
    default=60.0,
    type=click.FloatRange(min=5),
    help="How many seconds runs continue without contact with the fleet.",
    show_default=True,
)
@click.option("--host", default="", help="Address to listen on; default: the one that routes to the fleet.")
@click.option("--worker-port", default=0, type=click.IntRange(0, 65_535), help="Port to listen on; default: any.")
@click.option("--insecure", is_flag=True, help="No certificates; only for a hub on this machine with --insecure.")
@http_option
@certs_option
def join(
    url: str,
    name: str,
    token_text: str | None,
    labels: tuple[str, ...],
    folder: Path | None,
    slots: int,
    cpu: str | None,
    memory: str | None,
    gpus: str | None,
    resources: tuple[str, ...],
    lease: float,
    host: str,
    worker_port: int,
    insecure: bool,
    http_port: int,
    certs: Path | None,
) -> None:
    """Join a fleet and run its jobs on this machine.

    The first join needs a token, which the member exchanges for a certificate; it renews the certificate by itself.
    When the member stops, its runs continue for --lease seconds, and a restart within that time picks them up. To stop
    without active runs, use 'evertick fleet drain' first.

    \b
    Examples:
      evertick fleet join tls://10.0.0.1:8786 --name ex-a --token TOKEN
      evertick fleet join tls://10.0.0.1:8786 --name ex-b --label zone=eu --gpus 2 --memory 64GiB
    """
    from evertick.errors import SettingsError
    from evertick.executors.fleet.process_supervisor import Part
    from evertick.executors.fleet.settings import check_url, is_loopback, need_dask
    from evertick.model.member import SLOTS_MAX, is_member_name

    need_dask()
    if not is_member_name(name):
        raise SettingsError(f"invalid member name '{name}'. Use letters, digits, '-', '_' and '.'.")
    if not 0 <= slots <= SLOTS_MAX:
        raise SettingsError(f"invalid '--slots {slots}'. Use a number from 0 to {SLOTS_MAX:,}.")
    _check_scheme(url, insecure=insecure)
    if insecure and host and not is_loopback(host):
        raise SettingsError(
            f"'--host {host}' is reachable from other machines and needs certificates. Remove --insecure."
        )
    home = (folder or Path.home() / f".evertick-{name}").absolute()
    certificates = None if insecure else _certificates_of_member(url, name, token_text, certs, home)
    check_url(url, certificates)
    named = {"cpu": cpu, "memory": memory, "gpus": gpus}
    part = Part(
        url,
        certificates,
        name=name,
        labels=_labels(labels),
        folder=str(home),
        host=host,
        worker_port=worker_port,
        http_port=http_port,
        slots=slots,
        lease_seconds=lease,
        offers=_offers({key: text for key, text in named.items() if text is not None}, resources),
    )
    _supervise("member", part, None if insecure else lambda: _renew_certificates(part))


def _certificates_of_member(url: str, name: str, token: str | None, certs: Path | None, home: Path) -> Certificates:
    from evertick.errors import SettingsError
    from evertick.executors.fleet.settings import CERT_FILE, Certificates, check_url, need_cryptography

    if certs is not None:
        return Certificates.in_folder(certs)
    own = home / "certs"
    if (own / CERT_FILE).is_file():
        return Certificates.in_folder(own)
    if not token:
        raise SettingsError(
            f"{name} has no certificate in '{own}'. Run 'evertick fleet token' on the hub's machine and pass the token "
            "with --token."
        )
    need_cryptography()
    from evertick.executors.fleet.enrolment import enrol

    check_url(url, Certificates("", "", ""))
    return enrol(url, token, name, own)


def _renew_certificates(part: Part) -> float:
    from evertick.executors.fleet.renewal import renew_if_due

    assert part.certificates is not None
    return renew_if_due(Path(part.certificates.cert).parent)


def _check_scheme(url: str, *, insecure: bool) -> None:
    from evertick.errors import SettingsError

    if insecure and not url.startswith("tcp://"):
        raise SettingsError(f"--insecure needs a tcp:// URL on this machine, not '{url}'. Remove --insecure.")
    if not insecure and url.startswith("tcp://"):
        raise SettingsError(
            f"'{url}' is unencrypted and lets every user of this machine run jobs. Use tls://, or add --insecure."
        )


def _labels(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    from evertick.errors import SettingsError

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise SettingsError(f"invalid '--label {text}'. Write for example --label gpu=true.")
        found[name.strip()] = value.strip()
    return tuple(sorted(found.items()))


def _offers(named: dict[str, str], others: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """The resources of this machine, overridden by the options; 0 offers none."""
    from evertick.errors import SettingsError
    from evertick.executors.fleet.reservations import detect_resources
    from evertick.model.resources import is_resource_name, parse_amount, resources_of

    found = dict(detect_resources())
    for name, text in (*named.items(), *(other.partition("=")[::2] for other in others)):
        option = f"--{name} {text}" if name in named else f"--resource {name}={text}"
        if not is_resource_name(name):
            raise SettingsError(f"invalid '{option}'. Write for example --resource licenses=2.")
        try:
            found[name] = 0 if text.strip() == "0" else parse_amount(name, text)
        except ValueError as error:
            raise SettingsError(f"invalid '{option}': {error}.") from None
    return resources_of(found)


def _supervise(role: str, part: Part, renew: Callable[[], float] | None = None) -> None:
    from evertick.executors.fleet.process_supervisor import Supervisor

    what = f"{part.name} has joined {part.url}" if part.name else f"The hub is listening on {part.url}"

    def show_line(line: str) -> None:
        note(f"{what}. Press Ctrl-C to stop." if line.startswith("ready ") else f"{part.name or 'hub'}: {line}")

    supervisor = Supervisor(role, part, show_line, renew)
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    codes: list[int] = []
    running = threading.Thread(target=lambda: codes.append(supervisor.run()), name="evertick-fleet")
    running.start()
    # With a timeout: Python may not handle a signal that arrives just before the main thread starts to wait on a lock.
    while running.is_alive():
        running.join(SIGNAL_SECONDS)
        if signals:
            signals.clear()
            supervisor.stop()
    raise SystemExit(codes[0] if codes else 1)
