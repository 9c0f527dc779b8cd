"""Which dates is a run for, and which values have the `{{ }}` of a definition?"""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.definitions.parser import parse_definition
from evertick.errors import DefinitionError
from evertick.kinds.rendering import render_work
from evertick.model.calendar import Calendar, CalendarRule
from evertick.model.instant import from_text
from evertick.model.job import Job
from evertick.model.schedule import AtSpec, CalendarSpec, CronSpec, ScheduleSpec
from evertick.model.template import NAMES, parse_template, render_template, shell_variable_for
from evertick.model.work import Command, HttpCall, PythonCall, Step, SubJob, Timetable, Work
from evertick.planning.run_dates import RunDates, dates_of, timetable_of
from tests.present import present


def timetable(zone: str, *specs: ScheduleSpec) -> Timetable:
    return timetable_of(Job("report", schedules=specs, timezone=zone))


NIGHT = CronSpec("30 0 * * *", "Europe/Berlin")
NIGHTLY = timetable("Europe/Berlin", NIGHT)


def dates(at: str = "2026-03-28T23:30:00Z", table: Timetable = NIGHTLY, success: str | None = None) -> RunDates:
    return dates_of("report", table, from_text(at), None if success is None else from_text(success))


def rendered(text: str, **known) -> str:
    return render_template(text, dates(**known).value_of)


def test_the_date_is_that_of_the_zone_of_the_job():
    assert dates().variables() == {
        "EVERTICK_RUN_TIMEZONE": "Europe/Berlin",
        "EVERTICK_RUN_SCHEDULED_FOR_LOCAL": "2026-03-29T00:30:00+01:00",
        "EVERTICK_RUN_DATE": "2026-03-29",
        "EVERTICK_RUN_HOUR": "00",
        "EVERTICK_RUN_PREVIOUS": "2026-03-27T23:30:00Z",
        "EVERTICK_RUN_NEXT": "2026-03-29T22:30:00Z",
    }


def test_occurrences_around_are_those_of_all_schedules_and_absent_where_there_are_none():
    once = AtSpec(from_text("2026-03-28T12:00:00Z"))
    both = dates(table=timetable("UTC", NIGHT, once))
    assert both.previous_for == once.instant
    alone = dates("2026-03-28T12:00:00Z", timetable("UTC", once))
    assert (alone.previous_for, alone.next_for) == (None, None)
    assert "EVERTICK_RUN_NEXT" not in alone.variables()
    manual = dates("2026-06-01T09:17:03Z")
    assert (manual.previous_for, manual.next_for) == (
        from_text("2026-05-31T22:30:00Z"),
        from_text("2026-06-01T22:30:00Z"),
    )


def test_days_that_a_calendar_excludes_are_passed_over():
    weekends = Calendar("weekends", weekdays=(5, 6), labels=())
    nightly = CalendarSpec(NIGHT, CalendarRule(skip=(weekends,)), "Europe/Berlin")
    monday = dates("2026-03-29T22:30:00Z", timetable("Europe/Berlin", nightly))
    assert monday.local(present(monday.previous_for)).strftime("%A %F") == "Friday 2026-03-27"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("{{ date }}", "2026-03-29", id="a date"),
        pytest.param("{{date}}-{{ hour }}", "2026-03-29-00", id="two of them"),
        pytest.param('x{{ date(-1d, "%Y%m%d") }}y', "x20260328y", id="yesterday in a format"),
        pytest.param(
            '{{ date("%F %T %z %j %G-W%V-%u %y %% %s") }}',
            "2026-03-29 00:30:00 +0100 088 2026-W13-7 26 % 1774740600",
            id="all formats",
        ),
        pytest.param("{{ scheduled_for }}", "2026-03-28T23:30:00Z", id="the time in UTC"),
        pytest.param("{{ scheduled_for(+90m) }}", "2026-03-29T01:00:00Z", id="ninety minutes on the clock"),
        pytest.param('{{ scheduled_for(+1d2h, "%F %H:%M %z") }}', "2026-03-30 02:30 +0200", id="a day of 23 hours"),
        pytest.param("{{ previous }}/{{ next }}", "2026-03-27T23:30:00Z/2026-03-29T22:30:00Z", id="the ones around"),
        pytest.param("[{{ previous_success }}]", "[]", id="what there is not"),
        pytest.param("{{ job }} {{ timezone }}", "report Europe/Berlin", id="names"),
        pytest.param('{{ "{{" }} date }}', "{{ date }}", id="braces"),
        pytest.param("no } braces { here", "no } braces { here", id="other braces"),
    ],
)
def test_an_expression_becomes(text, value):
    assert rendered(text) == value


