"""Whether every error in the work of a job is reported at its exact place, with what to write instead."""

from __future__ import annotations

import pytest

from evertick.definitions.parser import parse_definition


def told(text: str) -> list[tuple[int | None, int | None, str | None, str]]:
    result = parse_definition(text, "jobs/report.yaml")
    assert (result.job is None) == bool(result.errors)
    return [(error.line, error.column, error.field, str(error)) for error in result.errors]


def case(text: str, line: int, column: int, field: str, words: str, name: str):
    return pytest.param(text, line, column, field, words, id=name)


JOB = "command: x\n"
STEP = "steps:\n  - name: a\n    command: x\n"


@pytest.mark.parametrize(
    ("text", "line", "column", "field", "words"),
    [
        # env
        case(JOB + "env: text\n", 2, 6, "env", "must be a map or a list", "a text as env"),
        case(JOB + "env: {1A: b}\n", 2, 7, "env", "not the name of a variable", "a digit first"),
        case(JOB + "env: [A]\n", 2, 7, "env", "must be NAME=value", "a name alone"),
        case(JOB + "env: {A: }\n", 2, 10, "env.A", "Write '' for an empty text", "a variable without a value"),
        case(JOB + "env: {A: [b]}\n", 2, 10, "env.A", "must be a text, not a list", "a list as a value"),
        case(JOB + "env: [A=b, A=c]\n", 2, 12, "env", "set twice: on line 2 and on line 2", "a variable set twice"),
        case(
            JOB + "env: {EVERTICK_RUN_ID: x}\n",
            2,
            7,
            "env",
            "reserved for the variables that describe a run",
            "a reserved name",
        ),
        case(JOB + "env: {A: {}}\n", 2, 10, "env.A", "does not say where its value is", "an empty secret"),
        case(JOB + "env: {A: {env: B, file: c}}\n", 2, 19, "env.A.file", "contradict each other", "a secret twice"),
        case(JOB + "env: {A: {vault: B}}\n", 2, 11, "env.A.vault", "unknown field 'vault'", "a secret elsewhere"),
        # params
        case(JOB + "params: 3\n", 2, 9, "params", "must be a map or a list", "a number as params"),
        case(JOB + "params: [A]\n", 2, 10, "params", "must be NAME=default", "a parameter's name alone"),
        case(JOB + "params: [A=1, A=2]\n", 2, 15, "params", "written twice", "a parameter written twice"),
        case(JOB + "params: {A: {typ: string}}\n", 2, 14, "params.A.typ", "Did you mean 'type'?", "a mistyped type"),
        case(JOB + "params: {A: {type: int}}\n", 2, 20, "params.A.type", "Did you mean 'integer'?", "a type cut short"),
        case(
            JOB + "params: {A: {type: integer, default: x}}\n",
            2,
            38,
            "params.A.default",
            "the default of 'A' is 'x', which is not a whole number",
            "a default of another type",
        ),
        case(
            JOB + "params: {A: {enum: [a, b], default: c}}\n",
            2,
            37,
            "params.A.default",
            "it is one of a, b",
            "a default that is none of the values",
        ),
        case(
            JOB + "params: {A: {type: integer, enum: [1, b]}}\n",
            2,
            39,
            "params.A.enum",
            "is 'b', which is not a whole number",
            "a value of another type",
        ),
        case(JOB + "params: {A: {pattern: '('}}\n", 2, 23, "params.A.pattern", "regular expression", "a bad pattern"),
        case(
            JOB + "params: {A: {minimum: 1}}\n", 2, 23, "params.A.minimum", "Add 'type: integer'", "a bound of a text"
        ),
        case(
            JOB + "params: {A: {type: number, minimum: 3, maximum: 2}}\n",
            2,
            40,
            "params.A.maximum",
            "the minimum is above the maximum",
            "bounds that cross",
        ),
        case(
            JOB + "params: {A: {required: false}}\n", 2, 24, "params.A.required", "Add 'default'", "optional, and none"
        ),
        case(
            JOB + "params: {A: {required: true, default: b}}\n",
            2,
            30,
            "params.A.default",
            "needs no default",
            "required, with a default",
        ),
        case(JOB + "params: {A: {default: [b]}}\n", 2, 23, "params.A.default", "a single value", "a list as a default"),
        case(
            JOB + "params: {A: b}\nenv: {A: c}\n",
            3,
            1,
            "env",
            "an environment variable and a parameter",
            "a name for both",
        ),
        # values
        case(JOB + "timeout: 10\n", 2, 10, "timeout", "no unit", "a timeout without a unit"),
        case(JOB + "maxActiveSteps: 0\n", 2, 17, "maxActiveSteps", "from 1 to 1,000", "no step at a time"),
        case(JOB + "queue: My Queue\n", 2, 8, "queue", "Write my-queue.", "a queue with a space"),
        case(JOB + "logRetention: forever\n", 2, 15, "logRetention", "not a duration", "logs for ever"),
        # user and sandbox
        case(JOB + "user: 'a b'\n", 2, 7, "user", "is not the name of an account", "a name with a blank"),
        case(JOB + "user: --root\n", 2, 7, "user", "is not the name of an account", "an option for a name"),
        case(JOB + "sandbox: bwarp\n", 2, 10, "sandbox", "Did you mean 'bwrap'?", "a mistyped sandbox"),
        case(JOB + "sandbox: {network: true}\n", 2, 10, "sandbox", "Add 'kind: bwrap'", "a sandbox of no kind"),
        case(
            JOB + "sandbox: {kind: bwrap, net: true}\n", 2, 24, "sandbox.net", "unknown field 'net'", "an unknown part"
        ),
        case(JOB + "sandbox: {kind: bwrap, network: 1}\n", 2, 33, "sandbox.network", "true or false", "a number"),
        case(
            "steps: [{name: a, http: 'http://x', user: b}]\n", 1, 37, "steps[0].user", "has no effect", "a call's user"
        ),
        case(
            "steps: [{name: a, job: x, sandbox: bwrap}]\n", 1, 27, "steps[0].sandbox", "in that job", "a job's sandbox"
        ),
        case("kubernetes: {image: x}\nuser: b\n", 2, 1, "user", "securityContext", "the user of a container"),
        case(JOB + "workingDir: [a]\n", 2, 13, "workingDir", "must be a text, not a list", "two folders"),
        case("script: x\n", 1, 1, "script", "belongs to a step", "a script at the job"),
        # conditions
        case(JOB + "condition: x\n", 2, 12, "condition", "must be a map", "a text as a condition"),
        case(JOB + "condition: []\n", 2, 12, "condition", "empty list", "no condition"),
        case(JOB + "condition: {}\n", 2, 12, "condition", "does not say what must hold", "an empty condition"),
        case(
            JOB + "condition: {file_exist: a}\n", 2, 13, "condition.file_exist", "Did you mean 'file_exists'?", "a typo"
        ),
        case(
            JOB + "condition: {file_exists: a, http: 'http://b'}\n",
            2,
            29,
            "condition.http",
            "a condition has one test",
            "two conditions in one",
        ),
        case(JOB + "condition: {http: ftp://a}\n", 2, 19, "condition.http", "not an address", "another protocol"),
        case(
            JOB + "condition: {file_exists: a, expected: b}\n",
            2,
            29,
            "condition.expected",
            "belongs to 'command'",
            "an expected file",
        ),
        case(
            JOB + "preconditions: [{command: a, expected: 're:('}]\n",
            2,
            40,
            "preconditions.expected",
            "not a regular expression",
            "a bad pattern of output",
        ),
        # steps
        case(
            "steps: [{name: a}]\n",
            1,
            9,
            "steps[0].command",
            "step 'a' has no command. Add 'command', or one of",
            "none",
        ),
        case(
            STEP + "    script: y\n",
            4,
            5,
            "steps[0].script",
            "on line 3 and 'script' on line 4 contradict",
            "two kinds",
        ),
        case(STEP + "    shell: bash\n", 4, 5, "steps[0].shell", "belongs to 'script'", "a shell for a command"),
        case("steps: [{name: a, script: x, shell: \"''\"}]\n", 1, 37, "steps[0].shell", "program of", "no shell"),
        case('steps: [{name: a, script: x, shell: "\'"}]\n', 1, 37, "steps[0].shell", "split into words", "a quote"),
        case(STEP + "    with: {a: 1}\n", 4, 5, "steps[0].with", "belongs to 'python'", "arguments for a command"),
        case(STEP + "    params: {a: 1}\n", 4, 5, "steps[0].params", "belongs to 'job'", "parameters for a command"),
        case("steps: [{name: a, python: os.getcwd}]\n", 1, 27, "steps[0].python", "package.module:function", "a path"),
        case(
            "steps: [{name: a, python: 'a:b', with: {1: 2}}]\n",
            1,
            41,
            "steps[0].with",
            "name of an argument",
            "argument 1",
        ),
        case(
            "steps: [{name: a, http: example.org}]\n", 1, 25, "steps[0].http", "Write https://host/path", "no protocol"
        ),
        case("steps: [{name: a, http: {}}]\n", 1, 25, "steps[0].http.url", "has no address", "a call of nothing"),
        case(
            "steps: [{name: a, http: {url: 'http://a', expect: 99}}]\n",
            1,
            51,
            "steps[0].http.expect",
            "from 100 to 599",
            "an unknown status",
        ),
        case(
            "steps: [{name: a, http: {url: 'http://a', headers: {'a b': c}}}]\n",
            1,
            53,
            "steps[0].http.headers",
            "not the name of a header",
            "a header with a space",
        ),
        case("steps: [{name: a, job: report}]\n", 1, 19, "steps[0].job", "which is the one it belongs to", "itself"),
        case("steps: [{name: onExit, command: x}]\n", 1, 16, "steps[0].name", "name of a handler", "a handler's name"),
        case(STEP + "    output: a-b\n", 4, 13, "steps[0].output", "not the name of a variable", "an output"),
        case(STEP + "    repeat: {limit: 3}\n", 4, 13, "steps[0].repeat", "does not say how often", "no interval"),
        case(
            STEP + "    repeat: {interval: 1s, every: 2s}\n",
            4,
            28,
            "steps[0].repeat.every",
            "contradict each other",
            "two intervals",
        ),
        case(
            STEP + "    continueOn: {failure: true}\n    continueOnFailure: true\n",
            5,
            5,
            "steps[0].continueOnFailure",
            "on line 4 and 'continueOnFailure' on line 5 contradict",
            "two ways to go on",
        ),
        case(
            STEP + "    continueOn: {exitCodes: [256]}\n",
            4,
            30,
            "steps[0].continueOn.exitCodes",
            "from 0 to 255",
            "a code",
        ),
        case(
            STEP + "    retryPolicy: {limit: 1, maxRetries: 2}\n",
            4,
            29,
            "steps[0].retryPolicy.maxRetries",
            "contradict each other",
            "two limits",
        ),
        # handlers
        case(JOB + "handlers: {onFail: x}\n", 2, 12, "handlers.onFail", "unknown field 'onFail'", "a mistyped handler"),
        case(
            JOB + "onExit: x\nhandlers: {onExit: y}\n",
            3,
            12,
            "handlers.onExit",
            "written twice: on line 2 and on line 3",
            "a handler written twice",
        ),
        case(JOB + "onExit: {timeout: 1s}\n", 2, 9, "onExit.command", "has no command", "a handler of nothing"),
        case(
            JOB + "onExit: {command: x, depends: a}\n", 2, 22, "onExit.depends", "unknown field", "a handler that waits"
        ),
        # other jobs
        case(JOB + "after: report\n", 2, 8, "after", "job 'report' waits for itself", "after itself"),
        case(JOB + "after: []\n", 2, 8, "after", "empty list", "after none"),
        case(JOB + "after: {mode: any}\n", 2, 8, "after", "names no job", "after any"),
        case(JOB + "after: {jobs: a, mode: som}\n", 2, 24, "after.mode", "one of all, any", "an unknown mode"),
        case(JOB + "after: '!!!'\n", 2, 8, "after", "not the name of a job", "after no name"),
        case(
            JOB + "schedule: {every: 1h, after: b}\nafter: c\n",
            3,
            1,
            "after",
            "'after' on line 2 and 'after' on line 3 contradict each other",
            "after in two places",
        ),
        # people
        case(JOB + "notify: x\n", 2, 9, "notify", "must be a map", "an address for everything"),
        case(
            JOB + "notify: {on_fail: 'http://a'}\n", 2, 10, "notify.on_fail", "Did you mean 'on_failure'?", "an event"
        ),
        case(JOB + "notify: {on_failure: me}\n", 2, 22, "notify.on_failure", "Unknown channel", "a name"),
        case(JOB + "notify: {on_failure: ftp://a}\n", 2, 22, "notify.on_failure", "not an address", "a protocol"),
        case(JOB + "notify: {on_failure: {}}\n", 2, 22, "notify.on_failure", "names no channel", "an empty channel"),
        case(
            JOB + "notify: {on_failure: {smtp: me}}\n",
            2,
            29,
            "notify.on_failure.smtp",
            "not a mail address",
            "no address",
        ),
        case(
            JOB + "notify: {on_failure: {pager: x}}\n",
            2,
            23,
            "notify.on_failure.pager",
            "unknown field 'pager'",
            "an unknown channel",
        ),
        case(
            JOB + "notify: {on_failure: {webhook: {headers: {A: b}}}}\n",
            2,
            32,
            "notify.on_failure.webhook.url",
            "has no address",
            "headers alone",
        ),
        # constraints
        case(JOB + "constraints: 3\n", 2, 14, "constraints", "must be a map", "a number as constraints"),
        case(
            JOB + "constraints: {maxConcurentRuns: 3}\n",
            2,
            15,
            "constraints.maxConcurentRuns",
            "Did you mean 'maxConcurrentRuns'?",
            "a mistyped constraint",
        ),
        case(
            JOB + "constraints: {preRunHook: {onViolation: retry}}\n",
            2,
            27,
            "constraints.preRunHook",
            "has no 'url'",
            "a hook to nowhere",
        ),
        case(
            JOB + "constraints: {preRunHook: {url: 'http://a', onViolation: explode}}\n",
            2,
            58,
            "constraints.preRunHook.onViolation",
            "one of retry, kill, skipNext",
            "an unknown action",
        ),
        case(
            JOB + "constraints: {preRunHook: {url: 'http://a', onViolation: {startJob: report}}}\n",
            2,
            69,
            "constraints.preRunHook.onViolation.startJob",
            "would start itself",
            "an action that starts itself",
        ),
        case(
            JOB + "overlap: wait\nconstraints: {maxConcurrentRuns: 2}\n",
            3,
            15,
            "maxConcurrentRuns",
            "'overlap' on line 2 and 'maxConcurrentRuns' on line 3 contradict each other: 'wait' is not 2 at once",
            "one at a time, and two",
        ),
        case(
            JOB + "blockStrategy: CONCURRENT(3)\nconstraints: {maxConcurrentRuns: 1}\n",
            3,
            15,
            "maxConcurrentRuns",
            "'parallel(3)' is not 1 at once",
            "three at once, and one",
        ),
        case(
            JOB + "constraints: {maxAllowedRunTime: 2h}\ntimeout: 1h\n",
            3,
            1,
            "timeout",
            "'maxAllowedRunTime' on line 2 and 'timeout' on line 3 contradict",
            "two timeouts",
        ),
        case(
            JOB + "constraints: {maxAllowedRunTime: 1h, maxExpectedRunTime: 2h}\n",
            2,
            38,
            "constraints.maxExpectedRunTime",
            "a run would end before it is reported as late",
            "an expectation that is never met",
        ),
    ],
)
def test_an_error_is_reported_once_at_its_place(text, line, column, field, words):
    (found,) = told(text)
    assert found[:3] == (line, column, field)
    assert words in found[3]


def test_all_errors_of_all_groups_are_reported_at_once():
    found = told(
        """\
command: x
env: 1
params: 2
timeout: 3
after: report
notify: {on_failure: 5}
constraints: {maxConcurrentRuns: 0}
onExit: []
condition: {}
queue: A
"""
    )
    assert [line for line, *_rest in found] == list(range(2, 11))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(
            STEP + "    continueOn: {markSuccess: true}\n",
            "has no effect without another field",
            id="a success without a failure",
        ),
        pytest.param(STEP + "    retryPolicy: {interval: 1s}\n", "nothing is retried", id="a wait without a retry"),
    ],
)
def test_a_field_without_effect_is_warned_about(text, words):
    result = parse_definition(text, "a.yaml")
    assert result.errors == ()
    assert [words in str(warning) for warning in result.warnings] == [True]
