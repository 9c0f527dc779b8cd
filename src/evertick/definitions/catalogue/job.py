"""Which fields a job has: its name, its schedule, its rules, and its relations to other jobs."""

from __future__ import annotations

import re
from typing import Final

from evertick.definitions.catalogue.field import (
    ANYTHING,
    DURATION,
    FLAG,
    INTERVAL,
    TEXT,
    URL,
    WORDS,
    Field,
    Fields,
    choice,
    list_of,
    map_of,
    one_of,
    ref,
    whole,
)
from evertick.definitions.catalogue.limits import DELAY_MINUTES_MAX, PARALLEL_MAX, PRIORITY_MAX, RETRIES_MAX
from evertick.definitions.catalogue.words import (
    BLOCK_STRATEGIES,
    BLOCK_STRATEGY_ALIASES,
    EXECUTORS,
    KILL_TARGETS,
    MISFIRES,
    MISSED,
    MISSED_EXECUTIONS,
    ON_EXECUTOR_LOST,
    OVERLAP_POLICIES,
    OVERLAPS,
    SCOPES,
    STRATEGIES,
    STRATEGY_ALIASES,
)
from evertick.definitions.catalogue.work import CONDITIONS, VALUE, WORK
from evertick.model.calendar import Shift
from evertick.model.job import AfterEnd, AfterMode
from evertick.model.notify import NotifyEvent

TIMES: Final = ("cron", "every", "at")
_ENTRY: Final = one_of({"type": "string"}, ref("scheduleEntry"))
_TIMETABLE: Final = one_of(_ENTRY, {**list_of(_ENTRY), "minItems": 1})
TIME_OF_DAY: Final = re.compile("(?:[01]?[0-9]|2[0-3]):[0-5][0-9]")
_PARALLEL: Final = r"\( ?[0-9]+ ?\)"


def _overlap(words: list[str]) -> dict[str, object]:
    plain, many = words[:-1], words[-1]
    return {"anyOf": [{"enum": plain}, {"type": "string", "pattern": f"^{many} ?{_PARALLEL}$"}]}