def test_a_day_is_one_of_the_calendar_also_when_the_clock_changes():
    before = '{{ date(-1d, "%F %T") }}'
    assert rendered(before, at="2026-03-29T22:30:00Z") == "2026-03-29 00:30:00"
    assert rendered(before, at="2026-10-25T23:30:00Z") == "2026-10-25 00:30:00"
    assert rendered('{{ previous_success("%F") }}', success="2026-03-26T23:30:00Z") == "2026-03-27"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("{{ dat }}", "unknown name 'dat'. Did you mean 'date'?", id="an unknown name"),
        pytest.param("{{ date.year }}", "not an argument list", id="an attribute"),
        pytest.param("{{ date | upper }}", "not an argument list", id="a filter"),
        pytest.param("{% for x in y %}{{ x }}", "unknown name 'x'", id="a loop"),
        pytest.param("{{ date(-1x) }}", "'x' is not a unit", id="an unknown unit"),
        pytest.param("{{ date(1d) }}", "not an offset and a format", id="an offset without a sign"),
        pytest.param('{{ date("%A") }}', "'%A' is not a part of a format", id="a format in some language"),
        pytest.param('{{ date("%") }}', "'%' is not a part of a format", id="half a format"),
        pytest.param('{{ date("' + "x" * 65 + '") }}', "longer than 64", id="a long format"),
        pytest.param('{{ date("%F", -1d) }}', "not an offset and a format", id="the wrong order"),
        pytest.param('{{ date(-1d "%F") }}', "not an offset and a format", id="no comma"),
        pytest.param("{{ date(-1d,) }}", "not an offset and a format", id="nothing behind the comma"),
        pytest.param("{{ job(-1d) }}", "'job' takes no arguments", id="an argument that means nothing"),
        pytest.param("{{ date", "has no closing", id="an open expression"),
        pytest.param("{{ " + "date " * 100 + "}}", "has no closing", id="a long expression"),
        pytest.param("{{ }}", "does not begin with a name", id="nothing"),
        pytest.param("{{ date(-40000d) }}", "a century", id="further than a century"),
    ],
)
@pytest.mark.parametrize("field", ["env: {A: 'X'}", "params: {A: 'X'}", "preconditions: {file_exists: 'X'}"])
def test_a_wrong_expression_is_an_error_with_its_place(text, words, field):
    field = field.replace("X", text.replace("'", "''"))
    parsed = parse_definition(f"command: x\nschedule: '@daily'\n{field}\n", "jobs/a.yaml")
    (error,) = parsed.errors
    assert words in str(error)
    assert (error.file, error.line) == ("jobs/a.yaml", 3)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("command: 'echo {{ date }}'", id="a command"),
        pytest.param("command: [sh, -c, 'echo {{ date(-1d) }}']", id="a list that is a shell with its text"),
        pytest.param("command: [env, A=b, /bin/bash, -euc, 'echo {{ date }}']", id="a shell behind another program"),
        pytest.param("command: [sudo, bash, -o, pipefail, -ce, 'echo {{ date }}']", id="with several options"),
        pytest.param(
            "steps: [{name: a, docker: {image: x, args: [sh, -c, 'echo {{ date }}']}}]", id="a shell of a container"
        ),
        pytest.param("steps: [{name: a, script: 'echo {{ date }}'}]", id="a script"),
        pytest.param("command: x\nonFailure: 'echo {{ date }}'", id="a handler"),
        pytest.param("command: x\npreconditions: {command: 'test {{ date }}'}", id="a condition"),
    ],
)
def test_in_shell_text_it_is_refused_and_the_variable_is_named(text):
    (error,) = parse_definition(f"{text}\n", "jobs/a.yaml").errors
    assert "is shell text, in which {{ date }} is not replaced" in str(error)
    assert '"$EVERTICK_RUN_DATE"' in str(error)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("command: x\nworkingDir: '/srv/{{ date }}'", 2, id="the folder of a job"),
        pytest.param("command: x\ndotenv: ['{{ date }}.env']", 2, id="a dotenv file"),
        pytest.param("steps:\n- {name: a, command: x, workingDir: '{{ date }}'}", 2, id="the folder of a step"),
        pytest.param("steps:\n- name: a\n  docker: {image: x, mounts: ['./{{ date }}:/in']}", 3, id="a mount"),
        pytest.param("steps:\n- name: a\n  docker: {image: x, workingDir: '/{{ date }}'}", 3, id="in a container"),
        pytest.param("steps:\n- name: a\n  ssh: {host: x, command: y, key: '{{ date }}'}", 3, id="a key"),
        pytest.param("command: x\ndocker: {image: x}\nworkingDir: '/{{ date }}'", 3, id="of all containers"),
    ],
)
def test_in_a_path_it_is_refused_and_not_taken_as_it_is_written(text, line):
    (error,) = parse_definition(f"{text}\n", "jobs/a.yaml").errors
    assert "is taken as it is written: {{ date }} is not replaced in it." in str(error)
    assert '"$EVERTICK_RUN_DATE"' in str(error)
    assert error.line == line


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("notify: {on_failure: 'https://example.org/{{ date }}'}", id="an address to notify"),
        pytest.param("notify: {on_failure: {slack: 'https://example.org/{{ date }}'}}", id="an address of a channel"),
        pytest.param(
            "constraints: {maxAllowedRunTime: {value: 5m, onViolation: {webhook: 'https://a.b/{{ date }}'}}}",
            id="an action",
        ),
        pytest.param("env: {A: {file: '/run/secrets/{{ date }}'}}", id="the file of a secret"),
    ],
)
def test_where_no_date_is_put_in_its_name_is_refused(text):
    (error,) = parse_definition(f"command: x\n{text}\n", "a.yaml").errors
    assert "is taken as it is written: {{ date }} is not replaced in it." in str(error)


