"""Which settings there are: one frozen object, and the table of their kinds, defaults and meanings.

A setting is called as its attribute without the unit, in the table of its part: `loop.preread_us` is `preread` in
`[loop]` of evertick.toml, and EVERTICK_LOOP_PREREAD in the environment.
"""

# ruff: noqa: RUF009  -- each default is a field with its line of the table
from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from evertick.errors import SettingsError
from evertick.model.duration import format_duration
from evertick.model.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from evertick.model.notify import Channel, NotifyEvent, Route
from evertick.model.work import Value
from evertick.settings.blackouts import BLACKOUTS, BlackoutRule
from evertick.settings.calendars import CALENDARS, CalendarSource
from evertick.settings.channels import CHANNELS
from evertick.settings.kinds import (
    ADDRESS,
    FLAG,
    LIMITS,
    LINES,
    PATH,
    SECRET,
    SECRETS,
    SIZE,
    STORE,
    TEXT,
    ZONE,
    Kind,
    choice,
    count,
    duration,
)

STATE_FOLDER = ".evertick"
_LABEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _a(kind: Kind[Any], default: Any, meaning: str, shown: str | None = None) -> Any:
    """A setting; `shown` is what the documentation calls a default that depends on the machine."""
    is_open = kind in (STORE, SECRET, SECRETS, ADDRESS, CHANNELS)
    return field(default=default, metadata={"kind": kind, "meaning": meaning, "shown": shown}, repr=not is_open)


def _part(cls: type, about: str) -> Any:
    return field(default_factory=cls, metadata={"part": cls, "about": about})


def _inline(cls: type) -> Any:
    """Settings of the same table that are passed on as an object of their own."""
    return field(default_factory=cls, metadata={"inline": cls})


@dataclass(frozen=True, slots=True)
class LoopSettings:
    preread_us: int = _a(duration(), 5 * SECOND, "How long before its due time an occurrence is entered in the ledger.")
    interval_us: int = _a(
        duration(),
        SECOND,
        "How often the scheduler plans when nothing else wakes it; half as often while nothing is due.",
    )
    keep_us: int = _a(
        duration(),
        30 * SECOND,
        "How long a node remembers the end of a run that the ledger does not answer about.",
    )
    flush_us: int = _a(duration(), 5 * SECOND, "How often an idle node writes its watermarks to the ledger.")
    retire_us: int = _a(duration(), MINUTE, "How long a deleted job file may be absent before its job is retired.")
    launch_retry_us: int = _a(
        duration(), SECOND, "The wait before a refused launch is retried; it doubles each time, up to a minute."
    )
    clock_jump_us: int = _a(
        duration(), 2 * SECOND, "Report a clock jump when wall clock and monotonic clock differ by more than this."
    )
    stall_us: int = _a(duration(), 5 * SECOND, "Report a stall when the scheduling loop pauses for longer than this.")
    lease_us: int = _a(
        duration(), 6 * SECOND, "How long other nodes wait before they take over the jobs of a dead node."
    )
    batches: int = _a(count(1), 4, "Pause planning while this many commits are pending.")
    changes: int = _a(count(1), 100_000, "Pause planning while this many changes are not yet written.")
    queues: tuple[tuple[str, int], ...] = ()
    """The setting `queues`, which stands outside of the table: the active runs that each named queue allows."""

    def __post_init__(self) -> None:
        for name in ("preread", "interval", "keep", "flush"):
            if getattr(self, f"{name}_us") <= 0:
                raise SettingsError(f"'loop.{name}' must be longer than zero.")
        for name in ("batches", "changes"):
            if getattr(self, name) < 1:
                raise SettingsError(f"'loop.{name}' must be at least 1.")
        self._require_not_shorter("preread", "an occurrence must be entered before it is due")
        self._require_not_shorter("keep", "an ended run must outlive one iteration")

    def _require_not_shorter(self, name: str, because: str) -> None:
        value_us = getattr(self, f"{name}_us")
        if value_us < self.interval_us:
            raise SettingsError(
                f"'loop.{name}' ({format_duration(value_us)}) must not be shorter than 'loop.interval' "
                f"({format_duration(self.interval_us)}): {because}."
            )