ENTRY: Final[Fields] = {
    "timezone": Field(TEXT, "IANA name of the time zone.", "the job's", "Europe/Berlin"),
    "cron": Field(WORDS, "A cron expression, or a list of them.", "", "0 9 * * MON-FRI"),
    "every": Field(one_of(INTERVAL, list_of(INTERVAL)), "An interval, counted from 1970-01-01T00:00Z.", "", "45m"),
    "at": Field(WORDS, "One time, or a list of them.", "", "2027-03-01T09:00:00+01:00"),
}
START_STOP: Final[Fields] = {
    "start": Field(_TIMETABLE, "When the job starts.", "", "0 9 * * *"),
    "stop": Field(_TIMETABLE, "When an active run ends.", "", "0 18 * * *"),
    "restart": Field(_TIMETABLE, "When an active run ends and a new one starts.", "", "0 12 * * *"),
}
WINDOW: Final[Fields] = {
    "maxDelayMinutes": Field(
        whole(1, DELAY_MINUTES_MAX), "Skip an occurrence that would start later than this.", "", 30
    ),
}
CALENDAR: Final[Fields] = {
    "skip": Field(WORDS, "Calendars of the settings; an occurrence on a day of one of them does not run."),
    "only": Field(WORDS, "Calendars of the settings; an occurrence on any other day does not run."),
    "shift": Field(
        choice(Shift),
        "Run it at the same time on the next or previous day that is not excluded.",
        "it is skipped",
        "next",
    ),
}
AFTER: Final[Fields] = {
    "jobs": Field(WORDS, "The jobs to wait for."),
    "mode": Field(choice(AfterMode), "Whether all of them must have ended, or any one.", "`all`", "any"),
    "on": Field(
        choice(AfterEnd),
        "Which end counts: `failure` is failed, timed out or lost after the last attempt, `end` is any end of a run.",
        "`success`",
        "failure",
    ),
}
_CHANNEL_NAME: Final = {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"}
"""Of a channel that the settings name."""
_CHANNELS: Final = one_of(URL, _CHANNEL_NAME, ref("channel"), list_of(one_of(URL, _CHANNEL_NAME, ref("channel"))))
NOTIFY: Final[Fields] = {
    str(NotifyEvent.FAILURE): Field(_CHANNELS, "A run failed, and no attempt is left."),
    str(NotifyEvent.SUCCESS): Field(_CHANNELS, "A run succeeded."),
    str(NotifyEvent.MISSED): Field(_CHANNELS, "Occurrences were missed and do not run."),
    str(NotifyEvent.LATE): Field(_CHANNELS, "A run started late, or takes longer than expected."),
    str(NotifyEvent.RECOVERED): Field(_CHANNELS, "A run succeeded after one that failed."),
    str(NotifyEvent.DEADLINE_MISSED): Field(
        _CHANNELS, "A deadline (`expectBy`, `expectWithin`) passed without success."
    ),
    str(NotifyEvent.SKIPPED_STREAK): Field(_CHANNELS, "Several occurrences in a row were skipped."),
}
CHANNEL: Final[Fields] = {
    "webhook": Field(one_of(URL, ref("webhook")), "An address that receives the event as JSON."),
    "slack": Field(one_of(URL, ref("secret")), "The address of a Slack incoming webhook."),
    "smtp": Field(WORDS, "One mail address, or a list of them.", "", "ops@example.org"),
}
WEBHOOK: Final[Fields] = {
    "url": Field(one_of(URL, ref("secret")), "The address; it may be a secret."),
    "headers": Field(map_of(VALUE), "Headers by name; values may be secrets."),
    "env": Field(TEXT, "The variable of the scheduler's environment that holds the address."),
    "file": Field(TEXT, "The file that holds the address."),
}
_ACTIONS: Final = Field(
    one_of(
        choice(("retry", "kill", "skipNext")),
        ref("action"),
        list_of(one_of(choice(("retry", "kill", "skipNext")), ref("action"))),
    ),
    "What to do if the constraint does not hold: one action, or a list.",
)
ACTION: Final[Fields] = {
    "startJob": Field(TEXT, "Start another job."),
    "webhook": Field(one_of(URL, ref("secret")), "Call an address."),
    "kill": Field(choice(KILL_TARGETS), "End this run (`this`), the latest one, or all.", "", "all"),
}
RUNS_LIMIT: Final[Fields] = {"value": Field(whole(1, PARALLEL_MAX), "The maximum number."), "onViolation": _ACTIONS}
TIME_LIMIT: Final[Fields] = {"value": Field(DURATION, "The maximum duration."), "onViolation": _ACTIONS}
HOOK: Final[Fields] = {
    "url": Field(one_of(URL, ref("secret")), "The address; it may be a secret."),
    "onViolation": _ACTIONS,
}
REQUIRED_JOBS: Final[Fields] = {
    "jobs": Field(WORDS, "The jobs to check.", "this job itself"),
    "onViolation": _ACTIONS,
}
CONSTRAINTS: Final[Fields] = {
    "maxConcurrentRuns": Field(
        one_of(whole(1, PARALLEL_MAX), ref("runsLimit")),
        "The maximum number of active runs; more than one is `overlap: parallel(n)`.",
        "",
        2,
    ),
    "preRunHook": Field(
        one_of(URL, ref("secret"), ref("hook")), "An address that must answer 200 before a run starts."
    ),
    "postRunHook": Field(
        one_of(URL, ref("secret"), ref("hook")), "An address that must answer 200 for a run to succeed."
    ),
    "maxExpectedRunTime": Field(
        one_of(DURATION, ref("timeLimit")), "A run that takes longer is reported as late, and continues.", "", "30m"
    ),
    "maxAllowedRunTime": Field(
        one_of(DURATION, ref("timeLimit")), "A run that takes longer is ended; the same as `timeout`.", "", "2h"
    ),
    "requirePreviousSuccess": Field(
        one_of(FLAG, WORDS, ref("requiredJobs")),
        "The latest run must have succeeded: of this job (`true`), or of the named jobs.",
        "",
        True,
    ),
}

_LABELS: Final = one_of(map_of(TEXT), WORDS)
_ENABLED: Final = Field(FLAG, "Whether the job is scheduled.", "`true`", False)
_WINDOW: Final = Field(ref("window"), "How late an occurrence may start, including caught-up ones.", "no limit")
_RETRY: Final = Field(
    ref("retryPolicy"), "Retries after a failure.", "none; in a pipeline file 3, after 60 s, 120 s, 180 s"
)
_AFTER: Final = Field(
    one_of(WORDS, ref("after")),
    "Jobs that must end first: in success, or as `on` says. In the job or in the schedule block.",
    "none",
    "data-fetch",
)
_NOTIFY: Final = Field(
    ref("notify"), "Who is notified of what; in the job or in the schedule block.", "no notifications"
)
_CONDITION: Final = Field(CONDITIONS, "What must hold when a run starts; otherwise the run is skipped.")

BLOCK: Final[Fields] = {
    **ENTRY,
    "enabled": _ENABLED,
    "missedExecution": Field(
        choice(MISSED_EXECUTIONS),
        "Another name for `missed: latest` and `missed: none`.",
        "in a pipeline file `run`",
        "skip",
        is_synonym=True,
    ),
    "window": _WINDOW,
    "retryPolicy": _RETRY,
    "after": _AFTER,
    "condition": _CONDITION,
    "notify": _NOTIFY,
}
PIPELINE: Final[Fields] = {
    "input": Field(ANYTHING, "In a `pipeline.yaml`: the items."),
    "map": Field(ANYTHING, "In a `pipeline.yaml`: the question about each item."),
    "reduce": Field(ANYTHING, "In a `pipeline.yaml`: how the answers become one result."),
    "filter": Field(ANYTHING, "In a `pipeline.yaml`: which items are kept."),
    "job": Field(ANYTHING, "In a `pipeline.yaml`: one question instead of `map` and `reduce`."),
    "parameters": Field(ANYTHING, "In a `pipeline.yaml`: names and values for its prompts."),
    "workingDirectory": Field(ANYTHING, "In a `pipeline.yaml`: the folder of the invoker."),
    "invoker": Field(ANYTHING, "In a `pipeline.yaml`: the program that answers.", "a dry run"),
    "failWhen": Field(one_of(whole(0, 1_000_000), TEXT), "In a `pipeline.yaml`: how many items may fail.", "none"),
    "resultFile": Field(TEXT, "In a `pipeline.yaml`: the path of the result file.", "`.results/<start>.json`"),
}
JOB: Final[Fields] = {
    "name": Field(
        TEXT, "The name shown to people; the id comes from it.", "the file's or folder's name", "Daily report"
    ),
    "description": Field(TEXT, "What the job is for.", "", "What sold yesterday"),
    "schedule": Field(
        one_of(_TIMETABLE, ref("startStop"), ref("schedule")),
        "When the job is due: a cron expression, a list, starts and stops, or a block.",
        "runs only on request",
        "0 9 * * MON-FRI",
    ),
    "timezone": Field(TEXT, "IANA name of the time zone of its schedules.", "the setting", "Europe/Berlin"),
    "calendar": Field(
        ref("calendar"), "The days on which its schedule runs; the settings define the calendars.", "every day"
    ),
    "enabled": _ENABLED,
    **WORK,
    "missed": Field(
        choice(MISSED),
        "Which missed occurrences run.",
        "`none`; in a pipeline file `latest`",
        "latest",
    ),
    "catchupWindow": Field(
        DURATION, "How far back missed occurrences run; alone it means `missed: first`.", "no limit", "6h"
    ),
    "overlapPolicy": Field(
        choice(OVERLAP_POLICIES),
        "Another name for `missed` and `overlap` together, with `catchupWindow`.",
        is_synonym=True,
    ),
    "misfire": Field(
        choice(MISFIRES),
        "Another name for `missed: none` and `missed: latest`, with a grace of 5 s.",
        "",
        "DO_NOTHING",
        is_synonym=True,
    ),
    "overlap": Field(
        _overlap(list(OVERLAPS)), "What an occurrence does while a run of the job is active.", "`skip`", "parallel(3)"
    ),
    "blockStrategy": Field(
        _overlap([*BLOCK_STRATEGY_ALIASES, *BLOCK_STRATEGIES]),
        "Another name for `overlap`.",
        "",
        "CONCURRENT(2)",
        is_synonym=True,
    ),
    "scope": Field(
        choice(SCOPES), "Whether the overlap rule covers all executors or each one separately.", "`cluster`", "executor"
    ),
    "executor": Field(
        choice(EXECUTORS),
        "Where the job runs: the scheduler's machine, the fleet, or a Kubernetes cluster.",
        "`local`",
        "fleet",
    ),
    "routing": Field(
        choice([*STRATEGIES, *STRATEGY_ALIASES]), "How to choose a member of the fleet.", "`ROUND`", "CONSISTENT_HASH"
    ),
    "runsOn": Field(_LABELS, "Labels that a member of the fleet must have.", "any member", {"gpu": "true"}),
    "labels": Field(_LABELS, "Another name for `runsOn`.", "", ["zone=eu"], is_synonym=True),
    "bundle": Field(
        TEXT,
        "A folder, wheel or zip file, relative to the job file, that is sent to the member that runs the job.",
        "nothing",
        "report/",
    ),
    "resources": Field(
        map_of(one_of({"type": "number"}, TEXT)),
        "What a member of the fleet must have free: `cpu`, `memory`, `gpus`, or other names.",
        "nothing",
        {"cpu": 2, "memory": "4GiB"},
    ),
    "grace": Field(
        DURATION, "How late an occurrence may be and still count as on time.", "`30s`; `5s` with `misfire`", "1m"
    ),
    "jitter": Field(
        DURATION,
        "Start each occurrence up to this long after its time; a hash of job and time decides how long.",
        "no delay",
        "30s",
    ),
    "window": _WINDOW,
    "skipIfSuccessful": Field(
        FLAG, "Skip an occurrence if a run has succeeded since the previous one.", "`false`", True
    ),
    "expectBy": Field(
        {"type": "string", "pattern": f"^{TIME_OF_DAY.pattern}$"},
        "The time of day by which the last occurrence before it must have succeeded.",
        "no deadline",
        "07:30",
    ),
    "expectWithin": Field(DURATION, "How long after its time an occurrence must have succeeded.", "no deadline", "20m"),
    "retryPolicy": _RETRY,
    "maxRetries": Field(
        whole(0, RETRIES_MAX), "Short for `retryPolicy: {maxRetries: ...}`.", "0; in a pipeline file 3", 2
    ),
    "onExecutorLost": Field(
        choice(ON_EXECUTOR_LOST),
        "If the executor is lost: run again (`retry`, at least once) or end as `lost` (`fail`, at most once).",
        "`retry`",
        "fail",
    ),
    "after": _AFTER,
    "constraints": Field(ref("constraints"), "What must hold before, during and after a run."),
    "notify": _NOTIFY,
    "queue": Field(TEXT, "A limit that several jobs share; the settings define it.", "", "batch"),
    "priority": Field(
        whole(-PRIORITY_MAX, PRIORITY_MAX),
        "Higher goes first among runs that are due or wait at the same time.",
        "`0`",
        10,
    ),
    "historyRetention": Field(DURATION, "How long the ledger keeps ended runs.", "the setting", "365d"),
    "logRetention": Field(DURATION, "How long logs are kept.", "the setting", "30d"),
    "tags": Field(WORDS, "Words for filtering.", "", ["reports"]),
    **PIPELINE,
}
