"""Which settings there are: one frozen object, and the table of their kinds, defaults and meanings.

A setting is called as its attribute without the unit, in the table of its part: `loop.preread_us` is `preread` in
`[loop]` of evertick.toml, and EVERTICK_LOOP_PREREAD in the environment.
"""

# ruff: noqa: RUF009  -- each default is a field with its line of the table
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from evertick.model.instant import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from evertick.model.notify import Channel, NotifyEvent, Route
from evertick.model.work import Value
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


def _a(kind: Kind, default: Any, meaning: str, shown: str | None = None) -> Any:
    """A setting; `shown` is what the documentation calls a default that depends on the machine."""
    is_open = kind in (STORE, SECRET, SECRETS, ADDRESS, CHANNELS)
    return field(default=default, metadata={"kind": kind, "meaning": meaning, "shown": shown}, repr=not is_open)


def _part(cls: type, about: str) -> Any:
    return field(default_factory=cls, metadata={"part": cls, "about": about})


@dataclass(frozen=True, slots=True)
class LoopPart:
    preread_us: int = _a(duration(), 5 * SECOND, "Occurrences are entered in the ledger this long before they are due.")
    interval_us: int = _a(duration(), SECOND, "How often the loop plans, whatever else wakes it.")
    keep_us: int = _a(
        duration(), 30 * SECOND, "How long the loop remembers an ended run, to report its end to a new owner."
    )
    flush_us: int = _a(
        duration(), 5 * SECOND, "With nothing due, how often the ledger learns how far planning has come."
    )
    retire_us: int = _a(duration(), MINUTE, "How long a job whose file went away keeps its place.")
    launch_retry_us: int = _a(
        duration(), SECOND, "The first wait after a launch was refused; it doubles up to a minute."
    )
    clock_jump_us: int = _a(
        duration(), 2 * SECOND, "A difference between wall and monotonic clock above this is a jump."
    )
    stall_us: int = _a(duration(), 5 * SECOND, "A pause of the loop above this is a stall.")
    lease_us: int = _a(duration(), 6 * SECOND, "A dead node's jobs are free for others after this.")
    batches: int = _a(count(1), 4, "Planning pauses while so many commits are unanswered.")
    changes: int = _a(count(1), 100_000, "Planning pauses while so many changes are unwritten.")


@dataclass(frozen=True, slots=True)
class JobsPart:
    grace_us: int = _a(duration(), 30 * SECOND, "An occurrence up to this late is on time, where its job does not say.")
    backlog: int = _a(
        count(1, 1_000_000), 1_000, "Occurrences of one job that may wait; the oldest beyond it are skipped."
    )


@dataclass(frozen=True, slots=True)
class LanesPart:
    fast: int = _a(count(1, 100_000), 200, "Launches under way at once in the fast lane.")
    fast_queue: int = _a(count(0), 2_000, "Launches that may wait for it; the runs of further ones wait.")
    slow: int = _a(count(1, 100_000), 100, "Launches under way at once in the slow lane.")
    slow_queue: int = _a(count(0), 5_000, "Launches that may wait for it.")
    slow_after_us: int = _a(duration(), 500 * MILLISECOND, "A launch that takes longer is slow.")
    forgiven: int = _a(count(0), 10, "Slow launches of a job in a minute before it takes the slow lane.")


@dataclass(frozen=True, slots=True)
class LocalPart:
    keepers: int = _a(count(1, 64), 1, "Processes that start and watch runs.")
    keeper_timeout_us: int = _a(
        duration(), 30 * SECOND, "A keeper that does not answer for this long is killed and replaced; its runs go on."
    )
    kill_after_us: int = _a(duration(), 5 * SECOND, "Between the polite end of a process and the one by force.")
    memory_bytes: int | None = _a(count(1 << 20, 1 << 50, none=True), None, "Address space of each process, in bytes.")
    files: int | None = _a(count(16, 1_000_000, none=True), None, "Open files of each process.")
    no_new_privileges: bool = _a(FLAG, False, "Programs of jobs cannot change their user (sudo).")
    lease_us: int = _a(
        duration(),
        2 * MINUTE,
        "Where nodes share a ledger: a node that cannot reach it ends its runs in this time, and others start them.",
    )


