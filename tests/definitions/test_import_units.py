"""Whether the timers of systemd and the CronJobs of Kubernetes become jobs, and what cannot is noted by line."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from evertick.cli.app import evertick
from evertick.definitions.importers.cron_job import read_cron_jobs
from evertick.definitions.importers.crontab import read_crontab
from evertick.definitions.importers.dagu import read_dagu
from evertick.definitions.importers.on_calendar import CalendarTime, from_on_calendar
from evertick.definitions.importers.systemd import read_systemd, read_systemd_files
from evertick.definitions.importers.xxl_job import read_xxl_job
from evertick.errors import DefinitionError
from evertick.model.instant import MINUTE, SECOND
from evertick.model.policy import Missed, OverlapKind
from evertick.model.schedule import AtSpec, CronSpec, EverySpec
from evertick.model.template import Expression, render_template
from evertick.model.work import Command, ContinueOn, Pod, Secret, SecretKey, SubJob
from tests.definitions.test_importers import jobs_of, told

TIMER = """\
[Unit]
Description=Nightly backup

[Timer]
OnCalendar=*-*-* 02:30:00 Europe/Berlin
Persistent=true
RandomizedDelaySec=10min

[Install]
WantedBy=timers.target
"""
SERVICE = """\
[Unit]
Wants=network-online.target
ConditionACPower=true

[Service]
Type=oneshot
User=backup
WorkingDirectory=/srv/backup
Environment="TARGET=/mnt/a b" MODE=full
ExecStartPre=-/usr/bin/mkdir -p /mnt/out
ExecStart=/usr/bin/rsync -a --delete \\
  ./ ${TARGET}
TimeoutStartSec=1h 30min
PrivateTmp=yes
"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("daily", CalendarTime("0 0 * * *"), id="a shorthand"),
        pytest.param("weekly", CalendarTime("0 0 * * MON"), id="weekly is on Monday"),
        pytest.param("quarterly", CalendarTime("0 0 1 1,4,7,10 *"), id="quarterly"),
        pytest.param("*-*-* 02:30:00", CalendarTime("30 2 * * *"), id="a time of day"),
        pytest.param("02:30", CalendarTime("30 2 * * *"), id="without date and seconds"),
        pytest.param("*:0/15", CalendarTime("0/15 * * * *"), id="a repetition"),
        pytest.param("*-*-* *:*:00/10", CalendarTime("0/10 * * * * *"), id="seconds"),
        pytest.param("Mon..Fri *-*-* 10:00", CalendarTime("0 10 * * MON-FRI"), id="weekdays"),
        pytest.param("Sat,Sun 12:05", CalendarTime("5 12 * * SAT,SUN"), id="a list of weekdays"),
        pytest.param("Sat..Mon 08:00", CalendarTime("0 8 * * SAT,SUN,MON"), id="a range past the end of the week"),
        pytest.param("Thursday", CalendarTime("0 0 * * THU"), id="a weekday alone"),
        pytest.param("*-*-01..07 04:00", CalendarTime("0 4 1-7 * *"), id="a range of days"),
        pytest.param("Mon *-*-01..07 04:00", CalendarTime("0 4 * * MON#1"), id="the first Monday"),
        pytest.param("*-*~01 23:00", CalendarTime("0 23 L * *"), id="the last day of the month"),
        pytest.param("*-05-03", CalendarTime("0 0 3 5 *"), id="a day of the year"),
        pytest.param("daily UTC", CalendarTime("0 0 * * *", zone="UTC"), id="a zone"),
        pytest.param("2027-03-01 09:00:00", CalendarTime(at="2027-03-01T09:00:00"), id="one time"),
    ],
)
def test_a_calendar_expression(text, found):
    assert from_on_calendar(text) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("Mon,Tue *-*-13 04:00", "a weekday and a day of the month at once", id="both days limited"),
        pytest.param("2027..2029-*-* 09:00", "names a year", id="years"),
        pytest.param("*-*~03 09:00", "only the last day", id="days from the end"),
        pytest.param("Blursday 09:00", "is not a weekday", id="a slip"),
        pytest.param("2027-02-30 09:00", "is not a date", id="a date that does not exist"),
        pytest.param("", "is not a supported calendar expression", id="nothing"),
        pytest.param("09:00:00.5", "cron cannot express", id="a fraction of a second"),
        pytest.param("whenever I like", "is not a", id="words"),
    ],
)
def test_a_calendar_expression_that_cron_cannot_say_is_refused_with_the_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        from_on_calendar(text)


