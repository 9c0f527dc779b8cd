"""`evertick fleet`: other machines that run jobs."""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evertick.cli.commands.fleet_certs import certs, folder_option, token
from evertick.cli.lazy import SuggestingGroup
from evertick.cli.member_table import show_members
from evertick.cli.output import note, output_option, show, show_text

if TYPE_CHECKING:
    from evertick.executors.fleet.process_supervisor import Part
    from evertick.executors.fleet.settings import Certificates, FleetSettings
    from evertick.model.member import Member

certs_option = click.option(
    "--certs",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="EVERTICK_FLEET_CERTS",
    metavar="FOLDER",
    help="A folder with ca.pem, cert.pem and key.pem. EVERTICK_FLEET_CERTS sets it too.",
)
http_option = click.option(
    "--dask-http-port",
    "http_port",
    default=0,
    type=click.IntRange(0, 65_535),
    help="Show Dask's own state at this port of this machine, to every user of it; default: nowhere.",
)
URL_VARIABLE = "EVERTICK_FLEET_URL"
SIGNAL_SECONDS = 0.2
"""Between two looks whether a signal has arrived."""
_ADDRESS = re.compile(r"\w+://")
url_argument = click.argument("url", metavar="[URL]")


class FleetCommand(click.Command):
    """One that is told which fleet before anything else, or finds it in the environment."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # A label may hold an address too, behind its name.
        if not any(_ADDRESS.match(word) or word in ("-h", "--help") for word in args):
            known = os.environ.get(URL_VARIABLE, "")
            if not known:
                reason = f"Which fleet? Write its address first, as tls://127.0.0.1:8786, or set {URL_VARIABLE}."
                raise click.UsageError(reason, ctx)
            args = [known, *args]
        return super().parse_args(ctx, args)


@click.group(cls=SuggestingGroup)
def fleet() -> None:
    """Run jobs on other machines, and look after those.

    \b
    Example, all on one machine:
      evertick fleet start &
      evertick fleet join tls://127.0.0.1:8786 --name ex-a --token $(evertick fleet token -o name) &
      evertick serve jobs --fleet tls://127.0.0.1:8786
    """


fleet.add_command(certs)
fleet.add_command(token)


@fleet.command()
@click.option("--url", help="Where to listen: tls://HOST:PORT; default: tls://127.0.0.1:8786.")
@click.option(
    "--join-port", default=0, help="Where machines redeem their tokens; default: the port after that of the URL."
)
@click.option(
    "--insecure", is_flag=True, help="Without certificates, on this machine only: every user of it can run jobs."
)
@http_option
@folder_option
@certs_option
def start(
    url: str | None, join_port: int, insecure: bool, http_port: int, folder: Path | None, certs: Path | None
) -> None:
    """Be the hub that members and schedulers connect to, until stopped.

    The first start makes an authority and certificates, and prints the command that a machine joins with. It keeps
    nothing of what runs: when it is started again, members and schedulers come back to it.

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
    from evertick.executors.fleet.certs import Place
    from evertick.executors.fleet.enrolment import EnrolmentServer
    from evertick.executors.fleet.hub_folder import provide, reachable_url
    from evertick.executors.fleet.identity import Role
    from evertick.executors.fleet.process_supervisor import CERTIFICATE_SECONDS, Part

    parts = urlsplit(url)
    place = Place(url, join_port or (parts.port or PORT) + 1)
    provision = provide(home, place)
    check_url(url, provision.certificates)
    try:
        server = EnrolmentServer(provision.authority, provision.certificates, parts.hostname or "", place.join_port)
    except OSError as error:
        raise Conflict(
            f"cannot listen at port {place.join_port}, where machines join: {error}. Use --join-port."
        ) from None
    server.start()
    if provision.is_new:
        invitation = provision.authority.invite(place.join_port)
        note("Let a machine join, once and within a day:")
        note(f"  {join_command(reachable_url(url), invitation, Role.MEMBER)}")
        note("More of these: evertick fleet token")
    part = Part(url, provision.certificates, folder=str(home), http_port=http_port)

    def look_after() -> float:
        provide(home, place)
        return CERTIFICATE_SECONDS

    _supervise("scheduler", part, look_after)