@dataclass(frozen=True, slots=True)
class RetentionPart:
    history_us: int | None = _a(duration(forever=True), 90 * DAY, "How long the ledger keeps what has ended.")
    logs_us: int | None = _a(duration(forever=True), 30 * DAY, "How long logs are kept, where a job does not say.")
    backups_us: int = _a(duration(), 7 * DAY, "How long the daily copies of a SQLite ledger are kept.")


@dataclass(frozen=True, slots=True)
class LogsPart:
    store: str = _a(TEXT, "", "Where finished logs are copied to, such as `s3://bucket/logs` or `file:///mnt/logs`.")


@dataclass(frozen=True, slots=True)
class LimitsPart:
    file_bytes: int = _a(SIZE, 1 << 20, "The largest job file.")
    feed: int = _a(count(16, 10_000_000), 10_000, "Events that the live feed remembers for those who come late.")
    clients: int = _a(count(1, 10_000), 64, "Connections to the local socket at once.")


@dataclass(frozen=True, slots=True)
class SmtpPart:
    host: str = _a(TEXT, "", "The server that takes mail; without it none is sent.")
    port: int = _a(count(1, 65_535), 587, "Its port.")
    tls: str = _a(choice("starttls", "tls", "none"), "starttls", "How the connection is protected.")
    sender: str = _a(TEXT, "evertick@localhost", "Whom mail comes from.")
    user: str = _a(TEXT, "", "Whom to log in as.")
    password: Value = _a(SECRET, "", "The password to log in with.")


@dataclass(frozen=True, slots=True)
class HeartbeatPart:
    url: Value = _a(ADDRESS, "", "Called every so often while the loop turns and is not behind.")
    every_us: int = _a(duration(), MINUTE, "How often.")
    behind_us: int = _a(duration(), 30 * SECOND, "A loop that is further behind than this is not said to be well.")


@dataclass(frozen=True, slots=True)
class NotificationsPart:
    channels: tuple[tuple[str, Channel], ...] = _a(
        CHANNELS, (), "Receivers by name: an address, a mail address, or `{slack = ...}`."
    )
    on_failure: tuple[str, ...] = _a(LINES, (), "Channels told when a run of any job failed.")
    on_recovered: tuple[str, ...] = _a(LINES, (), "The same for the first success after a failure.")
    on_missed: tuple[str, ...] = _a(LINES, (), "The same for occurrences that were missed and not made up.")
    on_late: tuple[str, ...] = _a(LINES, (), "The same for runs that started or took too long.")
    on_skipped_streak: tuple[str, ...] = _a(LINES, (), "The same for several skips in a row.")
    on_success: tuple[str, ...] = _a(LINES, (), "The same for every success.")
    on_member_missing: tuple[str, ...] = _a(
        LINES, (), "Channels told when a member that `fleet.expected` names is missing, and when it is back."
    )
    on_ledger_damaged: tuple[str, ...] = _a(
        LINES, (), "Channels told when the check in the background finds the ledger's file damaged."
    )
    allowed: tuple[str, ...] = _a(LINES, (), "Hosts and networks that are not public and may be called all the same.")
    signing_key: Value = _a(SECRET, "", "The key that webhooks are signed with.")
    quiet_us: int = _a(duration(), 10 * MINUTE, "The same event of the same job is told once in this time.")
    streak: int = _a(count(2), 3, "Skips in a row that are worth a message.")
    hourly: int = _a(count(1), 120, "Messages in an hour, over all jobs.")
    attempts: int = _a(count(1, 100), 6, "Tries of one message.")
    smtp: SmtpPart = _part(SmtpPart, "The mail server.")
    heartbeat: HeartbeatPart = _part(HeartbeatPart, "A sign of life for a monitoring service.")

    @property
    def member_channels(self) -> tuple[Channel, ...]:
        """Who is told about members of the fleet."""
        known = dict(self.channels)
        return tuple(known[name] for name in self.on_member_missing)

    @property
    def ledger_channels(self) -> tuple[Channel, ...]:
        """Who is told about damage of the ledger."""
        known = dict(self.channels)
        return tuple(known[name] for name in self.on_ledger_damaged)

    @property
    def routes(self) -> tuple[Route, ...]:
        """Who is told about what of every job."""
        known = dict(self.channels)
        return tuple(
            Route(event, tuple(known[name] for name in names))
            for event in NotifyEvent
            if (names := getattr(self, str(event)))
        )