@dataclass(frozen=True, slots=True)
class JobsPart:
    grace_us: int = _a(duration(), 30 * SECOND, "Default grace: an occurrence up to this late counts as on time.")
    backlog: int = _a(
        count(1, 1_000_000), 1_000, "Maximum backlog of one job; older occurrences are skipped with the reason `cap`."
    )


@dataclass(frozen=True, slots=True)
class LaneSettings:
    fast: int = _a(count(1, 100_000), 200, "Parallel launches in the fast lane.")
    fast_queue: int = _a(count(0), 2_000, "Launches that may queue for the fast lane; further runs wait in the ledger.")
    slow: int = _a(count(1, 100_000), 100, "Parallel launches in the slow lane.")
    slow_queue: int = _a(count(0), 5_000, "Launches that may queue for the slow lane.")
    slow_after_us: int = _a(duration(), 500 * MILLISECOND, "A launch that takes longer than this counts as slow.")
    forgiven: int = _a(count(0), 10, "A job with more slow launches than this in a minute moves to the slow lane.")

    @property
    def reserve(self) -> int:
        """Places of the fast lane that only jobs known to be fast may take."""
        return self.fast // 10


@dataclass(frozen=True, slots=True)
class KeeperSettings:
    """Given to a keeper when it starts, for its whole life."""

    kill_after_us: int = _a(duration(), 5 * SECOND, "Time between SIGTERM and SIGKILL when a run is stopped.")
    memory_bytes: int | None = _a(
        count(1 << 20, 1 << 50, none=True), None, "Memory limit of each process (address space), in bytes."
    )
    files: int | None = _a(count(16, 1_000_000, none=True), None, "Open-file limit of each process.")
    no_new_privileges: bool = _a(FLAG, False, "Do not let processes of jobs gain privileges, for example with sudo.")
    idle_us: int = MINUTE
    """An idle keeper without a scheduler exits after this long."""
    remember_us: int = 10 * MINUTE
    """A delivered result is kept for this long, counted while a scheduler is connected."""
    journal_bytes: int = 1024 * 1024
    """Size at which the journal is rotated."""
    journal_files: int = 8
    """The archived journal has at most the size of this number of files, once its results were delivered."""
    hidden: tuple[str, ...] = ()
    """Files and folders of the scheduler, beside its state folder, that sandboxes hide."""
    unshowable: tuple[str, ...] = ()
    """Files such as a ledger: no sandbox shows a folder that contains one."""

    def to_text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> KeeperSettings:
        plain = json.loads(text)
        # JSON has no tuples.
        for name in ("hidden", "unshowable"):
            plain[name] = tuple(plain.get(name, ()))
        return cls(**plain)


@dataclass(frozen=True, slots=True)
class LocalSettings:
    keepers: int = _a(count(1, 64), 1, "Number of keeper processes, which start and watch runs.")
    keeper_timeout_us: int = _a(
        duration(), 30 * SECOND, "Replace a keeper that does not respond for this long; its runs continue."
    )
    keeper: KeeperSettings = _inline(KeeperSettings)
    lease_us: int = _a(
        duration(),
        2 * MINUTE,
        "With several nodes: a node that cannot reach the ledger stops its runs in this time; others then start them.",
    )

    def __post_init__(self) -> None:
        if not 1 <= self.keepers <= 64:
            raise SettingsError(
                f"'local.keepers' is {self.keepers}; it must be from 1 to 64. More keepers than cores do not help."
            )
        if self.keeper_timeout_us < SECOND:
            raise SettingsError(
                "'local.keeper_timeout' must be at least 1s: a healthy keeper may need that long to answer."
            )


@dataclass(frozen=True, slots=True)
class RetentionPart:
    history_us: int | None = _a(duration(forever=True), 90 * DAY, "How long the ledger keeps finished runs and skips.")
    logs_us: int | None = _a(duration(forever=True), 30 * DAY, "How long logs are kept, unless the job sets it.")
    backups_us: int = _a(duration(), 7 * DAY, "How long daily backups of a SQLite ledger are kept.")


@dataclass(frozen=True, slots=True)
class LogsPart:
    store: str = _a(
        TEXT, "", "Copy finished logs to this location, for example `s3://bucket/logs` or `file:///mnt/logs`."
    )


