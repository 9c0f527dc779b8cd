"""Whether all errors of a file are reported at once, at their exact places, with what to write instead."""

from __future__ import annotations

import pytest

from evertick.definitions.parser import parse_definition


def told(text, file="jobs/report.yaml"):
    result = parse_definition(text, file)
    assert (result.job is None) == bool(result.errors)
    return [(error.line, error.column, error.field, str(error)) for error in result.errors]


@pytest.mark.parametrize(
    ("text", "line", "column", "field", "words"),
    [
        # the shape of the file
        pytest.param("", 1, 1, "", "the file is empty", id="an empty file"),
        pytest.param("# nothing\n", 1, 1, "", "the file is empty", id="only a comment"),
        pytest.param("- a\n", 1, 1, "", "must be a map of fields, not a list", id="a list"),
        pytest.param("hello\n", 1, 1, "", "not the text 'hello'", id="a text"),
        pytest.param("~\n", 1, 1, "", "must be a map of fields, not empty", id="a null"),
        # unknown fields
        pytest.param(
            "command: x\ncatchup: 6h\n",
            2,
            1,
            "catchup",
            "unknown field 'catchup' in job 'report'. Did you mean 'catchupWindow'?",
            id="a field cut short",
        ),
        pytest.param(
            "command: x\ncatchup_window: 6h\n",
            2,
            1,
            "catchup_window",
            "Did you mean 'catchupWindow'?",
            id="a field in another case",
        ),
        pytest.param("command: x\nqqq: 6h\n", 2, 1, "qqq", "Similar fields: queue, ", id="a field like no other"),
        pytest.param(
            "command: x\nschedule:\n  crn: '@daily'\n  every: 1h\n",
            3,
            3,
            "schedule.crn",
            "Did you mean 'cron'?",
            id="a field of the block",
        ),
        pytest.param(
            "command: x\nschedule:\n  every: 1h\n  retryPolicy:\n    maxRetry: 1\n",
            5,
            5,
            "schedule.retryPolicy.maxRetry",
            "Did you mean 'maxRetries'?",
            id="a field of the retry policy",
        ),
        pytest.param(
            "command: x\nwindow: {maxDelay: 3}\n",
            2,
            10,
            "window.maxDelay",
            "Did you mean 'maxDelayMinutes'?",
            id="a field of the window",
        ),
        pytest.param(
            "steps:\n  - name: a\n    comand: x\n    command: y\n",
            3,
            5,
            "steps[0].comand",
            "unknown field 'comand' in step 'a'",
            id="a field of a step",
        ),
        pytest.param(
            "command: x\nschedule: [{every: 1h, enabled: true}]\n",
            2,
            24,
            "schedule.enabled",
            "policies belong to the job",
            id="a policy inside a list of schedules",
        ),
        pytest.param(
            "command: x\nschedule:\n  start: '@daily'\n  timezone: UTC\n",
            4,
            3,
            "schedule.timezone",
            "unknown field 'timezone'",
            id="a zone inside a start and stop map",
        ),
        # fields that do not exist yet
        pytest.param(
            "command: x\nschedule: {every: 1h, executor: other}\n",
            2,
            23,
            "schedule.executor",
            "unknown field 'executor'",
            id="an executor in the block",
        ),
        # containers
        pytest.param(
            "steps: [{name: a, ssh: {host: b}}]\n",
            1,
            24,
            "steps[0].ssh.command",
            "has no command",
            id="ssh: no command",
        ),
        pytest.param(
            "steps: [{name: a, ssh: {host: -oProxyCommand=x, command: c}}]\n",
            1,
            31,
            "steps[0].ssh.host",
            "not the name of a host",
            id="ssh: an option instead of a host",
        ),
        pytest.param(
            "steps: [{name: a, ssh: {host: b, command: c, user: '-x'}}]\n",
            1,
            52,
            "steps[0].ssh.user",
            "not the name of an account",
            id="ssh: an account",
        ),
        pytest.param(
            "steps: [{name: a, ssh: {host: b, command: [-x]}}]\n",
            1,
            43,
            "steps[0].ssh.command",
            "which is not a program",
            id="ssh: an option instead of a program",
        ),
        pytest.param(
            "steps: [{name: a, ssh: {host: b, command: c, key: 'a$b'}}]\n",
            1,
            51,
            "steps[0].ssh.key",
            "would not take as it is",
            id="ssh: a file with a dollar sign",
        ),
        pytest.param(
            "steps: [{name: a, ssh: {host: b, command: c, connectTimeout: 2h}}]\n",
            1,
            62,
            "steps[0].ssh.connectTimeout",
            "from 1s to 1h",
            id="ssh: a long wait",
        ),
        pytest.param(
            "steps: [{name: a, ssh: {host: b, command: c}, workingDir: /srv}]\n",
            1,
            47,
            "steps[0].workingDir",
            "does not run in one",
            id="ssh: a folder of this machine",
        ),
        pytest.param(
            "steps: [{name: a, ssh: {host: b, command: c}, sandbox: bwrap}]\n",
            1,
            47,
            "steps[0].sandbox",
            "has no effect here",
            id="ssh: a sandbox",
        ),
        pytest.param("ssh: {host: b}\n", 1, 1, "ssh", "and it has none", id="ssh: without a command"),
        pytest.param(
            "command: [-c]\nssh: {host: b}\n", 1, 1, "command", "is not a program", id="ssh: an option for its shell"
        ),
        pytest.param(
            "ssh: {host: b}\nsteps: [{name: a, command: [-c]}]\n",
            2,
            19,
            "steps[0].command",
            "is not a program",
            id="ssh: an option for its shell in a step",
        ),
        pytest.param(
            "command: c\nssh: {host: b}\nonExit: [-c]\n", 3, 9, "onExit", "is not a program", id="ssh: in a handler"
        ),
        pytest.param(
            "command: c\nssh: {host: b}\nsandbox: bwrap\n",
            3,
            1,
            "sandbox",
            "has no effect",
            id="ssh: a sandbox at a job",
        ),
        pytest.param(
            "docker: {image: a}\nssh: {host: b}\ncommand: c\n", 2, 1, "ssh", "runs in one place", id="docker and ssh"
        ),
        pytest.param(
            "docker: {image: a}\nkubernetes: {image: b}\n", 2, 1, "kubernetes", "contradict", id="docker and kubernetes"
        ),
        pytest.param(
            "docker: {image: a, args: [b]}\ncommand: c\n", 1, 1, "docker.args", "both say", id="docker: two commands"
        ),
        pytest.param(
            "docker: {image: a}\nsteps: [{name: b, python: 'c:d'}]\n",
            1,
            1,
            "docker",
            "and it has none",
            id="docker: without a command",
        ),
        pytest.param(
            "docker: {image: a}\nsteps: [{name: b, script: c, shell: bash}]\n",
            2,
            30,
            "steps[0].shell",
            "a file of this machine",
            id="docker: another shell",
        ),
        pytest.param(
            "docker: {image: a}\nsteps: [{name: b, command: c, workingDir: d}]\n",
            2,
            43,
            "steps[0].workingDir",
            "must begin with '/'",
            id="docker: a relative folder",
        ),
        pytest.param(
            "docker: {image: a}\nsteps: [{name: b, command: c, user: d}]\n",
            2,
            31,
            "steps[0].user",
            "has no effect here",
            id="docker: an account of this machine",
        ),
        pytest.param("steps: [{name: a, docker: {}}]\n", 1, 27, "steps[0].docker.image", "has no image", id="docker"),
        pytest.param(
            "steps: [{name: a, docker: {image: a b}}]\n",
            1,
            35,
            "steps[0].docker.image",
            "cannot be",
            id="docker: a b",
        ),
        pytest.param(
            "steps: [{name: a, docker: {image: a, mounts: [data]}}]\n",
            1,
            47,
            "steps[0].docker.mounts",
            "'data' is not a mount",
            id="docker: a mount without a target",
        ),
        pytest.param(
            "steps: [{name: a, docker: {image: a, mounts: ['in/x:/x']}}]\n",
            1,
            47,
            "steps[0].docker.mounts",
            "neither a path nor the name of a volume",
            id="docker: a relative path",
        ),
        pytest.param(
            "steps: [{name: a, docker: {image: a, mounts: ['./x:/x', 'v1:/x']}}]\n",
            1,
            57,
            "steps[0].docker.mounts",
            "mounted twice",
            id="docker: two mounts in one place",
        ),
        pytest.param(
            "steps: [{name: a, docker: {image: a, registry: {username: b, password: c}}}]\n",
            1,
            72,
            "steps[0].docker.registry.password",
            "must be a secret",
            id="docker: a password in the job",
        ),
        pytest.param(
            "steps: [{name: a, docker: {image: a, registry: {password: {env: B}}}}]\n",
            1,
            48,
            "steps[0].docker.registry.username",
            "has no username",
            id="docker: a login without a name",
        ),
        pytest.param(
            "steps: [{name: a, docker: {image: a, memory: 1k}}]\n",
            1,
            46,
            "steps[0].docker.memory",
            "cannot be '1k'",
            id="docker: too little memory",
        ),
        pytest.param(
            "steps: [{name: a, docker: {image: a, cpus: 0}}]\n",
            1,
            44,
            "steps[0].docker.cpus",
            "must be from 0.01",
            id="docker: no CPU",
        ),
        pytest.param(
            "steps: [{name: a, docker: {image: a, privileged: true}}]\n",
            1,
            38,
            "steps[0].docker.privileged",
            "unknown field 'privileged'",
            id="docker: a privileged container",
        ),
        pytest.param(
            "steps: [{name: a, docker: {image: a}, user: b}]\n",
            1,
            39,
            "steps[0].user",
            "has no effect here",
            id="docker: an account of this machine",
        ),
        pytest.param(
            "steps: [{name: a, docker: {image: a, workingDir: srv}}]\n",
            1,
            50,
            "steps[0].docker.workingDir",
            "must begin with '/'",
            id="docker: a relative folder",
        ),
        pytest.param("kubernetes: {}\n", 1, 13, "kubernetes.image", "has no image", id="no image"),
        pytest.param("kubernetes: busybox\n", 1, 13, "kubernetes", "must be a map", id="only an image"),
        pytest.param(
            "kubernetes: {image: a b}\n", 1, 21, "kubernetes.image", "not the name of an image", id="an image"
        ),
        pytest.param(
            "kubernetes: {image: a, namespace: My_Own}\n",
            1,
            35,
            "kubernetes.namespace",
            "not a valid name on a cluster",
            id="a namespace",
        ),
        pytest.param(
            "kubernetes: {image: a, secrets: {P: db}}\n", 1, 37, "kubernetes.secrets.P", "a Secret of", id="a secret"
        ),
        pytest.param(
            "kubernetes: {image: a, env: {P: {env: P}}}\n",
            1,
            24,
            "kubernetes.env",
            "everyone who can see the pod could read it",
            id="a secret of the scheduler in a container",
        ),
        pytest.param(
            "env: {P: {env: P}}\nkubernetes: {image: a}\n",
            1,
            1,
            "env",
            "everyone who can see the pod could read it",
            id="a secret of the scheduler at a job that is a container",
        ),
        pytest.param(
            "kubernetes: {image: a, resources: {limits: {cpu: lots}}}\n",
            1,
            50,
            "kubernetes.resources.limits",
            "not a quantity",
            id="a quantity",
        ),
        pytest.param(
            "kubernetes: {image: a, podSpec: {restartPolicy: Always}}\n",
            1,
            34,
            "kubernetes.podSpec",
            "the ledger would not know",
            id="the cluster's own retries",
        ),
        pytest.param(
            "command: x\nexecutor: kubernetes\n", 2, 1, "executor", "does not say which container", id="no container"
        ),
        # where it runs
        pytest.param("command: x\nrouting: ROUNDABOUT\n", 2, 10, "routing", "it is one of FIRST, LAST", id="routing"),
        pytest.param("command: x\nexecutor: moon\n", 2, 11, "executor", "one of local, fleet", id="an executor"),
        pytest.param(
            "executor: local\ncommand: x\nrouting: LRU\n",
            3,
            1,
            "routing",
            "there is only one machine to choose",
            id="a routing on this machine",
        ),
        pytest.param(
            "command: x\nrunsOn: {a: b}\nlabels: [a=b]\n",
            3,
            1,
            "labels",
            "both say which members match",
            id="labels in two places",
        ),
        pytest.param(
            "command: x\nrunsOn: [gpu]\n", 2, 10, "runsOn", "'gpu' is not a label", id="a label without a value"
        ),
        pytest.param(
            "command: x\nrunsOn: {'a b': c}\n", 2, 10, "runsOn", "cannot be the name of a label", id="a label's name"
        ),
        pytest.param(
            "command: x\nrunsOn: [a=b, a=c]\n", 2, 15, "runsOn", "'a' is written twice", id="a label written twice"
        ),
        pytest.param(
            "command: x\nmissedExecution: run\n",
            2,
            1,
            "missedExecution",
            "belongs to the block form",
            id="missedExecution outside of the block",
        ),
        pytest.param("input: {}\n", 1, 1, "input", "belongs to a pipeline", id="a pipeline's field in a job"),
        # values
        pytest.param("command: x\nname:\n", 2, 1, "name", "'name' has no value", id="a name without a value"),
        pytest.param("command: x\nworkingDir: ~\n", 2, 1, "workingDir", 'Write workingDir: "~" for', id="a bare ~"),
        pytest.param("command: x\nname: []\n", 2, 7, "name", "must be a text, not a list", id="a list as a name"),
        pytest.param("command: x\nname: '  '\n", 2, 7, "name", "'name' is empty", id="a blank name"),
        pytest.param("command: x\nname: '!!!'\n", 2, 7, "name", "'!!!' gives no job id", id="a name without letters"),
        pytest.param(
            'command: x\nname: "a\\nb"\n', 2, 7, "name", "line break or a control character", id="a name of two lines"
        ),
        pytest.param(
            f"command: x\nname: {'x' * 201}\n", 2, 7, "name", "201 characters; 200 are allowed", id="a long name"
        ),
        pytest.param(
            "command: x\nenabled: yes\n",
            2,
            10,
            "enabled",
            "must be true or false, not the text 'yes'",
            id="yes is not true",
        ),
        pytest.param(
            "command: x\nenabled: 1\n",
            2,
            10,
            "enabled",
            "must be true or false, not the number 1",
            id="one is not true",
        ),
        pytest.param(
            "command: x\npriority: high\n", 2, 11, "priority", "must be a whole number", id="a word as a priority"
        ),
        pytest.param(
            "command: x\npriority: 1.5\n",
            2,
            11,
            "priority",
            "must be a whole number, not the number 1.5",
            id="a fraction as a priority",
        ),
        pytest.param(
            "command: x\npriority: true\n", 2, 11, "priority", "must be a whole number", id="true as a priority"
        ),
        pytest.param(
            "command: x\npriority: 1000001\n",
            2,
            11,
            "priority",
            "from -1,000,000 to 1,000,000",
            id="a priority out of range",
        ),
        pytest.param(
            "command: x\ntags: [a, {b: c}]\n", 2, 11, "tags", "must be a text, not a map", id="a map as a tag"
        ),
        pytest.param(
            "command: x\nmaxRetries: -1\n", 2, 13, "maxRetries", "from 0 to 1,000", id="fewer than no retries"
        ),
        pytest.param(
            "command: x\nretryPolicy: 3\n",
            2,
            14,
            "retryPolicy",
            "must be a map, not the number 3",
            id="a number as a retry policy",
        ),
        pytest.param(
            "command: x\nretryPolicy: {maxRetries: 1, jitter: 2}\n",
            2,
            38,
            "retryPolicy.jitter",
            "from 0 to 1",
            id="more jitter than all",
        ),
        pytest.param(
            "command: x\nretryPolicy: {maxRetries: 1, backoff: linaer}\n",
            2,
            39,
            "retryPolicy.backoff",
            "Did you mean 'linear'?",
            id="a mistyped backoff",
        ),
        pytest.param("command: x\ncatchupWindow: 0h\n", 2, 16, "catchupWindow", "zero", id="a window of zero"),
        pytest.param("command: x\ncatchupWindow: 6\n", 2, 16, "catchupWindow", "no unit", id="a window without unit"),
        pytest.param("command: x\ncatchupWindow: -6h\n", 2, 16, "catchupWindow", "sign", id="a negative window"),
        pytest.param(
            "command: x\ncatchupWindow: 1.5h\n", 2, 16, "catchupWindow", "fraction", id="a window with a fraction"
        ),
        pytest.param(
            "command: x\ncatchupWindow: 250ms\n",
            2,
            16,
            "catchupWindow",
            "intervals only",
            id="a window of milliseconds",
        ),
        pytest.param("command: x\ncatchupWindow: ''\n", 2, 16, "catchupWindow", "empty", id="an empty window"),
        pytest.param(
            "command: x\ncatchupWindow: [6h]\n",
            2,
            16,
            "catchupWindow",
            "must be a duration, not a list",
            id="a list as a window",
        ),
        pytest.param(
            "command: x\ncatchupWindow: 6h\noverlapPolicy: lates\n",
            3,
            16,
            "overlapPolicy",
            "Did you mean 'latest'?",
            id="a mistyped overlapPolicy",
        ),
        pytest.param(
            "command: x\nmisfire: FIRE\n",
            2,
            10,
            "misfire",
            "one of DO_NOTHING, FIRE_ONCE_NOW",
            id="an unknown misfire strategy",
        ),
        pytest.param(
            "command: x\noverlap: parallel\n", 2, 10, "overlap", "Write parallel(2)", id="parallel without a number"
        ),
        pytest.param(
            "command: x\noverlap: parallel(0)\n", 2, 10, "overlap", "needs a number from 1", id="parallel zero"
        ),
        pytest.param("command: x\noverlap: skip(2)\n", 2, 10, "overlap", "takes no number", id="skip with a number"),
        pytest.param("command: x\noverlap: [skip]\n", 2, 10, "overlap", "not a list", id="a list as overlap"),
        pytest.param(
            "command: x\nblockStrategy: CONCURENT(2)\n",
            2,
            16,
            "blockStrategy",
            "Did you mean 'CONCURRENT'?",
            id="a mistyped block strategy",
        ),
        pytest.param(
            "command: x\nwindow: {maxDelayMinutes: 0}\n",
            2,
            27,
            "window.maxDelayMinutes",
            "from 1 to",
            id="a delay of zero",
        ),
        pytest.param("command: x\nwindow: {}\n", 2, 9, "window", "does not say how late", id="an empty window map"),
        pytest.param("command: x\nscope: galaxy\n", 2, 8, "scope", "one of cluster, executor", id="an unknown scope"),
        # schedules
        pytest.param("command: x\nschedule: '0 22-2 * * *'\n", 2, 11, "schedule", "22-23,0-2", id="a descending range"),
        pytest.param(
            "command: x\nschedule: '0 0 30 2 *'\n", 2, 11, "schedule", "never fire", id="a day that never comes"
        ),
        pytest.param(
            "command: x\nschedule:\n  - '@daily'\n  - '* * * *'\n",
            4,
            5,
            "schedule",
            "'* * * *'",
            id="the second of a list",
        ),
        pytest.param(
            "command: x\nschedule: 5\n",
            2,
            11,
            "schedule",
            "must be a cron expression, not the number 5",
            id="a number as a schedule",
        ),
        pytest.param("command: x\nschedule: []\n", 2, 11, "schedule", "empty list", id="an empty list as a schedule"),
        pytest.param("command: x\nschedule: {}\n", 2, 11, "schedule", "does not say when", id="an empty block"),
        pytest.param(
            "command: x\nschedule: {timezone: UTC}\n",
            2,
            11,
            "schedule",
            "does not say when",
            id="a block with a zone only",
        ),
        pytest.param(
            "command: x\nschedule: {cron: []}\n", 2, 18, "schedule.cron", "empty list", id="an empty list in a block"
        ),
        pytest.param(
            "command: x\nschedule: {every: 10}\n", 2, 19, "schedule.every", "no unit", id="an interval without unit"
        ),
        pytest.param(
            "command: x\nschedule: {at: tomorrow}\n", 2, 16, "schedule.at", "not a date and time", id="tomorrow"
        ),
        pytest.param(
            "command: x\nschedule: {at: 2027-02-30T00:00:00Z}\n",
            2,
            16,
            "schedule.at",
            "not a date and time",
            id="a date that does not exist",
        ),
        pytest.param(
            "command: x\nschedule: {at: '2027-03-28T02:30', timezone: Europe/Berlin}\n",
            2,
            16,
            "schedule.at",
            "does not exist in Europe/Berlin",
            id="a time in a gap",
        ),
        pytest.param(
            "command: x\nschedule: {at: '2027-10-31T02:30', timezone: Europe/Berlin}\n",
            2,
            16,
            "schedule.at",
            "happens twice in Europe/Berlin",
            id="a time that happens twice",
        ),
        pytest.param(
            "command: x\nschedule: {at: '2027-03-28T02:30:00+23:00'}\n",
            2,
            16,
            "schedule.at",
            "offset",
            id="an offset from nowhere",
        ),
        pytest.param(
            "command: x\nschedule: {at: '0001-01-01T00:00:00+14:00'}\n",
            2,
            16,
            "schedule.at",
            "not a date and time",
            id="the year one",
        ),
        pytest.param(
            "command: x\ntimezone: Europe/Berln\n",
            2,
            11,
            "timezone",
            "Did you mean 'Europe/Berlin'?",
            id="a mistyped zone",
        ),
        pytest.param("command: x\ntimezone: ../../etc/passwd\n", 2, 11, "timezone", "not known", id="a path as a zone"),
        pytest.param("command: x\ntimezone: America\n", 2, 11, "timezone", "not known", id="a folder as a zone"),
        pytest.param(
            "command: x\nschedule: 'CRON_TZ=Mars/Base @daily'\n",
            2,
            11,
            "schedule",
            "Mars/Base",
            id="an unknown zone before the expression",
        ),
        pytest.param(
            "command: x\nschedule: {cron: 'CRON_TZ=UTC @daily', timezone: Asia/Tokyo}\n",
            2,
            18,
            "schedule.cron",
            "contradicts",
            id="two zones for one expression",
        ),
        # work
        pytest.param("command: ''\n", 1, 10, "command", "'command' is empty", id="an empty command"),
        pytest.param("command: []\n", 1, 10, "command", "empty list", id="an empty list as a command"),
        pytest.param(
            "command: [a, [b]]\n", 1, 14, "command", "every word of 'command' must be a text", id="a list in a command"
        ),
        pytest.param("steps: {a: b}\n", 1, 8, "steps", "must be a list of steps, not a map", id="a map as steps"),
        pytest.param("steps: []\n", 1, 8, "steps", "not an empty list", id="no steps"),
        pytest.param("steps: [x]\n", 1, 9, "steps[0]", "must be a map, not the text 'x'", id="a text as a step"),
        pytest.param("steps: [{command: x}]\n", 1, 9, "steps[0].name", "has no name", id="a step without a name"),
        pytest.param(
            "steps: [{name: a}]\n", 1, 9, "steps[0].command", "step 'a' has no command", id="a step without a command"
        ),
        pytest.param(
            "steps:\n  - {name: a, command: x}\n  - {name: a, command: y}\n",
            3,
            12,
            "steps[1].name",
            "written twice: on line 2 and on line 3",
            id="two steps of one name",
        ),
        pytest.param(
            "steps:\n  - {name: fetch, command: x}\n  - {name: b, command: y, depends: fech}\n",
            3,
            36,
            "depends",
            "Did you mean 'fetch'?",
            id="an unknown dependency",
        ),
        pytest.param(
            "steps: [{name: a, command: x, depends: a}]\n",
            1,
            16,
            "depends",
            "step 'a' depends on itself",
            id="a step that waits for itself",
        ),
        pytest.param(
            "steps:\n  - {name: a, command: x, depends: c}\n"
            "  - {name: b, command: x, depends: a}\n  - {name: c, command: x, depends: b}\n",
            2,
            12,
            "depends",
            "a -> c -> b -> a",
            id="steps in a circle",
        ),
    ],
)
def test_an_error_is_reported_once_at_its_place(text, line, column, field, words):
    (found,) = told(text)
    assert found[:3] == (line, column, field)
    assert words in found[3]
    assert found[3].startswith(f"jobs/report.yaml:{line}:{column}: ")