@dataclass(frozen=True, slots=True)
class ApiPart:
    tls_cert: Path | None = _a(
        PATH, None, "The certificate (PEM) of the server; with it the pages are served by HTTPS."
    )
    tls_key: Path | None = _a(PATH, None, "The key that belongs to it.")
    behind_proxy: bool = _a(
        FLAG, False, "A proxy in front serves HTTPS. On another host than this machine only `api.proxies` may connect."
    )
    proxies: tuple[str, ...] = _a(
        LINES, (), "Addresses or networks of proxies that are believed who calls (`X-Forwarded-For`, `-Proto`)."
    )
    url: str = _a(TEXT, "", "Where other nodes of the same ledger reach this one, for logs.", "its own address")
    allowed_hosts: tuple[str, ...] = _a(LINES, (), "Names that the server answers to, beside the local ones.")
    require_audit: bool = _a(FLAG, True, "Refuse actions that cannot be noted in the audit log; false: do them anyway.")
    audit_key: Value = _a(
        SECRET, "", "The key that seals the audit log, at least 32 characters.", "`audit.key` in the state folder"
    )
    allow_definitions: bool = _a(FLAG, False, "Let the API write job files. Whoever may, runs programs here.")
    session_us: int = _a(duration(), 12 * HOUR, "How long somebody stays signed in.")
    hooks: tuple[tuple[str, Value], ...] = _a(
        SECRETS, (), "Jobs that other systems may start through a webhook, each with the secret they prove it with."
    )


@dataclass(frozen=True, slots=True)
class FleetPart:
    url: str = _a(TEXT, "", "The fleet's address; without it all jobs run on this machine.")
    lease_us: int = _a(
        duration(), MINUTE, "A member that is silent for this long is given up; not shorter than a member's own."
    )
    expected: tuple[str, ...] = _a(LINES, (), "Members that should be there; see `notifications.on_member_missing`.")
    tls_ca: Path | None = _a(PATH, None, "The authority (PEM) that signs the fleet's certificates.")
    tls_cert: Path | None = _a(PATH, None, "This node's certificate (PEM).")
    tls_key: Path | None = _a(PATH, None, "The key that belongs to it.")


@dataclass(frozen=True, slots=True)
class KubernetesPart:
    kubeconfig: Path | None = _a(
        PATH, None, "The file that says how to reach the cluster.", "`KUBECONFIG`, or `~/.kube/config`"
    )
    context: str = _a(TEXT, "", "Its context; `in-cluster` is the cluster that the scheduler runs in.", "the file's")
    namespace: str = _a(TEXT, "", "Where the Jobs are made.", "the context's, or the scheduler's own")
    namespaces: tuple[str, ...] = _a(LINES, (), "Others that jobs may name; the account needs its rights in each.")
    instance: str = _a(TEXT, "evertick", "Whose Jobs these are; another for each ledger that uses the same namespace.")
    start_timeout_us: int = _a(duration(), 10 * MINUTE, "A pod that has not started by then fails.")
    keep_us: int = _a(duration(), 10 * MINUTE, "How long a Job stays on the cluster after its end was seen.")
    log_streams: int = _a(count(0, 10_000), 200, "Logs followed at once; those of more runs are read when they end.")