@dataclass(frozen=True, slots=True)
class LimitsPart:
    file_bytes: int = _a(SIZE, 1 << 20, "Maximum size of a job file.")
    feed: int = _a(
        count(16, 10_000_000), 10_000, "Number of events that the live feed keeps for clients that reconnect."
    )
    clients: int = _a(count(1, 10_000), 64, "Maximum number of connections to the local control socket.")


@dataclass(frozen=True, slots=True)
class SmtpPart:
    host: str = _a(TEXT, "", "SMTP server. Without it, Evertick sends no mail.")
    port: int = _a(count(1, 65_535), 587, "Port of the SMTP server.")
    tls: str = _a(choice("starttls", "tls", "none"), "starttls", "How the connection is encrypted.")
    sender: str = _a(TEXT, "evertick@localhost", "Sender address.")
    user: str = _a(TEXT, "", "User name for the SMTP server.")
    password: Value = _a(SECRET, "", "Password for the SMTP server.")


@dataclass(frozen=True, slots=True)
class HeartbeatPart:
    url: Value = _a(ADDRESS, "", "URL to call regularly while the scheduler is healthy.")
    every_us: int = _a(duration(), MINUTE, "Interval between calls.")
    behind_us: int = _a(duration(), 30 * SECOND, "Send no heartbeat when the scheduler lags by more than this.")


@dataclass(frozen=True, slots=True)
class NotificationsPart:
    channels: tuple[tuple[str, Channel], ...] = _a(
        CHANNELS, (), "Named channels: a URL, a mail address, or `{slack = ...}`."
    )
    on_failure: tuple[str, ...] = _a(LINES, (), "Channels to notify when a run of any job fails.")
    on_recovered: tuple[str, ...] = _a(LINES, (), "Channels to notify of the first success after a failure.")
    on_missed: tuple[str, ...] = _a(LINES, (), "Channels to notify of missed occurrences that will not run.")
    on_late: tuple[str, ...] = _a(LINES, (), "Channels to notify of runs that start late or take too long.")
    on_deadline_missed: tuple[str, ...] = _a(LINES, (), "Channels to notify of deadlines that passed without success.")
    on_skipped_streak: tuple[str, ...] = _a(LINES, (), "Channels to notify of several skips in a row.")
    on_success: tuple[str, ...] = _a(LINES, (), "Channels to notify of every success.")
    on_member_missing: tuple[str, ...] = _a(
        LINES, (), "Channels to notify when a member listed in `fleet.expected` is missing, and when it returns."
    )
    on_ledger_damaged: tuple[str, ...] = _a(
        LINES, (), "Channels to notify when the background check finds the ledger file damaged."
    )
    allowed: tuple[str, ...] = _a(LINES, (), "Private hosts and networks that notifications may call.")
    signing_key: Value = _a(SECRET, "", "Key that signs webhooks.")
    quiet_us: int = _a(duration(), 10 * MINUTE, "Send the same event of the same job at most once in this time.")
    streak: int = _a(count(2), 3, "Number of skips in a row that triggers `on_skipped_streak`.")
    hourly: int = _a(count(1), 120, "Maximum number of messages per hour, for all jobs.")
    attempts: int = _a(count(1, 100), 6, "Delivery attempts per message.")
    smtp: SmtpPart = _part(SmtpPart, "The SMTP server.")
    heartbeat: HeartbeatPart = _part(HeartbeatPart, "Heartbeat for a monitoring service (dead man's switch).")

    @property
    def member_channels(self) -> tuple[Channel, ...]:
        """The channels for events of fleet members."""
        known = dict(self.channels)
        return tuple(known[name] for name in self.on_member_missing)

    @property
    def ledger_channels(self) -> tuple[Channel, ...]:
        """The channels for a damaged ledger."""
        known = dict(self.channels)
        return tuple(known[name] for name in self.on_ledger_damaged)

    @property
    def routes(self) -> tuple[Route, ...]:
        """The channels for events of all jobs."""
        known = dict(self.channels)
        return tuple(
            Route(event, tuple(known[name] for name in names))
            for event in NotifyEvent
            if (names := getattr(self, str(event)))
        )


