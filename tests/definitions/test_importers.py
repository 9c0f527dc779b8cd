"""Whether jobs of other schedulers are converted as far as possible, and the rest is listed with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from evertick.cli.app import evertick
from evertick.definitions.importers.crontab import read_crontab
from evertick.definitions.importers.dagu import read_dagu, read_dagu_folder
from evertick.definitions.importers.imported import Draft, Imported, render, unique, write
from evertick.definitions.importers.xxl_job import from_quartz, read_xxl_job
from evertick.definitions.nodes import plain_data
from evertick.definitions.parser import parse_definition
from evertick.definitions.source import load_folder
from evertick.definitions.yaml import read_yaml
from evertick.errors import Conflict, DefinitionError
from evertick.model.instant import DAY, MINUTE, SECOND
from evertick.model.job import After, AfterMode, Job
from evertick.model.notify import Mail
from evertick.model.policy import Missed, OverlapKind, Retry
from evertick.model.schedule import CronSpec, EverySpec
from evertick.model.work import (
    Command,
    Condition,
    ConditionKind,
    Container,
    ContinueOn,
    Each,
    HttpCall,
    ItemValue,
    Mount,
    Pull,
    RegistryLogin,
    Script,
    Secret,
    SshCommand,
    SubJob,
)


def jobs_of(imported: Imported) -> dict[str, Job]:
    found = {}
    for file in imported.files:
        parsed = parse_definition(file.text, f"jobs/{file.name}")
        assert (parsed.errors, parsed.warnings) == ((), ())
        assert parsed.job is not None
        found[parsed.job.id] = parsed.job
    return found


def told(imported: Imported) -> str:
    return "\n".join(f"{note.line}: {note.text}" for note in imported.notes)


class TestCrontab:
    def test_a_whole_crontab(self):
        imported = read_crontab(
            """\
# m h dom mon dow command
SHELL=/bin/sh
PATH="/usr/local/bin:/usr/bin"
MAILTO=ops@example.org