@fleet.command(cls=FleetCommand)
@url_argument
@click.option("--name", required=True, help="What it is called, for ever; no two may have one name.")
@click.option(
    "--token", "token_text", envvar="EVERTICK_FLEET_TOKEN", help="Lets it in, the first time: 'evertick fleet token'."
)
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="What jobs may ask for. Repeatable.")
@click.option("--folder", type=click.Path(path_type=Path), help="Where it keeps its runs; default: ~/.evertick-NAME.")
@click.option("--slots", default=0, help="How many attempts it runs at once; 0: as many as come.", show_default=True)
@click.option("--cpu", metavar="N", help="Processors that jobs may ask for; default: those of this machine.")
@click.option("--memory", metavar="SIZE", help="Memory that jobs may ask for, as 8GiB; default: this machine's.")
@click.option("--gpus", metavar="N", help="GPUs that jobs may ask for; default: those of NVIDIA that are found.")
@click.option("--resource", "resources", multiple=True, metavar="NAME=N", help="Anything else. Repeatable.")
@click.option(
    "--lease",
    default=60.0,
    type=click.FloatRange(min=5),
    help="Seconds that its runs go on without the fleet.",
    show_default=True,
)
@click.option("--host", default="", help="The address it listens on; default: the one on the way to the fleet.")
@click.option("--worker-port", default=0, type=click.IntRange(0, 65_535), help="The port it listens on; default: any.")
@click.option("--insecure", is_flag=True, help="Without certificates, to a hub on this machine that was started so.")
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
    """Run jobs for a fleet on this machine, until stopped.

    The first time it needs a token, which it redeems for a certificate under its name; that one is renewed in time.
    What runs when it is stopped goes on for the time of the lease, and is found if it is started again by then; use
    'fleet drain' first to let everything end.

    \b
    Examples:
      evertick fleet join tls://10.0.0.1:8786 --name ex-a --token TOKEN
      evertick fleet join tls://10.0.0.1:8786 --name ex-b --label zone=eu --gpus 2 --memory 64GiB
    """
    from evertick.errors import SettingsError
    from evertick.executors.fleet.process_supervisor import Part
    from evertick.executors.fleet.settings import FleetSettings, is_loopback, need_dask
    from evertick.model.member import SLOTS_MAX, is_member_name

    need_dask()
    if not is_member_name(name):
        raise SettingsError(f"'{name}' cannot be the name of a member. Write letters, digits, '-', '_' and '.'.")
    if not 0 <= slots <= SLOTS_MAX:
        raise SettingsError(f"'--slots {slots}' must be from 0 to {SLOTS_MAX:,}.")
    _check_scheme(url, insecure=insecure)
    if insecure and host and not is_loopback(host):
        raise SettingsError(
            f"'--host {host}' can be reached by others, which needs certificates. Leave --insecure out."
        )
    home = (folder or Path.home() / f".evertick-{name}").absolute()
    if insecure:
        settings = FleetSettings(url)
    else:
        settings = FleetSettings(url, _certificates_of_member(url, name, token_text, certs, home))
    named = {"cpu": cpu, "memory": memory, "gpus": gpus}
    part = Part(
        settings.url,
        settings.certificates,
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
    _supervise("member", part, None if insecure else lambda: _look_after(part))


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
            f"{name} has no certificate in '{own}'. Get a token on the machine of the hub with 'evertick fleet token', "
            "and give it with --token."
        )
    need_cryptography()
    from evertick.executors.fleet.enrolment import enrol

    check_url(url, Certificates("", "", ""))
    return enrol(url, token, name, own)


def _look_after(part: Part) -> float:
    from evertick.executors.fleet.renewal import look_after

    assert part.certificates is not None
    return look_after(Path(part.certificates.cert).parent)


def _check_scheme(url: str, *, insecure: bool) -> None:
    from evertick.errors import SettingsError

    if insecure and not url.startswith("tcp://"):
        raise SettingsError(f"'--insecure' is for tcp:// on this machine, and not for '{url}'. Leave it out.")
    if not insecure and url.startswith("tcp://"):
        raise SettingsError(
            f"'{url}' has no encryption and lets every user of this machine run jobs. Write tls://, or add --insecure."
        )


@fleet.command("list", cls=FleetCommand)
@url_argument
@certs_option
@output_option
def list_(url: str, certs: Path | None, output: str) -> None:
    """Show who is in a fleet: health, load, labels, resources, version.

    A member that is away stays in the list for a week, with when it was last seen; one that was removed does not.

    \b
    Example:
      evertick fleet list tls://127.0.0.1:8786
    """
    from evertick.executors.fleet.admin import list_members

    show_members(output, list_members(_settings(url, certs)))


# What it shows are members; who asks for those by that name is understood.
fleet.add_command(FleetCommand("members", callback=list_.callback, params=list_.params, help=list_.help, hidden=True))


@fleet.command(cls=FleetCommand)
@url_argument
@click.argument("member")
@certs_option
@output_option
def cordon(url: str, member: str, certs: Path | None, output: str) -> None:
    """Give a member nothing new; what it runs goes on.

    \b
    Example:
      evertick fleet cordon tls://127.0.0.1:8786 ex-a
    """
    from evertick.executors.fleet.admin import set_cordon

    show_members(output, [set_cordon(_settings(url, certs), member, is_closed=True)])


@fleet.command(cls=FleetCommand)
@url_argument
@click.argument("member")
@certs_option
@output_option
def uncordon(url: str, member: str, certs: Path | None, output: str) -> None:
    """Let a member that was cordoned or drained take attempts again.

    \b
    Example:
      evertick fleet uncordon tls://127.0.0.1:8786 ex-a
    """
    from evertick.executors.fleet.admin import set_cordon

    show_members(output, [set_cordon(_settings(url, certs), member, is_closed=False)])