@dataclass(frozen=True, slots=True)
class ApiPart:
    tls_cert: Path | None = _a(PATH, None, "Server certificate (PEM). With it, the server uses HTTPS.")
    tls_key: Path | None = _a(PATH, None, "Private key of the certificate (PEM).")
    behind_proxy: bool = _a(
        FLAG, False, "A reverse proxy terminates HTTPS. On a non-loopback host, only `api.proxies` may connect."
    )
    proxies: tuple[str, ...] = _a(
        LINES, (), "Addresses or networks of trusted proxies (`X-Forwarded-For`, `X-Forwarded-Proto`)."
    )
    url: str = _a(TEXT, "", "URL at which other nodes reach this one, to read logs.", "its own address")
    allowed_hosts: tuple[str, ...] = _a(LINES, (), "Host names that the server accepts, in addition to the local ones.")
    require_audit: bool = _a(FLAG, True, "Reject actions that cannot be written to the audit log.")
    audit_key: Value = _a(
        SECRET, "", "Key of the audit log's hash chain, at least 32 characters.", "`audit.key` in the state folder"
    )
    allow_definitions: bool = _a(
        FLAG, False, "Let editors write job files over the API. They can then run any program on this machine."
    )
    session_us: int = _a(duration(), 12 * HOUR, "How long a browser session lasts.")
    hooks: tuple[tuple[str, Value], ...] = _a(
        SECRETS, (), "Jobs that a webhook may start, each with its signing secret."
    )


@dataclass(frozen=True, slots=True)
class FleetSettings:
    url: str = _a(TEXT, "", "URL of the fleet. Without it, all jobs run on this machine.")
    lease_us: int = _a(
        duration(),
        MINUTE,
        "A member that sends no heartbeat for this long is lost. Not shorter than the lease of any member.",
    )
    expected: tuple[str, ...] = _a(
        LINES, (), "Members that should be connected; see `notifications.on_member_missing`."
    )
    tls_ca: Path | None = _a(PATH, None, "Certificate authority of the fleet (PEM).")
    tls_cert: Path | None = _a(PATH, None, "Certificate of this node (PEM).")
    tls_key: Path | None = _a(PATH, None, "Private key of the certificate (PEM).")
    silence_us: int = 5 * SECOND
    """A member that was silent for this long gets no launches."""


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    kubeconfig: Path | None = _a(PATH, None, "Kubeconfig file.", "`KUBECONFIG`, or `~/.kube/config`")
    context: str = _a(
        TEXT, "", "Context of the kubeconfig; `in-cluster` uses the cluster that the scheduler runs in.", "the file's"
    )
    namespace: str = _a(TEXT, "", "Namespace for the Jobs.", "the context's, or the scheduler's own")
    namespaces: tuple[str, ...] = _a(
        LINES, (), "Additional namespaces that jobs may use; the service account needs permissions in each."
    )
    instance: str = _a(
        TEXT, "evertick", "Owner label of the Jobs. Use another for each ledger that shares a namespace."
    )
    start_timeout_us: int = _a(duration(), 10 * MINUTE, "Fail a pod that has not started within this time.")
    keep_us: int = _a(duration(), 10 * MINUTE, "How long a finished Job stays on the cluster.")
    log_streams: int = _a(
        count(0, 10_000), 200, "Maximum number of logs streamed at once; others are read when the run ends."
    )

    def __post_init__(self) -> None:
        if not _LABEL.fullmatch(self.instance):
            raise SettingsError(
                f"'kubernetes.instance' is {self.instance!r}, which is not a valid label value. "
                "Use up to 63 letters, digits, '-', '_' and '.'."
            )
        for name in ("start_timeout", "keep"):
            if getattr(self, f"{name}_us") < SECOND:
                raise SettingsError(f"'kubernetes.{name}' must be at least 1s.")


@dataclass(frozen=True, slots=True)
class DockerSettings:
    socket: Path | None = _a(
        PATH,
        None,
        "Socket of Docker or Podman, for `docker` steps. Without it they are refused. A user of the socket of an "
        "engine that runs as root is root.",
        "none: containers are not allowed",
    )
    mounts: tuple[str, ...] = _a(LINES, (), "Folders that containers may mount, with everything below them.")
    auth_file: Path | None = _a(
        PATH,
        None,
        "File with the logins of registries, as `docker login` and `podman login` write it, for images of every job. "
        "Credential helpers are not asked.",
        "none: a step names its own, or the engine has some",
    )


