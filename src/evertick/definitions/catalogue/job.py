"""Which fields a job has: its names, when it is due, its policies, and the other jobs and people around it."""

from __future__ import annotations

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
from evertick.model.chain import AfterMode
from evertick.model.notify import NotifyEvent

TIMES: Final = ("cron", "every", "at")
_ENTRY: Final = one_of({"type": "string"}, ref("scheduleEntry"))
_TIMETABLE: Final = one_of(_ENTRY, {**list_of(_ENTRY), "minItems": 1})
_PARALLEL: Final = r"\( ?[0-9]+ ?\)"


def _overlap(words: list[str]) -> dict[str, object]:
    plain, many = words[:-1], words[-1]
    return {"anyOf": [{"enum": plain}, {"type": "string", "pattern": f"^{many} ?{_PARALLEL}$"}]}


ENTRY: Final[Fields] = {
    "timezone": Field(TEXT, "The IANA name of the zone it is read in.", "the job's", "Europe/Berlin"),
    "cron": Field(WORDS, "A cron expression, or a list of them.", "", "0 9 * * MON-FRI"),
    "every": Field(one_of(INTERVAL, list_of(INTERVAL)), "An interval, counted from 1970-01-01T00:00Z.", "", "45m"),
    "at": Field(WORDS, "One instant, or a list of them.", "", "2027-03-01T09:00:00+01:00"),
}
START_STOP: Final[Fields] = {
    "start": Field(_TIMETABLE, "When it starts.", "", "0 9 * * *"),
    "stop": Field(_TIMETABLE, "When an active run is ended.", "", "0 18 * * *"),
    "restart": Field(_TIMETABLE, "When an active run is ended and started anew.", "", "0 12 * * *"),
}
WINDOW: Final[Fields] = {
    "maxDelayMinutes": Field(whole(1, DELAY_MINUTES_MAX), "An occurrence later than this is skipped.", "", 30),
}
AFTER: Final[Fields] = {
    "jobs": Field(WORDS, "The jobs it waits for."),
    "mode": Field(choice(AfterMode), "Whether all of them must have succeeded, or any.", "`all`", "any"),
}
_CHANNEL_NAME: Final = {"type": "string", "pattern": "^[a-z0-9][a-z0-9_-]*$"}
"""Of a channel that the settings name."""
_CHANNELS: Final = one_of(URL, _CHANNEL_NAME, ref("channel"), list_of(one_of(URL, _CHANNEL_NAME, ref("channel"))))
NOTIFY: Final[Fields] = {
    str(NotifyEvent.FAILURE): Field(_CHANNELS, "A run failed, and no attempt is left."),
    str(NotifyEvent.SUCCESS): Field(_CHANNELS, "A run succeeded."),
    str(NotifyEvent.MISSED): Field(_CHANNELS, "Occurrences were missed, and were not made up."),
    str(NotifyEvent.LATE): Field(_CHANNELS, "A run started late, or takes longer than expected."),
    str(NotifyEvent.RECOVERED): Field(_CHANNELS, "A run succeeded after one that failed."),
    str(NotifyEvent.SKIPPED_STREAK): Field(_CHANNELS, "Several occurrences in a row were skipped."),
}
CHANNEL: Final[Fields] = {
    "webhook": Field(one_of(URL, ref("webhook")), "An address that is sent the event as JSON."),
    "slack": Field(one_of(URL, ref("secret")), "The address of an incoming webhook of Slack."),
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
    "What is done when it does not hold: one action, or a list.",
)
ACTION: Final[Fields] = {
    "startJob": Field(TEXT, "Start another job."),
    "webhook": Field(one_of(URL, ref("secret")), "Call an address."),
    "kill": Field(choice(KILL_TARGETS), "End the run that broke it (`this`), the latest one, or all.", "", "all"),
}
RUNS_LIMIT: Final[Fields] = {"value": Field(whole(1, PARALLEL_MAX), "How many."), "onViolation": _ACTIONS}
TIME_LIMIT: Final[Fields] = {"value": Field(DURATION, "How long."), "onViolation": _ACTIONS}
HOOK: Final[Fields] = {
    "url": Field(one_of(URL, ref("secret")), "The address; it may be a secret."),
    "onViolation": _ACTIONS,
}
REQUIRED_JOBS: Final[Fields] = {
    "jobs": Field(WORDS, "Which jobs.", "this job itself"),
    "onViolation": _ACTIONS,
}
CONSTRAINTS: Final[Fields] = {
    "maxConcurrentRuns": Field(
        one_of(whole(1, PARALLEL_MAX), ref("runsLimit")),
        "Runs at once; more than one is `overlap: parallel(n)`.",
        "",
        2,
    ),
    "preRunHook": Field(
        one_of(URL, ref("secret"), ref("hook")), "An address that must answer with 200 before a run starts."
    ),
    "postRunHook": Field(
        one_of(URL, ref("secret"), ref("hook")), "An address that must answer with 200 for a run to be a success."
    ),
    "maxExpectedRunTime": Field(
        one_of(DURATION, ref("timeLimit")), "A run that takes longer is behind schedule, and goes on.", "", "30m"
    ),
    "maxAllowedRunTime": Field(
        one_of(DURATION, ref("timeLimit")), "A run that takes longer is ended; the same as `timeout`.", "", "2h"
    ),
    "requirePreviousSuccess": Field(
        one_of(FLAG, WORDS, ref("requiredJobs")),
        "The latest run must have succeeded: of this job (`true`), or of those named.",
        "",
        True,
    ),
}