@dataclass(frozen=True, slots=True)
class StopPart:
    patience_us: int = _a(duration(), 30 * SECOND, "How long a stop waits for runs to end.")
    return_us: int = _a(
        duration(),
        10 * MINUTE,
        "Where nodes share a ledger: how long others leave what still runs to a node that is stopped.",
    )
    runs: str = _a(
        choice("leave", "end"),
        "leave",
        "What becomes of runs after that: they go on and are found again, or are ended.",
    )


@dataclass(frozen=True, slots=True)
class Values:
    """All of them; `Settings` adds where they come from."""

    timezone: str = _a(ZONE, "UTC", "The zone of jobs and schedules that name none.", "the system's")
    timezone_origin: str = "default"
    """Where `timezone` came from, in words: a setting, the system, the default."""
    store: str = _a(STORE, "", "The ledger.", "SQLite in the folder, under `.evertick/`")
    node: str = _a(TEXT, "", "This node's name.", "the host's name")
    state: Path | None = _a(
        PATH,
        None,
        "Where this node keeps what it needs: its runs, their logs, the socket.",
        "`.evertick` in the folder",
    )
    host: str = _a(TEXT, "127.0.0.1", "Where the pages and the API listen.")
    port: int = _a(count(0, 65_535), 8765, "Their port; 0 takes a free one.")
    web: bool = _a(FLAG, True, "Whether there are pages and an API at all.")
    queues: tuple[tuple[str, int], ...] = _a(
        LIMITS, (), "How many runs of the jobs in each named queue may be active at once, on all nodes together."
    )
    loop: LoopPart = _part(LoopPart, "How the loop is paced, and what it holds at most.")
    jobs: JobsPart = _part(JobsPart, "What holds for jobs that do not say otherwise.")
    lanes: LanesPart = _part(LanesPart, "How many launches are under way at once.")
    local: LocalPart = _part(LocalPart, "Runs on this machine.")
    retention: RetentionPart = _part(RetentionPart, "How long things are kept.")
    logs: LogsPart = _part(LogsPart, "Copies of logs that every node can read.")
    limits: LimitsPart = _part(LimitsPart, "How large and how many things may be.")
    notifications: NotificationsPart = _part(NotificationsPart, "Who is told of what, whatever the job files say.")
    api: ApiPart = _part(ApiPart, "The pages and the API.")
    fleet: FleetPart = _part(FleetPart, "Other machines that runs are given to.")
    kubernetes: KubernetesPart = _part(KubernetesPart, "Clusters that runs are given to.")
    stop: StopPart = _part(StopPart, "What happens when the scheduler is stopped.")
    config: Path | None = field(default=None, compare=False)
    """The file that was read, if there was one."""

    origins: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), compare=False, repr=False)
    """Where each value came from that is not a default."""
    warnings: tuple[str, ...] = field(default=(), compare=False)
    """What was written and looks like a slip of the pen, in sentences."""

    def state_folder(self, folder: Path) -> Path:
        """Where the node that serves a folder keeps what it needs."""
        return self.state or folder / STATE_FOLDER


def variable_of(key: str) -> str:
    """The variable of the environment that a setting is read from."""
    return f"EVERTICK_{key.upper().replace('.', '_')}"


class Setting(NamedTuple):
    """One line of the table."""

    key: str
    """In the file; a dot parts the table from the name."""
    path: tuple[str, ...]
    """The attributes that lead to it."""
    kind: Kind
    default: Any
    meaning: str
    shown: str | None

    @property
    def variable(self) -> str:
        return variable_of(self.key)

    def value_in(self, settings: Values) -> Any:
        found: Any = settings
        for name in self.path:
            found = getattr(found, name)
        return found