def test_a_pipeline_has_no_steps():
    (found,) = told("input: {}\ncommand: x\n", "jobs/sync/pipeline.yaml")
    assert "a pipeline has none" in found[3]


def test_all_errors_of_a_file_are_reported_at_once_in_the_order_of_lines():
    found = told(
        """\
nmae: report
schedule:
  cron: "0 25 * * *"
  timezone: Europe/Berln
  retryPolicy: {maxRetries: many}
catchupWindow: 6
overlap: perhaps
enabled: maybe
steps:
  - name: a
    depends: b
"""
    )
    assert [line for line, *_rest in found] == [1, 3, 4, 5, 6, 7, 8, 10, 11]


def test_a_duplicate_key_does_not_hide_the_other_errors():
    found = told("command: x\ncommand: y\ncatchupWindow: 6\n")
    assert [line for line, *_rest in found] == [2, 3]


def test_warnings_leave_the_job_alone():
    result = parse_definition(
        "schedule: {every: 1h, timezone: Asia/Tokyo}\nretryPolicy: {maxDelay: 1m}\ncommand: x\n", "a.yaml"
    )
    assert result.job is not None
    assert [warning.field for warning in result.warnings] == ["schedule.every", "retryPolicy"]


def test_a_plain_form_that_says_how_to_retry_and_not_how_often_is_warned_about():
    result = parse_definition("command: x\nretryPolicy: {retryDelay: 5s}\n", "a.yaml")
    assert ["nothing is retried" in str(warning) for warning in result.warnings] == [True]


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        pytest.param("schedule: '@daily'\nparams: {DAY: {type: string}}\n", [2], id="by its schedule"),
        pytest.param("after: other\nparams: {DAY: {type: string}}\n", [2], id="after another job"),
        pytest.param("params: {DAY: {type: string}}\n", [], id="only when somebody asks"),
        pytest.param("schedule: '@daily'\nparams: {DAY: today}\n", [], id="with a default"),
    ],
)
def test_a_parameter_without_a_value_is_warned_about_where_the_job_starts(written, lines):
    result = parse_definition(written + "command: x\n", "a.yaml")
    assert result.job is not None
    assert [warning.line for warning in result.warnings] == lines


def test_a_job_that_only_stops_is_warned_about():
    result = parse_definition("command: x\nschedule: {stop: '@daily'}\n", "a.yaml")
    assert ["never starts by itself" in str(warning) for warning in result.warnings] == [True]


def test_a_file_of_nonsense_is_reported_in_bounds():
    found = told("".join(f"qatchupWindow{number}: 1\n" for number in range(20_000)))
    assert len(found) == 1_001
    assert any("19,000 more errors" in text for *_place, text in found)


def test_a_file_with_errors_has_no_warnings():
    assert parse_definition("comand: x\n", "a.yaml").warnings == ()