_LABELS: Final = one_of(map_of(TEXT), WORDS)
_ENABLED: Final = Field(FLAG, "Whether it is planned at all.", "`true`", False)
_WINDOW: Final = Field(ref("window"), "How late is too late, also when caught up.", "no bound")
_RETRY: Final = Field(
    ref("retryPolicy"), "Tries after a failure.", "none; in a pipeline file 3, after 60 s, 120 s, 180 s"
)
_AFTER: Final = Field(
    one_of(WORDS, ref("after")), "Jobs it waits for; at the job or in the block.", "none", "data-fetch"
)
_NOTIFY: Final = Field(ref("notify"), "Whom to tell what; at the job or in the block.", "nobody")
_CONDITION: Final = Field(CONDITIONS, "What must hold when a run starts; else it is skipped.")

BLOCK: Final[Fields] = {
    **ENTRY,
    "enabled": _ENABLED,
    "missedExecution": Field(
        choice(MISSED_EXECUTIONS), "Whether the latest missed occurrence is run.", "`run`", "skip"
    ),
    "window": _WINDOW,
    "retryPolicy": _RETRY,
    "after": _AFTER,
    "condition": _CONDITION,
    "notify": _NOTIFY,
}
PIPELINE: Final[Fields] = {
    "input": Field(ANYTHING, "In a `pipeline.yaml`: where its items come from."),
    "map": Field(ANYTHING, "In a `pipeline.yaml`: what is asked about each item."),
    "reduce": Field(ANYTHING, "In a `pipeline.yaml`: how the answers become one result."),
    "filter": Field(ANYTHING, "In a `pipeline.yaml`: which items are kept."),
    "job": Field(ANYTHING, "In a `pipeline.yaml`: one question instead of `map` and `reduce`."),
    "parameters": Field(ANYTHING, "In a `pipeline.yaml`: names and values for its prompts."),
    "workingDirectory": Field(ANYTHING, "In a `pipeline.yaml`: the folder its tools work in."),
    "invoker": Field(ANYTHING, "In a `pipeline.yaml`: who answers.", "a dry run"),
    "failWhen": Field(one_of(whole(0, 1_000_000), TEXT), "In a `pipeline.yaml`: how many items may fail.", "none"),
    "resultFile": Field(TEXT, "In a `pipeline.yaml`: where its result goes.", "`.results/<start>.json`"),
}
JOB: Final[Fields] = {
    "name": Field(TEXT, "One line, shown to people; gives the id.", "the file's or folder's name", "Daily report"),
    "description": Field(TEXT, "What it is for.", "", "What sold yesterday"),
    "schedule": Field(
        one_of(_TIMETABLE, ref("startStop"), ref("schedule")),
        "When it is due: a cron expression, a list, starts and stops, or a block.",
        "when somebody asks",
        "0 9 * * MON-FRI",
    ),
    "timezone": Field(TEXT, "The IANA name of the zone its schedules are read in.", "the setting's", "Europe/Berlin"),
    "enabled": _ENABLED,
    **WORK,
    "missed": Field(
        choice(MISSED),
        "Which missed occurrences are kept.",
        "`none`; in a pipeline file `latest`",
        "latest",
    ),
    "catchupWindow": Field(DURATION, "How far back missed occurrences are kept.", "no catch-up", "6h"),
    "overlapPolicy": Field(choice(OVERLAP_POLICIES), "With `catchupWindow`: what missed ones do.", "`skip`"),
    "misfire": Field(choice(MISFIRES), "Whether the latest missed one is run; the grace is 5 s.", "", "DO_NOTHING"),
    "overlap": Field(
        _overlap(list(OVERLAPS)), "What an occurrence does while its job is active.", "`skip`", "parallel(3)"
    ),
    "blockStrategy": Field(
        _overlap([*BLOCK_STRATEGY_ALIASES, *BLOCK_STRATEGIES]), "The same, in other words.", "", "CONCURRENT(2)"
    ),
    "scope": Field(choice(SCOPES), "Where the overlap rule looks for active runs.", "`cluster`", "executor"),
    "executor": Field(
        choice(EXECUTORS), "Where it runs: on the scheduler's machine, on the fleet, or a cluster.", "`local`", "fleet"
    ),
    "routing": Field(
        choice([*STRATEGIES, *STRATEGY_ALIASES]), "How a member of the fleet is chosen.", "`ROUND`", "CONSISTENT_HASH"
    ),
    "runsOn": Field(_LABELS, "Labels that a member of the fleet must have.", "any member", {"gpu": "true"}),
    "labels": Field(_LABELS, "The same as `runsOn`.", "", ["zone=eu"]),
    "bundle": Field(
        TEXT,
        "A folder, wheel or zip file, beside the job's file, that members of the fleet are given to run it with.",
        "nothing",
        "report/",
    ),
    "resources": Field(
        map_of(one_of({"type": "number"}, TEXT)),
        "What a member of the fleet must have room for: `cpu`, `memory`, `gpus`, or names of its own.",
        "nothing",
        {"cpu": 2, "memory": "4GiB"},
    ),
    "grace": Field(DURATION, "An occurrence this late is still on time.", "`30s`; `5s` with `misfire`", "1m"),
    "window": _WINDOW,
    "skipIfSuccessful": Field(FLAG, "Skip when a run has succeeded since the previous occurrence.", "`false`", True),
    "retryPolicy": _RETRY,
    "maxRetries": Field(
        whole(0, RETRIES_MAX), "The same as `retryPolicy: {maxRetries: ...}`.", "0; in a pipeline file 3", 2
    ),
    "onExecutorLost": Field(
        choice(ON_EXECUTOR_LOST), "At least once (`retry`) or at most once (`fail`).", "`retry`", "fail"
    ),
    "after": _AFTER,
    "constraints": Field(ref("constraints"), "What must hold before, while and after it runs."),
    "notify": _NOTIFY,
    "queue": Field(TEXT, "The named limit it shares with other jobs; the settings say how many may run.", "", "batch"),
    "priority": Field(whole(-PRIORITY_MAX, PRIORITY_MAX), "Higher first among those due at one instant.", "`0`", 10),
    "historyRetention": Field(DURATION, "How long the ledger keeps its runs once they ended.", "the setting's", "365d"),
    "logRetention": Field(DURATION, "How long the logs of its runs are kept.", "the setting's", "30d"),
    "tags": Field(WORDS, "Words to find it by.", "", ["reports"]),
    **PIPELINE,
}