@pytest.mark.parametrize(
    "words", ["[echo, sh, '{{ date }}']", "[tar, -cf, '{{ date }}', sh]", "[cp, -c, bash, '{{ date }}']"]
)
def test_a_word_that_only_looks_like_a_shell_makes_no_shell_text(words):
    assert parse_definition(f"command: {words}\n", "jobs/a.yaml").errors == ()


def test_braces_of_others_in_shell_text_stay():
    command = "docker ps --format '{{.Names}}' {{ unknown }}"
    job = present(parse_definition(f'command: "{command}"\n', "a.yaml").job)
    assert job.steps[0].kind == Command((command,), is_shell=True)
    assert [shell_variable_for(f"x {{{{{name} }}}}") for name in NAMES] == [
        (name, variable) for name, (variable, _about) in NAMES.items()
    ]


def test_values_are_quoted_for_the_place_they_go_to():
    form = '{{ date("%F & \\ /") }}'
    url, body = f"https://x/{form}?d={{{{ scheduled_for }}}}", json.dumps({"a": ['{{ date(-1d, "%F") }}']})
    steps = (
        Step("call", HttpCall(url, "POST", (("D", "{{ date }}"),), body, is_json=True)),
        Step("text", HttpCall("https://x/", body="{{ date }}")),
        Step("argv", Command(("x", "{{ date }}"))),
        Step("shell", Command(("echo {{ date }}",), is_shell=True)),
        Step("python", PythonCall("a:b", {"day": "{{ date }}", "days": [1, "{{ hour }}"]})),
        Step("job", SubJob("other", (("DAY", "{{ date }}"),))),
    )
    work = render_work(Work(steps, env=(("A", '{{ date("%F $$ ${PATH}") }}'),)), dates().value_of)
    call, text, argv, shell, python, job = (step.kind for step in work.steps)
    assert isinstance(call, HttpCall)
    assert call.url == "https://x/2026-03-29%20%26%20%5C%20%2F?d=2026-03-28T23%3A30%3A00Z"
    assert unquote(call.url).startswith("https://x/2026-03-29 & \\ /")
    assert (call.headers, json.loads(call.body or "")) == ((("D", "2026-03-29"),), {"a": ["2026-03-28"]})
    assert text == HttpCall("https://x/", body="2026-03-29")
    assert argv == Command(("x", "2026-03-29"))
    assert shell == Command(("echo {{ date }}",), is_shell=True)
    assert python == PythonCall("a:b", {"day": "2026-03-29", "days": [1, "00"]})
    assert job == SubJob("other", (("DAY", "2026-03-29"),))
    # The keeper expands `${NAME}` later; what a value holds is not a reference.
    assert work.env == (("A", "2026-03-29 $$$$ $${PATH}"),)


@given(st.text(alphabet='{}"%dateprvious_(-1d, )+hm\\n$', max_size=60))
def test_nonsense_is_refused_or_rendered_and_never_hangs(text):
    try:
        parts = parse_template(text)
    except DefinitionError as error:
        assert error.reason.endswith(".")  # noqa: PT017 - both ends are allowed
    else:
        assert isinstance(rendered(text), str)
        assert parts == parse_template(text)