@fleet.command(cls=FleetCommand)
@url_argument
@click.argument("member")
@click.option("--timeout", default=3600.0, show_default=True, help="Seconds to wait.")
@certs_option
@output_option
def drain(url: str, member: str, timeout: float, certs: Path | None, output: str) -> None:
    """Give a member nothing new, and wait until nothing runs there.

    \b
    Example:
      evertick fleet drain tls://127.0.0.1:8786 ex-a && evertick fleet remove tls://127.0.0.1:8786 ex-a
    """
    from evertick.executors.fleet import admin

    def said(seen: Member) -> None:
        if seen.running:
            runs = "1 attempt runs" if seen.running == 1 else f"{seen.running} attempts run"
            note(f"{seen.name} takes nothing more; {runs} there.")

    show_members(output, [admin.drain(_settings(url, certs), member, timeout, said)])


@fleet.command(cls=FleetCommand)
@url_argument
@click.argument("member")
@click.option("--force", is_flag=True, help="Also when it runs something, which is lost then.")
@certs_option
@output_option
def remove(url: str, member: str, force: bool, certs: Path | None, output: str) -> None:
    """Let a member leave for good: its process ends, and does not start again.

    \b
    Example:
      evertick fleet remove tls://127.0.0.1:8786 ex-a
    """
    from evertick.executors.fleet import admin

    admin.remove(_settings(url, certs), member, by_force=force)
    show(output, {"member": member}, lambda: show_text(member), name="member")


@fleet.command(cls=FleetCommand)
@url_argument
@click.argument("member")
@certs_option
@output_option
def forget(url: str, member: str, certs: Path | None, output: str) -> None:
    """Drop a member that is away from the list, and free its name.

    For a machine that does not come back. Its certificate stays good; 'fleet certs revoke' ends that. If it does come
    back before another machine has taken its name, it is a member again.

    \b
    Example:
      evertick fleet forget tls://127.0.0.1:8786 ex-a
    """
    from evertick.executors.fleet import admin

    admin.forget(_settings(url, certs), member)
    show(output, {"member": member}, lambda: show_text(member), name="member")


def _settings(url: str, certs: Path | None) -> FleetSettings:
    from evertick.errors import SettingsError
    from evertick.executors.fleet.settings import LEASE_US, Certificates, FleetSettings, need_dask
    from evertick.settings import Settings

    need_dask()
    try:
        lease_us = Settings.load(Path()).fleet.lease_us  # whether a member's own is too long is judged by it
    except SettingsError:
        lease_us = LEASE_US
    if certs is None and url.startswith("tls://"):
        return FleetSettings(url, Certificates.of_this_machine(), lease_us)
    return FleetSettings(url, Certificates.in_folder(certs) if certs else None, lease_us)


def _labels(texts: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    from evertick.errors import SettingsError

    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise SettingsError(f"'--label {text}' is not a label. Write --label gpu=true.")
        found[name.strip()] = value.strip()
    return tuple(sorted(found.items()))


def _offers(named: dict[str, str], others: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    """What this machine has, unless it is said otherwise; 0 offers none of it."""
    from evertick.errors import SettingsError
    from evertick.executors.fleet.machine import detect_resources
    from evertick.model.resources import is_resource_name, parse_amount, resources_of

    found = dict(detect_resources())
    for name, text in (*named.items(), *(other.partition("=")[::2] for other in others)):
        option = f"--{name} {text}" if name in named else f"--resource {name}={text}"
        if not is_resource_name(name):
            raise SettingsError(f"'{option}' is not a resource. Write --resource licenses=2.")
        try:
            found[name] = 0 if text.strip() == "0" else parse_amount(name, text)
        except ValueError as error:
            raise SettingsError(f"'{option}' does not fit: {error}.") from None
    return resources_of(found)


def _supervise(role: str, part: Part, renew: Callable[[], float] | None = None) -> None:
    from evertick.executors.fleet.process_supervisor import Supervisor

    what = f"{part.name} runs jobs for {part.url}" if part.name else f"the fleet is at {part.url}"

    def said(line: str) -> None:
        note(f"{what}. Ctrl-C stops." if line.startswith("ready ") else f"{part.name or 'the fleet'} {line}")

    supervisor = Supervisor(role, part, said, renew)
    signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: signals.append(number))
    codes: list[int] = []
    running = threading.Thread(target=lambda: codes.append(supervisor.run()), name="evertick-fleet")
    running.start()
    # In pauses: Python handles no signal in a main thread that waits on a lock or a pipe since just before it arrived.
    while running.is_alive():
        running.join(SIGNAL_SECONDS)
        if signals:
            signals.clear()
            supervisor.stop()
    raise SystemExit(codes[0] if codes else 1)