# rotate the logs
0 3 * * *  /opt/tools/rotate.sh --all
@daily cd /srv && ./backup.sh
CRON_TZ=Europe/Berlin
RANDOM_DELAY=4
*/5 9-17 * * mon-fri python3 /srv/poll.py
@reboot /opt/start
""",
            "crontab",
        )
        jobs = jobs_of(imported)
        assert list(jobs) == ["rotate", "backup", "poll"]
        assert [job.policy.jitter_us for job in jobs.values()] == [0, 0, 4 * MINUTE]
        assert jobs["rotate"].schedules == (CronSpec("0 3 * * *", "UTC", "rotate"),)
        assert jobs["rotate"].description == "rotate the logs"
        assert jobs["rotate"].work.env == (("PATH", "/usr/local/bin:/usr/bin"),)
        assert jobs["rotate"].steps[0].kind == Command(("/opt/tools/rotate.sh --all",), is_shell=True)
        assert jobs["poll"].schedules == (CronSpec("*/5 9-17 * * mon-fri", "Europe/Berlin", "poll"),)
        assert jobs["poll"].policy.missed is Missed.NONE
        assert "4: MAILTO" in told(imported)
        assert "12: '/opt/start' is not converted: @reboot" in told(imported)
        assert "although its last run is still active" in told(imported)

    @pytest.mark.parametrize(
        ("comment", "description"),
        [
            pytest.param("# m h  dom mon dow   command", None, id="the columns"),
            pytest.param("# m h dom mon dow user  command", None, id="of a system's"),
            pytest.param("# *  *  *  *  * user-name command to be executed", None, id="a drawing of them"),
            pytest.param("# |  |  |  |  |", None, id="its lines"),
            pytest.param("#0 4 * * * /opt/old.sh", None, id="an entry that was taken out"),
            pytest.param("# rotate the logs", "rotate the logs", id="words"),
            pytest.param("# every hour of the day", "every hour of the day", id="words that begin alike"),
        ],
    )
    def test_a_comment_is_a_description_only_where_it_describes(self, comment, description):
        (job,) = jobs_of(read_crontab(f"{comment}\n0 3 * * * /opt/rotate.sh\n", "crontab")).values()
        assert (job.description or None) == description

    def test_a_command_keeps_the_folder_that_cron_starts_it_in(self):
        text = "A='pa$$word ${X}'\n0 3 * * * x\nHOME=/srv\n0 4 * * * y\n"
        first, second = jobs_of(read_crontab(text, "crontab")).values()
        assert (first.work.working_dir, second.work.working_dir) == ("~", "/srv")
        assert dict(first.work.env) == {"A": "pa$$$$word $${X}"}

    def test_the_user_column_of_a_system_crontab(self):
        imported = read_crontab("17 * * * * root run-parts /etc/hourly\n5 4 * * * www sync\n", "x", is_system=True)
        jobs = jobs_of(imported)
        assert [job.steps[0].kind for job in jobs.values()] == [
            Command(("run-parts /etc/hourly",), is_shell=True),
            Command(("sync",), is_shell=True),
        ]
        assert [job.work.user for job in jobs.values()] == [None, "www"]
        assert "lines of root run as the user of the scheduler" in told(imported)

    def test_without_a_line_of_root_nothing_is_said_of_it(self):
        assert "root" not in told(read_crontab("5 4 * * * www sync\n", "x", is_system=True))
        assert "root" not in told(read_crontab("5 4 * * * sync\n", "x"))

    @pytest.mark.parametrize(
        ("written", "command"),
        [
            pytest.param("date +\\%F", "date +%F", id="an escaped percent sign"),
            pytest.param("cat%a%b", "printf '%s\\n' 'a\nb' | ( cat )", id="percent signs that are input"),
            pytest.param("cat%it's", "printf '%s\\n' 'it'\"'\"'s' | ( cat )", id="a quote in the input"),
        ],
    )
    def test_percent_signs(self, written, command):
        (job,) = jobs_of(read_crontab(f"0 0 * * * {written}\n", "x")).values()
        assert job.steps[0].kind == Command((command,), is_shell=True)
        assert job.id in ("date", "cat")

    def test_another_shell_reads_a_script(self):
        (job,) = jobs_of(read_crontab("SHELL=/bin/bash\n0 0 * * * [[ -e x ]] && y\n", "x")).values()
        assert job.steps[0].kind == Script("[[ -e x ]] && y", ("/bin/bash",))

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            pytest.param("0 0 * * *", "1: this line is not converted", id="no command"),
            pytest.param("0~30 0 * * * x", "1: 'x' is not converted", id="a random time"),
            pytest.param("0 0 31 2 * x", "never fire", id="a day that never comes"),
            pytest.param("@every x", "1: 'x' is not converted", id="an unknown word"),
        ],
    )
    def test_a_line_that_cannot_be_carried_over_is_reported(self, line, words):
        imported = read_crontab(f"{line}\n", "x")
        assert imported.files == ()
        assert words in told(imported)

    def test_a_delay_that_is_no_number_is_reported(self):
        assert "1: RANDOM_DELAY: 'soon' is not" in told(read_crontab("RANDOM_DELAY=soon\n0 0 * * * x\n", "x"))

    def test_jobs_of_one_name_are_numbered(self):
        assert list(jobs_of(read_crontab("0 0 * * * a\n0 1 * * * a\n0 2 * * * /x/a.sh\n", "x"))) == ["a", "a-2", "a-3"]

    def test_thousands_of_one_name_are_numbered_without_counting_again_for_each(self):
        drafts = [Draft("a", {}, number) for number in range(20_000)]
        assert [draft.name for draft in unique(drafts)][-1] == "a-20000"

    def test_a_zone_for_what_names_none(self):
        (job,) = jobs_of(read_crontab("0 0 * * * a\n", "x", timezone="Asia/Tokyo")).values()
        assert job.timezone == "Asia/Tokyo"

    @given(st.text(max_size=300))
    def test_any_text_ends_in_good_files_or_in_notes(self, text):
        for is_system in (False, True):
            jobs_of(read_crontab(text, "x\ny", is_system=is_system))

    @given(st.lists(st.text(alphabet="0123456789*/-, @%\\\"'=:#ax\n\t", max_size=40), max_size=5))
    def test_lines_that_look_like_a_crontab_end_in_good_files_or_in_notes(self, lines):
        jobs_of(read_crontab("\n".join(f"* * * * * {line}" for line in lines), "x"))


class TestDagu:
    @pytest.mark.parametrize("is_snake", [True, False], ids=["snake_case", "camelCase"])
    def test_a_whole_workflow(self, is_snake):
        text = """\
name: daily report
description: sales
schedule: "0 9 * * *"
catchup_window: 12h
overlap_policy: all
timeout_sec: 600
max_active_steps: 2
hist_retention_days: 7
tags: reports, daily
env:
  - MODE: full
  - LEVEL=3