class TestSystemd:
    def test_a_timer_with_its_service(self):
        imported = read_systemd_files({"/etc/backup.timer": TIMER, "/etc/backup.service": SERVICE})
        (job,) = jobs_of(imported).values()
        assert (job.id, job.description) == ("backup", "Nightly backup")
        assert job.schedules == (CronSpec("30 2 * * *", "Europe/Berlin", "backup"),)
        assert job.policy.missed is Missed.LATEST
        assert job.work.env == (("TARGET", "/mnt/a b"), ("MODE", "full"))
        assert job.work.timeout_us == 90 * MINUTE
        first, second = job.steps
        assert first.kind == Command(("/usr/bin/mkdir", "-p", "/mnt/out"))
        assert first.continue_on == ContinueOn(failure=True)
        assert second.kind == Command(("/usr/bin/rsync", "-a", "--delete", "./", "/mnt/a b"))
        assert second.depends == ("before",)
        assert job.policy.jitter_us == 10 * MINUTE
        assert "RandomizedDelaySec" not in told(imported)
        assert "14: PrivateTmp: see 'sandbox'." in told(imported)
        assert "3: ConditionACPower: write a precondition." in told(imported)
        assert "Wants" not in told(imported)
        assert {note.source for note in imported.notes} == {"/etc/backup.service"}

    def test_what_systemctl_cat_prints_with_a_drop_in(self):
        text = (
            f"# /usr/lib/systemd/system/backup.timer\n{TIMER}\n"
            "# /etc/systemd/system/backup.timer.d/override.conf\n[Timer]\nOnCalendar=\nOnCalendar=hourly\n\n"
            "# /usr/lib/systemd/system/backup.service\n[Service]\nExecStart=/bin/echo 100%%\n"
        )
        (job,) = jobs_of(read_systemd(text, "standard input")).values()
        assert [str(spec).partition(" (")[0] for spec in job.schedules] == ["0 * * * *"]
        assert job.steps[0].kind == Command(("/bin/echo", "100%"))

    def test_variables_are_expanded_as_systemd_does(self):
        service = (
            "[Service]\nEnvironment='OPTIONS=-v --fast' DAY=100%%\n"
            "ExecStart=/bin/sh -c 'for one in $OPTIONS; do echo $one ${DAY} $$; done' $OPTIONS x$DAY\n"
        )
        imported = read_systemd_files({"x.timer": TIMER, "x.service": service})
        (job,) = jobs_of(imported).values()
        text = "for one in $OPTIONS; do echo $one 100% $; done"
        assert job.steps[0].kind == Command(("/bin/sh", "-c", text, "-v", "--fast", "x$DAY"))
        assert dict(job.work.env) == {"OPTIONS": "-v --fast", "DAY": "100%"}
        assert "is not expanded" not in told(imported)

    def test_an_interval_and_a_start_of_the_machine(self):
        timer = "[Timer]\nOnBootSec=5min\nOnUnitActiveSec=15min\nUnit=poll-now.service\n"
        service = "[Service]\nExecStart=/bin/true\n"
        imported = read_systemd_files({"a/poll.timer": timer, "a/poll-now.service": service})
        (job,) = jobs_of(imported).values()
        assert job.schedules == (EverySpec(15 * MINUTE),)
        assert "2: OnBootSec: it counts from a start" in told(imported)
        assert "3: OnUnitActiveSec: it counts from the last start" in told(imported)

    def test_several_times_of_which_one_is_single(self):
        timer = "[Timer]\nOnCalendar=Mon 08:00\nOnCalendar=2030-01-02 03:04:05 UTC\n"
        (job,) = jobs_of(
            read_systemd_files({"x.timer": timer, "x.service": "[Service]\nExecStart=/bin/true\n"})
        ).values()
        assert [type(spec) for spec in job.schedules] == [CronSpec, AtSpec]

    @pytest.mark.parametrize(
        ("files", "note"),
        [
            pytest.param({"x.timer": TIMER}, "its service x.service is not here", id="no service"),
            pytest.param({"x.service": SERVICE}, "no timer was found", id="no timer"),
            pytest.param(
                {"x.timer": "[Timer]\nOnBootSec=1\n", "x.service": SERVICE}, "it has no time that can be", id="no time"
            ),
            pytest.param(
                {"x.timer": "[Timer]\nOnCalendar=Mon *-*-13\n", "x.service": SERVICE},
                "2: OnCalendar: cron cannot require a weekday",
                id="a time that cron cannot express",
            ),
            pytest.param(
                {"x.timer": "[Timer]\nOnCalendar=hourly\nRandomizedDelaySec=2h\n", "x.service": SERVICE},
                "the delay: 'jitter' is 2h, but two occurrences can be 1h apart.",
                id="a delay beyond the next start",
            ),
            pytest.param(
                {"x.timer": f"{TIMER}[Timer]\nFixedRandomDelay=true\n", "x.service": SERVICE},
                "FixedRandomDelay: write H instead of a number",
                id="a delay that is always the same",
            ),
            pytest.param(
                {"x.timer": "[Timer]\nOnCalendar=hourly\nRandomizedDelaySec=soon\n", "x.service": SERVICE},
                "3: RandomizedDelaySec: it is not a duration that can be converted; write 'jitter'.",
                id="a delay that is no duration",
            ),
            pytest.param(
                {"x.timer": TIMER, "x.service": "[Service]\nExecStart=/bin/echo %h $HOME\n"},
                "the specifier '%h' is not expanded",
                id="a specifier",
            ),
            pytest.param(
                {"x.timer": TIMER, "x.service": "[Service]\nExecStart=/bin/true\nEnvironment=A=%h/x\n"},
                "3: Environment: the specifier '%h' is not expanded",
                id="a specifier in a variable",
            ),
            pytest.param(
                {"x.timer": TIMER, "x.service": "[Service]\nExecStart=/bin/true\nWorkingDirectory=%S/x\n"},
                "3: WorkingDirectory: the specifier '%S' is not expanded",
                id="a specifier in a folder",
            ),
            pytest.param(
                {"x.timer": TIMER, "x.service": "[Service]\nExecStart=/bin/true\nTimeoutStartSec=1.5\n"},
                "3: TimeoutStartSec: '1.5' is not a duration that can be converted",
                id="a part of a second",
            ),
            pytest.param(
                {"x.timer": TIMER, "x.service": "[Service]\nExecStart=/bin/true\nEnvironment=A=1 B\n"},
                "3: Environment: 'B' has no value.",
                id="a variable without a value",
            ),
            pytest.param(
                {"x.timer": f"{TIMER}tomorrow\n", "x.service": SERVICE},
                "11: 'tomorrow' is not a setting",
                id="a line that is no setting",
            ),
            pytest.param(
                {"x.timer": TIMER, "x.service": "[Service]\nExecStart=/bin/true\nNice=5 \\"},
                "3: Nice: it has no counterpart here.",
                id="a last line that would go on",
            ),
        ],
    )
    def test_what_cannot_be_carried_over_is_noted(self, files, note):
        assert note in told(read_systemd_files(files))


MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: batch/v1
kind: CronJob
metadata:
  name: report
  namespace: batch
  labels: {app: report}
spec:
  schedule: "0 3 * * 1-5"
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 600
  successfulJobsHistoryLimit: 3
  jobTemplate:
    spec:
      backoffLimit: 2
      activeDeadlineSeconds: 3600
      template:
        spec:
          restartPolicy: OnFailure
          serviceAccountName: reporter
          nodeSelector: {disk: ssd}
          containers:
            - name: report
              image: ghcr.io/acme/report:1.4
              command: [python, report.py]
              args: [--full]
              env:
                - {name: MODE, value: full}
                - {name: PASSWORD, valueFrom: {secretKeyRef: {name: database, key: password}}}
                - {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
              resources: {requests: {cpu: 500m}, limits: {memory: 1Gi}}
"""


class TestCronJob:
    def test_a_manifest(self):
        imported = read_cron_jobs(MANIFEST, "report.yaml")
        (job,) = jobs_of(imported).values()
        assert job.schedules == (CronSpec("0 3 * * 1-5", "Europe/Berlin", "report"),)
        assert (job.policy.missed, job.policy.catchup_window_us) == (Missed.LATEST, 600 * SECOND)
        assert job.policy.overlap.kind is OverlapKind.SKIP
        assert job.work.timeout_us == 60 * MINUTE
        assert (job.policy.retry.max_retries, job.policy.retry.delay_us) == (2, 10 * SECOND)
        pod = job.steps[0].kind
        assert isinstance(pod, Pod)
        assert pod.command == ("python", "report.py", "--full")
        assert pod.env == (("MODE", "full"),)
        assert pod.secrets == (("PASSWORD", SecretKey("database", "password")),)
        assert (pod.requests, pod.limits) == ((("cpu", "500m"),), (("memory", "1Gi"),))
        assert (pod.service_account, pod.namespace) == ("reporter", "batch")
        assert pod.pod_spec == {
            "nodeSelector": {"disk": "ssd"},
            "containers": [
                {"name": "main", "env": [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]}
            ],
        }
        assert "1: ConfigMap 'settings' is not a CronJob" in told(imported)
        assert "10: 'labels': write 'tags'" in told(imported)
        assert "16: 'successfulJobsHistoryLimit': the ledger keeps" in told(imported)

    @pytest.mark.parametrize(
        ("policy", "limit", "note"),
        [
            pytest.param("OnFailure", 2, "9: restartPolicy OnFailure becomes 2 retries of the run", id="retries"),
            pytest.param("OnFailure", 1, "9: restartPolicy OnFailure becomes 1 retry of the run", id="one retry"),
            pytest.param("OnFailure", 0, "", id="nothing to retry"),
            pytest.param("Never", 2, "", id="new pods there too"),
        ],
    )
    def test_restarts_in_a_pod_are_noted(self, policy, limit, note):
        text = (
            "kind: CronJob\nmetadata: {name: x}\nspec:\n  schedule: '@daily'\n  jobTemplate:\n    spec:\n"
            f"      backoffLimit: {limit}\n      template: {{spec: {{containers: [{{image: a}}],\n"
            f"        restartPolicy: {policy}}}}}\n"
        )
        imported = read_cron_jobs(text, "x")
        (job,) = jobs_of(imported).values()
        assert job.policy.retry.max_retries == limit
        assert note in told(imported)
        assert ("restartPolicy" in told(imported)) == bool(note)

    def test_labels_of_the_job_and_of_its_pods_are_noted(self):
        text = (
            "kind: CronJob\nmetadata: {name: x}\nspec:\n  schedule: '@daily'\n  jobTemplate:\n"
            "    metadata:\n      labels: {a: b}\n    spec:\n      template:\n        metadata:\n"
            "          creationTimestamp: null\n          annotations: {mesh: 'off'}\n"
            "        spec: {containers: [{image: a}]}\n"
        )
        notes = told(read_cron_jobs(text, "x"))
        assert "7: 'labels' of the job: write 'tags'" in notes
        assert "12: 'annotations' of the pod: it has no counterpart here." in notes
        assert "creationTimestamp" not in notes

    @pytest.mark.parametrize(
        ("spec", "overlap", "enabled"),
        [
            pytest.param("concurrencyPolicy: Replace", OverlapKind.REPLACE, True, id="replace"),
            pytest.param("suspend: true", OverlapKind.PARALLEL, False, id="suspended, and Allow by default"),
        ],
    )
    def test_policies(self, spec, overlap, enabled):
        text = (
            f"kind: CronJob\nmetadata: {{name: x}}\nspec:\n  schedule: '@daily'\n  {spec}\n"
            "  jobTemplate: {spec: {template: {spec: {containers: [{image: a}]}}}}\n"
        )
        (job,) = jobs_of(read_cron_jobs(f"kind: List\nitems:\n- {text.replace(chr(10), chr(10) + '  ')}", "x")).values()
        assert (job.policy.overlap.kind, job.enabled) == (overlap, enabled)
        assert job.policy.retry.max_retries == 6

    def test_a_manifest_without_an_image_is_noted(self):
        imported = read_cron_jobs("kind: CronJob\nmetadata: {name: x}\nspec: {schedule: '@daily'}\n", "x")
        assert imported.files == ()
        assert "'x' is not converted" in told(imported)

    @pytest.mark.parametrize(("text", "line"), [("- a\n", 1), ("kind: [\n", 2)])
    def test_an_invalid_manifest_is_an_error_with_its_place(self, text, line):
        with pytest.raises(DefinitionError) as error:
            read_cron_jobs(text, "x.yaml")
        assert (error.value.file, error.value.line) == ("x.yaml", line)


def _literal(text: str | Secret) -> str:
    def never(expression: Expression) -> str:
        raise AssertionError(expression)

    assert isinstance(text, str)
    return render_template(text, never)


class TestBraces:
    """`{{` means a date here, and nothing where the job comes from."""

    def test_of_a_unit(self):
        service = "[Service]\nEnvironment='F={{ date }}'\nExecStart=/usr/bin/docker ps --format '{{.Names}}' ${F}\n"
        (job,) = jobs_of(read_systemd_files({"x.timer": TIMER, "x.service": service})).values()
        command = job.steps[0].kind
        assert isinstance(command, Command)
        assert [_literal(word) for word in command.words[2:]] == ["--format", "{{.Names}}", "{{ date }}"]
        assert [(name, _literal(value)) for name, value in job.work.env] == [("F", "{{ date }}")]

    def test_of_a_manifest(self):
        text = (
            "kind: CronJob\nmetadata: {name: x}\nspec:\n  schedule: '@daily'\n  jobTemplate: {spec: {template: {spec: "
            "{containers: [{image: a, command: [x, '{{.A}}'], env: [{name: F, value: '{{ nope }}'}]}]}}}}\n"
        )
        (job,) = jobs_of(read_cron_jobs(text, "x")).values()
        pod = job.steps[0].kind
        assert isinstance(pod, Pod)
        assert [_literal(word) for word in pod.command] == ["x", "{{.A}}"]
        assert [_literal(value) for _name, value in pod.env] == ["{{ nope }}"]

    def test_of_a_crontab(self):
        text = "F={{ date }}\n0 0 * * * docker ps --format '{{.Names}}'\n"
        (job,) = jobs_of(read_crontab(text, "x")).values()
        assert [_literal(value) for _name, value in job.work.env] == ["{{ date }}"]
        assert job.steps[0].kind == Command(("docker ps --format '{{.Names}}'",), is_shell=True)

    def test_of_a_parameter_of_xxl_job(self):
        record = {"jobDesc": "a", "glueType": "BEAN", "executorParam": "{{ date }}"}
        (job,) = jobs_of(read_xxl_job(json.dumps([record]), "x")).values()
        assert [_literal(value) for _name, value in job.work.env] == ["{{ date }}"]

    def test_of_a_workflow(self):
        text = (
            "params: {P: '{{ date }}'}\nenv: {E: '{{.X}}'}\nsteps:\n  - {name: a, command: [echo, '{{.Y}}']}\n"
            "  - {name: b, run: other, params: {Q: '{{.Z}} ${ITEM}'}, parallel: {items: ['{{ item }}']}}\n"
        )
        (job,) = jobs_of(read_dagu(text, "w.yaml")).values()
        first, second = job.steps
        assert isinstance(first.kind, Command)
        assert isinstance(second.kind, SubJob)
        assert second.each is not None
        assert _literal(job.work.params[0].default or "") == "{{ date }}"
        assert [_literal(value) for _name, value in job.work.env] == ["{{.X}}"]
        assert _literal(first.kind.words[1]) == "{{.Y}}"
        assert _literal(second.each.values[0].text) == "{{ item }}"
        assert render_template(second.kind.params[0][1], lambda item: f"<{item.name}>") == "{{.Z}} <item>"


class TestCommand:
    def test_a_folder_of_units(self, tmp_path):
        units, jobs = tmp_path / "units", tmp_path / "jobs"
        (units / "backup.timer.d").mkdir(parents=True)
        (units / "backup.timer").write_text(TIMER)
        (units / "backup.timer.d" / "more.conf").write_text("[Timer]\nOnCalendar=12:00\n")
        (units / "backup.service").write_text(SERVICE)
        (units / "notes.txt").write_text("not a unit")
        found = CliRunner().invoke(evertick, ["import", "systemd", str(units), "--to", str(jobs), "-o", "json"])
        assert found.exit_code == 0, found.output
        assert [file["file"] for file in json.loads(found.stdout)["files"]] == [str(jobs / "backup.yaml")]
        assert "0 12 * * *" in (jobs / "backup.yaml").read_text()

    def test_a_timer_finds_the_service_beside_it(self, tmp_path):
        (tmp_path / "backup.timer").write_text(TIMER)
        (tmp_path / "backup.service").write_text(SERVICE)
        found = CliRunner().invoke(
            evertick, ["import", "systemd", str(tmp_path / "backup.timer"), "--to", str(tmp_path / "jobs")]
        )
        assert found.exit_code == 0, found.output
        assert (tmp_path / "jobs" / "backup.yaml").exists()

    def test_manifests(self, tmp_path):
        (tmp_path / "report.yaml").write_text(MANIFEST)
        found = CliRunner().invoke(
            evertick,
            ["import", "kubernetes", str(tmp_path / "report.yaml"), "--to", str(tmp_path / "jobs"), "--dry-run"],
        )
        assert found.exit_code == 0, found.output
        assert "image: ghcr.io/acme/report:1.4" in found.output
        assert not (tmp_path / "jobs").exists()