@dataclass(frozen=True, slots=True)
class StopPart:
    patience_us: int = _a(duration(), 30 * SECOND, "How long an orderly stop waits for active runs.")
    return_us: int = _a(
        duration(),
        10 * MINUTE,
        "With several nodes: how long others wait for a stopped node to return to its active runs.",
    )
    runs: str = _a(
        choice("leave", "end"),
        "leave",
        "What happens to runs that are still active then: `leave` them running for the next start, or `end` them.",
    )


@dataclass(frozen=True, slots=True)
class Values:
    """All settings; `Settings` adds where they come from."""

    timezone: str = _a(ZONE, "UTC", "Default time zone of jobs and schedules.", "the system's")
    timezone_origin: str = "default"
    """Where `timezone` came from, in words: a setting, the system, the default."""
    store: str = _a(STORE, "", "URL of the ledger.", "SQLite in the folder, under `.evertick/`")
    node: str = _a(TEXT, "", "Name of this node.", "the host's name")
    state: Path | None = _a(
        PATH,
        None,
        "State folder of this node: attempts, logs, control socket.",
        "`.evertick` in the folder",
    )
    host: str = _a(TEXT, "127.0.0.1", "Address that the web interface and the API listen on.")
    port: int = _a(count(0, 65_535), 8765, "Port of the web interface and the API; 0 uses a free one.")
    web: bool = _a(FLAG, True, "Serve the web interface and the API.")
    queues: tuple[tuple[str, int], ...] = _a(
        LIMITS, (), "Named queues: how many runs of their jobs may be active at once, on all nodes together."
    )
    calendars: tuple[tuple[str, CalendarSource], ...] = _a(
        CALENDARS, (), "Named calendars that jobs skip, or run on: `{dates, weekdays, holidays, ics}`."
    )
    blackouts: tuple[BlackoutRule, ...] = _a(
        BLACKOUTS, (), "Stretches in which jobs are not planned: `{from, to, timezone, reason, jobs, tags, all}`."
    )
    loop: LoopSettings = _part(LoopSettings, "Timing and limits of the scheduling loop.")
    jobs: JobsPart = _part(JobsPart, "Defaults for jobs.")
    lanes: LaneSettings = _part(LaneSettings, "Parallel launches.")
    local: LocalSettings = _part(LocalSettings, "Runs on this machine.")
    retention: RetentionPart = _part(RetentionPart, "How long history, logs and backups are kept.")
    logs: LogsPart = _part(LogsPart, "A shared store for logs, readable by every node.")
    limits: LimitsPart = _part(LimitsPart, "Size limits.")
    notifications: NotificationsPart = _part(NotificationsPart, "Notifications about all jobs.")
    api: ApiPart = _part(ApiPart, "The web interface and the API.")
    fleet: FleetSettings = _part(FleetSettings, "Runs on other machines.")
    kubernetes: KubernetesSettings = _part(KubernetesSettings, "Runs on a Kubernetes cluster.")
    docker: DockerSettings = _part(DockerSettings, "Containers on this machine.")
    stop: StopPart = _part(StopPart, "What happens when the scheduler is stopped.")
    config: Path | None = field(default=None, compare=False)
    """The file that was read, if there was one."""

    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), compare=False, repr=False)
    """Where each value that is not a default comes from."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """Probable mistakes in the settings, as sentences."""

    def state_folder(self, folder: Path) -> Path:
        """Where the node that serves a folder keeps what it needs."""
        return self.state or folder / STATE_FOLDER


def variable_of(key: str) -> str:
    """The environment variable of a setting."""
    return f"EVERTICK_{key.upper().replace('.', '_')}"


class Setting(NamedTuple):
    """One line of the table."""

    key: str
    """In the file; a dot parts the table from the name."""
    path: tuple[str, ...]
    """The attributes that lead to it."""
    kind: Kind[Any]
    default: object
    meaning: str
    shown: str | None

    @property
    def variable(self) -> str:
        """Empty: only the file can set it."""
        return variable_of(self.key) if self.kind.has_variable else ""

    def value_in(self, settings: Values) -> object:
        found: object = settings
        for name in self.path:
            found = getattr(found, name)
        return found