params: DAY=today SIZE=3
preconditions:
  - condition: "`date +%u`"
    expected: "1"
handler_on:
  failure:
    command: ./tell
  exit:
    command: ./clean
steps:
  - name: fetch
    command: ./fetch
    retry_policy: {limit: 2, interval_sec: 5}
    output: ROWS
  - name: load
    script: |
      echo $ROWS
    command: bash
    depends: [fetch]
    continue_on: {failure: true, exit_code: [3]}
"""
        if not is_snake:
            for name in ("catchup_window", "overlap_policy", "timeout_sec", "max_active_steps", "hist_retention_days"):
                first, *rest = name.split("_")
                text = text.replace(name, first + "".join(word.capitalize() for word in rest))
            text = text.replace("handler_on", "handlerOn").replace("retry_policy", "retryPolicy")
            text = text.replace("interval_sec", "intervalSec").replace("continue_on", "continueOn")
            text = text.replace("exit_code", "exitCode")
        imported = read_dagu(text, "report.yaml")
        assert imported.notes == ()
        (job,) = jobs_of(imported).values()
        assert (job.id, job.tags) == ("daily-report", ("reports", "daily"))
        assert job.policy.missed is Missed.ALL
        assert (job.work.timeout_us, job.work.max_active_steps) == (10 * MINUTE, 2)
        assert job.work.env == (("MODE", "full"), ("LEVEL", "3"))
        assert [(param.name, param.default) for param in job.work.params] == [("DAY", "today"), ("SIZE", "3")]
        assert job.work.preconditions == (Condition(ConditionKind.COMMAND, "date +%u", "1"),)
        assert job.work.handlers.on_failure is not None
        assert job.work.handlers.on_exit is not None
        fetch, load = job.steps
        assert (fetch.retry.max_retries, fetch.retry.delay_us, fetch.output) == (2, 5 * SECOND, "ROWS")
        assert load.kind == Script("echo $ROWS\n", ("bash",))
        assert load.continue_on == ContinueOn(failure=True, exit_codes=(3,))

    def test_steps_without_an_order_run_one_after_another_with_a_note(self):
        imported = read_dagu("steps:\n  - command: a\n  - command: b\n  - c\n", "w.yaml")
        (job,) = jobs_of(imported).values()
        assert [(step.name, step.depends) for step in job.steps] == [
            ("step-1", ()),
            ("step-2", ("step-1",)),
            ("step-3", ("step-2",)),
        ]
        assert "1: no 'type' is written" in told(imported)

    def test_what_runs_for_many_items_does(self):
        text = """
type: graph
steps:
  - {name: list, command: ls, output: FILES}
  - {name: all, run: child, parallel: "${FILES}", params: "FILE=${ITEM}", depends: list}
  - name: some
    call: child
    parallel: {items: [{r: eu}, {r: us}], max_concurrent: 2}
    params: {R: "${ITEM.r}/x"}
"""
        imported = read_dagu(text, "w.yaml")
        assert imported.notes == ()
        (job,) = jobs_of(imported).values()
        _list, everything, some = job.steps
        assert everything.each == Each(from_step="list", continues_on_failure=True)
        assert everything.kind == SubJob("child", (("FILE", "{{ item }}"),))
        parts = (ItemValue("", (("r", "eu"),)), ItemValue("", (("r", "us"),)))
        assert some.each == Each(parts, max_parallel=2, continues_on_failure=True)
        assert some.kind == SubJob("child", (("R", '{{ item("r") }}/x'),))

    def test_a_list_that_cannot_be_carried_over_is_reported(self):
        imported = read_dagu("steps:\n  - {name: a, run: b, parallel: {items: 3}}\n", "w.yaml")
        assert "'parallel' of step 'a' as it is written" in told(imported)

    def test_a_graph_stays_one(self):
        (job,) = jobs_of(
            read_dagu("type: graph\nsteps:\n  - {name: a, command: a}\n  - {name: b, command: b}\n", "w")
        ).values()
        assert [step.depends for step in job.steps] == [(), ()]

    @pytest.mark.parametrize(
        ("step", "kind"),
        [
            pytest.param(
                "{name: a, call: child, params: 'A=1 B=2'}", SubJob("child", (("A", "1"), ("B", "2"))), id="sub"
            ),
            pytest.param("{name: a, run: child}", SubJob("child"), id="a sub-workflow of an older version"),
            pytest.param(
                "{name: a, command: 'GET https://example.org/x', executor: {type: http, config: {body: y}}}",
                HttpCall("https://example.org/x", "GET", (), "y"),
                id="a call",
            ),
            pytest.param("{name: a, command: [a, b]}", Command(("a", "b")), id="a list of words"),
            pytest.param("{name: a, command: a, args: b c}", Command(("a", "b", "c")), id="arguments in one text"),
            pytest.param("{name: a, command: a, args: [b]}", Command(("a", "b")), id="a program and its arguments"),
        ],
    )
    def test_a_step_that_is(self, step, kind):
        (job,) = jobs_of(read_dagu(f"steps:\n  - {step}\n", "w.yaml")).values()
        assert job.steps[0].kind == kind

    def test_a_container_of_a_step_is_one_here(self):
        text = """
registry_auths:
  ghcr.io: {username: robot, password: "${GHCR_TOKEN}"}
  docker.io: {username: robot, password: plain}
steps:
  - name: old
    executor:
      type: docker
      config:
        image: ghcr.io/acme/etl:2
        autoRemove: true
        pull: true
        container: {env: [MODE=full], workingDir: /srv}
        host: {binds: ["/data:/data:ro", "/out:/out"], privileged: true}
    command: python etl.py --full
  - name: new
    container: {image: "alpine:3", pull_policy: never, volumes: ["cache:/cache"], user: "1000", env: {A: "1"}}
    command: echo $A
    env: [B=2]
    depends: old
"""
        imported = read_dagu(text, "w.yaml")
        (job,) = jobs_of(imported).values()
        old, new = job.steps
        assert old.kind == Container(
            "ghcr.io/acme/etl:2",
            args=("python", "etl.py", "--full"),
            mounts=(Mount("/data", "/data"), Mount("/out", "/out", is_writable=True)),
            working_dir="/srv",
            pull=Pull.ALWAYS,
            registry=RegistryLogin("robot", Secret("env", "GHCR_TOKEN")),
        )
        assert old.env == (("MODE", "full"),)
        assert new.kind == Container(
            "alpine:3",
            ("echo $A",),
            is_shell=True,
            mounts=(Mount("cache", "/cache", is_writable=True),),
            user="1000",
            pull=Pull.NEVER,
        )
        assert new.env == (("A", "1"), ("B", "2"))
        for note in (
            "3: the login of the registry 'docker.io': write 'registry' with a secret",
            "6: 'host.privileged' of a container.",
            "16: its command is a text for /bin/sh of the image",
            "'docker.mounts' in evertick.toml",
        ):
            assert note in told(imported), told(imported)
        assert "plain" not in imported.files[0].text

    def test_a_command_of_another_machine_is_one_here(self):
        text = """
steps:
  - name: a
    type: ssh
    with: {host: db1, user: deploy, port: "2222", key: ~/.ssh/id, known_host_file: ~/hosts, timeout: 10s,
           password: x, strict_host_key: false, bastion: {host: b}, shell: bash}
    command: systemctl restart app
    dir: /srv
"""
        imported = read_dagu(text, "w.yaml")
        (job,) = jobs_of(imported).values()
        assert job.steps[0].kind == SshCommand(
            "db1", ("systemctl restart app",), True, "deploy", 2222, "~/.ssh/id", "~/hosts", "/srv", 10 * SECOND
        )
        for note in ("the password of 'ssh'", "'strictHostKey: false'", "'bastion' of 'ssh'", "'shell' of 'ssh'"):
            assert f"3: {note}" in told(imported), told(imported)

    @pytest.mark.parametrize(
        ("place", "kind"),
        [
            pytest.param(
                "container: {image: 'alpine:3', working_dir: /srv, env: [M=1]}",
                Container("alpine:3", ("make",), is_shell=True, working_dir="/srv"),
                id="a container",
            ),
            pytest.param(
                "ssh: {host: db1, user: deploy}", SshCommand("db1", ("make",), is_shell=True, user="deploy"), id="ssh"
            ),
        ],
    )
    def test_where_the_commands_of_a_workflow_run_is_kept(self, place, kind):
        imported = read_dagu(f"{place}\ntype: chain\nsteps:\n  - make\n  - name: b\n    command: make\n", "w.yaml")
        (job,) = jobs_of(imported).values()
        assert [step.kind for step in job.steps] == [kind, kind]
        assert job.work.env == ((("M", "1"),) if "container" in place else ())
        assert ("share one container" in told(imported)) == ("container" in place)

    def test_a_step_completes_the_ssh_of_its_workflow(self):
        text = "ssh: {host: db1, user: deploy}\nsteps:\n  - {name: a, type: ssh, with: {host: db2}, command: x}\n"
        (job,) = jobs_of(read_dagu(f"{text}  - {{name: b, executor: ssh, command: y}}\n", "w.yaml")).values()
        first, second = (step.kind for step in job.steps)
        assert first == SshCommand("db2", ("x",), is_shell=True, user="deploy")
        assert second == SshCommand("db1", ("y",), is_shell=True, user="deploy")

    @pytest.mark.parametrize(
        ("text", "note"),
        [
            pytest.param(
                "steps:\n  - name: a\n    executor: docker\n    command: x\n",
                "2: a container without an image",
                id="docker",
            ),
            pytest.param("container: running\nsteps:\n  - x\n", "1: the container 'running'", id="one that exists"),
            pytest.param("steps:\n  - {name: a, type: ssh, command: x}\n", "2: 'ssh' without a host", id="no host"),
            pytest.param("steps:\n  - {name: a, type: jq, command: x}\n", "2: the executor 'jq'.", id="another kind"),
        ],
    )
    def test_a_step_that_cannot_run_here_leaves_the_whole_workflow_behind(self, text, note):
        imported = read_dagu(text, "w.yaml")
        assert imported.files == ()
        assert note in told(imported)
        assert "'w' is not converted" in told(imported)

    def test_a_field_without_a_counterpart_is_reported_with_its_line(self):
        imported = read_dagu("smtp: {host: x}\nsteps:\n  - name: a\n    command: x\n    stdout: /tmp/x\n", "w.yaml")
        assert len(imported.files) == 1
        assert "1: 'smtp' is not converted: write [notifications.smtp] into evertick.toml." in told(imported)
        assert "5: 'stdout' of step 'a' is not converted: the log of the step has its output" in told(imported)

    def test_a_field_with_another_counterpart_names_it(self):
        imported = read_dagu("mail_on: {failure: true}\nsteps:\n  - {name: a, command: x, foreach: [b]}\n", "w.yaml")
        assert "1: 'mail_on' is not converted: write 'notify'" in told(imported)
        assert "3: 'foreach' of step 'a' is not converted: write 'each'." in told(imported)

    def test_history_and_logs_are_kept_as_long_as_there(self):
        (job,) = jobs_of(read_dagu("histRetentionDays: 7\nsteps: [x]\n", "w.yaml")).values()
        assert (job.history_retention_us, job.log_retention_us) == (7 * DAY, 7 * DAY)

    @pytest.mark.parametrize(
        ("text", "note"),
        [
            pytest.param("timeoutSec: 5m\nsteps: [x]\n", "1: 'timeout: 5m' is not a number", id="a timeout"),
            pytest.param("histRetentionDays: all\nsteps: [x]\n", "1: 'histRetentionDays: all'", id="a retention"),
            pytest.param("maxActiveRuns: -1\nsteps: [x]\n", "1: 'maxActiveRuns: -1'", id="no limit of runs"),
            pytest.param("handlerOn: [x]\nsteps: [x]\n", "1: the handlers are not a map", id="a list of handlers"),
            pytest.param("steps: [{command: x, timeout: 5m}]\n", "1: the timeout '5m' of step", id="of a step"),
            pytest.param("steps: [{command: x, continueOn: other}]\n", "1: 'other' of 'continueOn'", id="a condition"),
            pytest.param("retryPolicy: {limit: many}\nsteps: [x]\n", "1: the limit 'many'", id="a limit"),
            pytest.param(
                "steps: [{command: x, repeatPolicy: {repeat: until, exitCode: [0]}}]\n",
                "1: 'exitCode' of a repetition",
                id="a repetition until an exit code",
            ),
        ],
    )
    def test_a_value_without_a_counterpart_is_reported_with_its_line(self, text, note):
        assert note in told(read_dagu(text, "w.yaml"))

    def test_commands_of_an_inner_list_are_kept(self):
        (job,) = jobs_of(read_dagu("steps:\n  - a\n  - [b, {command: c}]\n", "w.yaml")).values()
        assert [step.kind for step in job.steps] == [Command((one,), is_shell=True) for one in "abc"]

    @pytest.mark.parametrize(
        ("written", "count"),
        [
            pytest.param("['0 9 * * *', '0 10 * * *']", 2, id="a list"),
            pytest.param("{start: '0 9 * * *', stop: '0 10 * * *'}", 1, id="starts and stops"),
            pytest.param("[{kind: cron, expression: '0 9 * * *'}]", 1, id="a typed entry"),
            pytest.param("[{kind: at, at: '2027-03-01T09:00:00Z'}]", 1, id="one instant"),
            pytest.param("'TZ=Asia/Tokyo 0 9 * * *'", 1, id="a zone"),
        ],
    )
    def test_a_schedule_written_as(self, written, count):
        (job,) = jobs_of(read_dagu(f"schedule: {written}\nsteps: [{{name: a, command: x}}]\n", "w.yaml")).values()
        assert len(job.schedules) == count

    def test_a_folder_is_carried_over_with_those_that_its_workflows_call(self):
        imported = read_dagu_folder(
            {
                "dags/main.yaml": "steps:\n  - {name: a, call: sub/load.yaml}\n  - {name: b, run: other}\n",
                "dags/notes.yaml": "- a list\n",
                "dags/sub/load.yaml": "name: Load it\nmailOn: x\nsteps: [{name: a, command: x}]\n",
                "dags/twice.yaml": "name: load-it\nsteps: [{name: a, command: y}]\n",
            }
        )
        jobs = jobs_of(imported)
        assert sorted(jobs) == ["load-it", "load-it-2", "main"]
        assert [step.kind for step in jobs["main"].steps] == [SubJob("load-it"), SubJob("other")]
        assert [(note.source, note.line) for note in imported.notes if "chain" not in note.text] == [
            ("dags/main.yaml", 1),
            ("dags/notes.yaml", 1),
            ("dags/sub/load.yaml", 2),
        ]

    def test_a_folder_is_read_with_those_below_it_and_without_what_is_hidden(self, tmp_path):
        for name in ("a.yaml", "below/b.yml", ".git/c.yaml", "d.txt"):
            (tmp_path / "dags" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "dags" / name).write_text("steps: [{name: a, command: x}]\n", encoding="utf-8")
        options = ["import", "dagu", str(tmp_path / "dags"), "--to", str(tmp_path / "jobs")]
        assert CliRunner().invoke(evertick, options).exit_code == 0
        assert sorted(load_folder(tmp_path / "jobs").jobs) == ["a", "b"]

    @pytest.mark.parametrize("text", ["", "- a\n", "a: [\n"])
    def test_a_text_that_is_not_a_workflow_is_an_error(self, text):
        with pytest.raises(DefinitionError):
            read_dagu(text, "w.yaml")


RECORD = {
    "id": 2,
    "jobDesc": "Nightly sync",
    "scheduleType": "CRON",
    "scheduleConf": "0 30 2 ? * 2-6 *",
    "misfireStrategy": "FIRE_ONCE_NOW",
    "executorRouteStrategy": "ROUND",
    "executorBlockStrategy": "DISCARD_LATER",
    "executorTimeout": 60,
    "executorFailRetryCount": 2,
    "executorParam": "full",
    "alarmEmail": "a@b.org, c@d.org",
    "glueType": "GLUE_SHELL",
    "glueSource": "#!/bin/bash\necho $1\n",
    "triggerStatus": 1,
    "childJobId": "3",
}


class TestXxlJob:
    def test_a_whole_export(self):
        child = {"id": 3, "jobDesc": "Report", "scheduleType": "NONE", "scheduleConf": "", "glueType": "BEAN"}
        child |= {"executorHandler": "reportHandler", "childJobId": "9"}
        imported = read_xxl_job(json.dumps([RECORD, child], indent=1), "x.json", timezone="Asia/Shanghai")
        jobs = jobs_of(imported)
        sync, report = jobs["nightly-sync"], jobs["report"]
        assert sync.schedules == (CronSpec("0 30 2 ? * 1-5", "Asia/Shanghai", "nightly-sync"),)
        assert (sync.policy.missed, sync.policy.overlap.kind) == (Missed.LATEST, OverlapKind.SKIP)
        assert (sync.policy.retry.max_retries, sync.policy.retry.delay_us) == (2, 0)
        assert (sync.work.timeout_us, sync.work.env) == (60 * SECOND, (("XXL_JOB_PARAM", "full"),))
        assert sync.steps[0].kind == Script("#!/bin/bash\necho $1\n", ("bash",))
        assert sync.notify[0].channels == (Mail(("a@b.org", "c@d.org")),)
        assert (report.schedules, report.enabled) == ((), False)
        assert report.after == After(("nightly-sync",), AfterMode.ANY)
        notes = told(imported)
        assert "2: the routing 'ROUND'" in notes
        assert "2: a script is given no arguments" in notes
        assert "19: what it runs ('reportHandler', BEAN)" in notes
        assert "19: its child '9'" in notes

    def test_a_misfire_strategy_that_is_unknown_is_reported(self):
        assert "1: the misfire strategy 'LATER'." in told(
            read_xxl_job(json.dumps([{**RECORD, "misfireStrategy": "LATER"}]), "x")
        )

    def test_a_fixed_rate_is_an_interval_without_the_retries_of_a_block(self):
        record = {"jobDesc": "poll", "scheduleType": "FIX_RATE", "scheduleConf": "30", "glueType": "BEAN"}
        (job,) = jobs_of(read_xxl_job(json.dumps([record]), "x")).values()
        assert (job.schedules, job.policy.retry) == ((EverySpec(30 * SECOND),), Retry())

    def test_a_child_with_a_schedule_of_its_own_is_not_held_back_by_its_parent(self):
        imported = read_xxl_job(json.dumps([RECORD, {**RECORD, "id": 3, "jobDesc": "child", "childJobId": ""}]), "x")
        assert jobs_of(imported)["child"].after is None
        assert "its child 'child' starts by its own schedule only" in told(imported)

    @pytest.mark.parametrize("wrapped", [{"content": []}, {"code": 200, "data": {"list": []}}, []])
    def test_the_list_may_be_wrapped(self, wrapped):
        assert read_xxl_job(json.dumps(wrapped), "x").files == ()

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            pytest.param("{", "not JSON", id="half a file"),
            pytest.param('{"a": 1}', "no list of jobs", id="no list"),
        ],
    )
    def test_a_text_that_is_not_an_export_is_an_error(self, text, words):
        with pytest.raises(DefinitionError, match=words):
            read_xxl_job(text, "x.json")

    @pytest.mark.slow
    def test_an_export_of_a_thousand_jobs(self):
        records = [{**RECORD, "id": number, "childJobId": ""} for number in range(1_000)]
        assert len(read_xxl_job(json.dumps(records), "x").files) == 1_000

    @pytest.mark.parametrize(
        ("quartz", "ours", "is_lossy"),
        [
            pytest.param("0 0 12 * * ?", "0 0 12 * * ?", False, id="noon"),
            pytest.param("0 15 10 ? * MON-FRI", "0 15 10 ? * MON-FRI", False, id="names"),
            pytest.param("0 15 10 ? * 2-6", "0 15 10 ? * 1-5", False, id="Monday is 2"),
            pytest.param("0 15 10 ? * 1,7", "0 15 10 ? * 0,6", False, id="the weekend"),
            pytest.param("0 15 10 ? * 6L", "0 15 10 ? * 5L", False, id="the last Friday"),
            pytest.param("0 15 10 ? * 6#3", "0 15 10 ? * 5#3", False, id="the third Friday"),
            pytest.param("0 15 10 ? * 2/2", "0 15 10 ? * 1/2", False, id="every second day from Monday"),
            pytest.param("0 15 10 ? * L", "0 15 10 ? * 6", False, id="L is Saturday"),
            pytest.param("0 0/5 14 * * ?", "0 0/5 14 * * ?", False, id="steps"),
            pytest.param("0 15 10 L * ?", "0 15 10 L * ?", False, id="the last day"),
            pytest.param("0 0 0 1 1 ? 2030", "0 0 0 1 1 ?", True, id="a year"),
            pytest.param("0 0 0 1 1 ? *", "0 0 0 1 1 ?", False, id="any year"),
        ],
    )
    def test_an_expression_of_quartz(self, quartz, ours, is_lossy):
        found, lost = from_quartz(quartz)
        assert (found, lost is not None) == (ours, is_lossy)
        assert parse_definition(f"schedule: '{found}'\ncommand: x\n", "a.yaml").errors == ()


WORDS = (
    "a",
    "0 9 * * *",
    "6h",
    "A=b",
    "docker",
    "http",
    "GET http://x",
    "graph",
    "chain",
    "`x`",
    "$A",
    "",
    "x\ny",
    "1,2",
)
DAGU = (
    *("name", "schedule", "env", "params", "tags", "labels", "preconditions", "timeout_sec", "histRetentionDays"),
    *("maxActiveRuns", "retry_policy", "queue", "handler_on", "steps", "type", "overlap_policy", "catchupWindow"),
    *("command", "script", "shell", "executor", "config", "call", "args", "depends", "output", "continue_on"),
    *("container", "ssh", "registry_auths", "image", "host", "volumes", "password", "pull"),
    *("repeat_policy", "repeat", "interval_sec", "limit", "condition", "expected", "success", "exit", "start", "at"),
)
things = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-1, 5), st.sampled_from(WORDS)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(DAGU), inner, max_size=4)),
    max_leaves=12,
)
records = st.dictionaries(st.sampled_from(tuple(RECORD)), st.one_of(things, st.sampled_from(tuple(RECORD.values()))))


def loadable(imported: Imported) -> None:
    for file in imported.files:
        assert parse_definition(file.text, f"jobs/{file.name}").errors == ()


@given(st.dictionaries(st.sampled_from(DAGU), things, max_size=6))
def test_any_workflow_ends_in_a_good_file_or_in_notes(fields):
    imported = read_dagu(json.dumps(fields), "w.yaml")
    loadable(imported)
    assert imported.files or imported.notes


@given(st.lists(st.one_of(records, things), max_size=4))
def test_any_export_ends_in_good_files_or_in_notes(export):
    imported = read_xxl_job(json.dumps(export), "x.json")
    loadable(imported)
    assert imported.files or imported.notes or not export


class TestWriting:
    def test_nothing_is_written_over_what_is_there(self, tmp_path):
        imported = read_crontab("0 0 * * * a\n0 0 * * * b\n", "x")
        (tmp_path / "b.yaml").write_text("mine", encoding="utf-8")
        with pytest.raises(Conflict, match=r"already has b\.yaml"):
            write(imported, tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["b.yaml"]
        write(imported, tmp_path, is_forced=True)
        assert sorted(load_folder(tmp_path).jobs) == ["a", "b"]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["a.yaml", "b.yaml"]

    @given(
        st.dictionaries(
            st.sampled_from(["a", "b"]),
            st.recursive(
                st.one_of(st.booleans(), st.integers(), st.text(max_size=20)),
                lambda inner: st.lists(inner, max_size=3),
                max_leaves=5,
            ),
        )
    )
    def test_rendered_yaml_parses_to_the_same_fields(self, fields):
        document = read_yaml(render(fields))
        assert document.problems == ()
        assert (plain_data(document.root) if document.root else {}) == fields


class TestCommand:
    def run(self, *arguments: str, stdin: str | None = None):
        return CliRunner().invoke(evertick, ["import", *arguments], input=stdin)

    def test_a_dry_run_shows_and_writes_nothing(self, tmp_path):
        result = self.run("crontab", "-", "--to", str(tmp_path / "jobs"), "--dry-run", stdin="0 0 * * * a\n")
        assert result.exit_code == 0
        assert "schedule: 0 0 * * *" in result.stdout
        assert "Would write 1 file." in result.stderr
        assert not (tmp_path / "jobs").exists()

    def test_files_are_written_and_load(self, tmp_path):
        source = tmp_path / "crontab"
        source.write_text("0 0 * * * a\n@reboot b\n", encoding="utf-8")
        result = self.run("crontab", str(source), "--to", str(tmp_path / "jobs"))
        assert result.exit_code == 0
        assert result.stdout.split() == [str(tmp_path / "jobs" / "a.yaml")]
        assert f"{source}:2: 'b' is not converted" in result.stderr
        assert list(load_folder(tmp_path / "jobs").jobs) == ["a"]

    def test_json_has_files_and_notes(self, tmp_path):
        result = self.run("crontab", "-", "--to", str(tmp_path), "-o", "json", stdin="0 0 * * * a\n@reboot b\n")
        found = json.loads(result.stdout)
        assert [Path(file["file"]).name for file in found["files"]] == ["a.yaml"]
        assert [note["line"] for note in found["notes"]] == [None, 2]

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            pytest.param(["dagu", "-", "--system"], "--system is only for", id="a system's workflow"),
            pytest.param(["crontab", "-", "--timezone", "Mars"], "Unknown time zone", id="an unknown zone"),
            pytest.param(["airflow", "-"], "is not one of", id="an unknown scheduler"),
        ],
    )
    def test_wrong_usage(self, tmp_path, arguments, words):
        result = self.run(*arguments, "--to", str(tmp_path), stdin="")
        assert result.exit_code == 2
        assert words in result.stderr
