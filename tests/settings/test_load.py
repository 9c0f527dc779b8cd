"""Where a setting comes from, which one wins, and the error of an invalid one."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from evertick.cli.app import evertick
from evertick.definitions.parser import parse_definition
from evertick.errors import SettingsError
from evertick.model.instant import DAY, SECOND
from evertick.model.notify import Mail, NotifyEvent, Route, Slack, Webhook
from evertick.model.work import Secret
from evertick.settings import Settings
from evertick.settings.catalogue import catalogue, lines, parts
from evertick.settings.kinds import mask_url
from evertick.settings.load import reveal
from tests.present import present

UTC = {"EVERTICK_TIMEZONE": "UTC"}


@pytest.fixture
def written(tmp_path):
    """Write evertick.toml and load it."""

    def write(text: str, environ: dict[str, str] | None = None, **overrides: object) -> Settings:
        (tmp_path / "evertick.toml").write_text(text, encoding="utf-8")
        return Settings.load(tmp_path, {**UTC, **(environ or {})}, overrides)

    return write


def complaints(load, *arguments, **options) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        load(*arguments, **options)
    return str(raised.value).split("\n")


def refusal(folder: Path | None, overrides: dict[str, object]) -> str | None:
    try:
        lines(Settings.load(folder, UTC, overrides))
    except SettingsError as error:
        return str(error)
    return None


class TestWhoGoesBefore:
    def test_without_anything_the_defaults_hold(self, tmp_path):
        assert Settings.load(tmp_path, UTC) == Settings("UTC", "setting EVERTICK_TIMEZONE")

    @pytest.mark.parametrize(
        ("environ", "options", "port"),
        [
            pytest.param({}, {}, 1000, id="the file before the default"),
            pytest.param({"EVERTICK_PORT": "2000"}, {}, 2000, id="a variable before the file"),
            pytest.param({"EVERTICK_PORT": "2000"}, {"port": 3000}, 3000, id="an option before the variable"),
            pytest.param({"EVERTICK_PORT": ""}, {}, 1000, id="an empty variable is none"),
            pytest.param({"EVERTICK_PORT": "2000"}, {"port": None}, 2000, id="an option that was not given is none"),
        ],
    )
    def test_order(self, written, environ, options, port):
        assert written("port = 1000", environ, **options).port == port

    def test_each_value_has_its_origin(self, written, tmp_path):
        found = written("\nport = 1000\n[loop]\npreread = '7s'", {"EVERTICK_NODE": "a1"}, store="memory:")
        assert dict(found.origins) == {
            "port": f"{tmp_path}/evertick.toml:2",
            "loop.preread": f"{tmp_path}/evertick.toml:4",
            "node": "EVERTICK_NODE",
            "store": "option --store",
            "timezone": "EVERTICK_TIMEZONE",
        }

    def test_a_file_may_be_named_by_a_variable_and_by_an_option(self, tmp_path):
        for name in ("evertick", "one", "two"):
            (tmp_path / f"{name}.toml").write_text(f"node = '{name}'")
        environ = {**UTC, "EVERTICK_CONFIG": str(tmp_path / "one.toml")}
        assert Settings.load(tmp_path, UTC).node == "evertick"
        assert Settings.load(tmp_path, environ).node == "one"
        assert Settings.load(tmp_path, environ, {"config": str(tmp_path / "two.toml")}).node == "two"

    def test_a_file_that_is_named_must_be_there(self, tmp_path):
        environ = {**UTC, "EVERTICK_CONFIG": str(tmp_path / "none.toml")}
        assert complaints(Settings.load, tmp_path, environ) == [
            f"EVERTICK_CONFIG: the file '{tmp_path}/none.toml' does not exist. Write the path of a settings file."
        ]

    def test_a_path_in_the_file_is_relative_to_the_file(self, written, tmp_path):
        found = written("[api]\ntls_cert = 'c.pem'\ntls_key = '/k.pem'\n[notifications]\nsigning_key = 'file:key'")
        assert (found.api.tls_cert, found.api.tls_key) == (tmp_path / "c.pem", Path("/k.pem"))
        assert found.notifications.signing_key == Secret("file", str(tmp_path / "key"))


class TestWhatIsWrong:
    @pytest.mark.parametrize(
        ("text", "words"),
        [
            pytest.param("prot = 1", "1: unknown setting 'prot'. Did you mean 'port'?", id="a mistyped key"),
            pytest.param("[lop]\na = 1", "1: unknown setting 'lop'. Did you mean 'loop'?", id="a mistyped table"),
            pytest.param("preread = '3s'", "1: unknown setting 'preread'. Did you mean 'loop.preread'?", id="no table"),
            pytest.param("loop = 3", "1: 'loop' is a table. Write [loop] and its settings below.", id="not a table"),
            pytest.param("port = 70000", "1: 'port' is 70000: it must be from 0 to 65,535.", id="out of range"),
            pytest.param("port = true", "1: 'port' is True: it is not a whole number.", id="a flag for a number"),
            pytest.param("web = 'maybe'", "1: 'web' is 'maybe': it is neither true nor false.", id="not a flag"),
            pytest.param("loop.stall = 3", "1: 'loop.stall' is 3: a duration is a text with units.", id="no unit"),
            pytest.param("\n[loop]\nstall = '0s'", "3: 'loop.stall' is '0s': '0s' is not a duration", id="zero"),
            pytest.param("[queues]\nBig = 1", "1: 'queues': 'Big' is not a name.", id="a queue's name"),
            pytest.param(
                "[stop]\nruns = 'kill'", "2: 'stop.runs' is 'kill': it is not one of the choices.", id="choice"
            ),
            pytest.param("a = b\n", ": it is not TOML: Invalid value (at line 1, column 5)", id="not TOML"),
            pytest.param("a = " + "[" * 9999, ": it is not TOML", id="deep"),
            pytest.param("[limits]\nfile = 'big'", "2: 'limits.file' is 'big': it is not a size.", id="not a size"),
            pytest.param(
                "[notifications.smtp]\npassword = 'hunter2'",
                "2: 'notifications.smtp.password': a secret must not be in the file.",
                id="a secret in the file",
            ),
            pytest.param(
                "[notifications.channels]\nops = 'https://a/b'\n[notifications]\non_failure = ['op']",
                "4: 'notifications.on_failure' names the unknown channel 'op'. Did you mean 'ops'?",
                id="a channel that is not there",
            ),
            pytest.param(
                "[notifications.channels]\nops = 'ftp://a/b'",
                "1: 'notifications.channels': it is not an address.",
                id="a channel that cannot be called",
            ),
            pytest.param("[api]\ntls_cert = 'a'", "2: 'api.tls_cert' is set without 'api.tls_key'.", id="half of TLS"),
            pytest.param(
                "[fleet]\ntls_ca = 'a'", "2: 'fleet.tls_ca' is set without 'fleet.tls_cert'.", id="a third of it"
            ),
            pytest.param("store = ''", "1: 'store' is '': it is empty.", id="an empty store"),
            pytest.param("store = '  '", "1: 'store' is '  ': it is empty.", id="a blank store"),
        ],
    )
    def test_is_reported_with_its_line_and_what_to_write(self, written, tmp_path, text, words):
        (told,) = complaints(written, text)
        assert told.startswith(f"{tmp_path}/evertick.toml")
        assert words in told

    def test_all_errors_are_reported_at_once(self, written):
        assert len(complaints(written, "a = 1\nport = 'x'", {"EVERTICK_WEB": "maybe"}, host=3)) == 4

    def test_each_calendar_and_each_blackout_has_a_line(self, written):
        window = 'to = "2027-03-07T04:00"\nall = true\n'
        text = (
            '[calendars]\na = {weekdays = "XX"}\n[calendars.b]\nday = 1\n'
            f'[[blackouts]]\nfrom = "2027-03-06T22:00"\n{window}[[blackouts]]\nfrom = "noon"\n{window}'
        )
        found = complaints(written, text)
        assert [line.split("evertick.toml:")[1].partition(":")[0] for line in found] == ["2", "3", "9"]

    def test_a_blackout_knows_its_line(self, written):
        window = 'from = "2027-03-06T22:00"\nto = "2027-03-07T04:00"\nall = true\n'
        found = written(f"port = 1\n[[blackouts]]\n{window}\n[[blackouts]]\n{window}")
        assert [one.origin.rpartition(":")[2] for one in found.blackouts] == ["2", "7"]

    def test_a_variable_cannot_set_what_only_the_file_can(self, written):
        found = written("port = 1", {"EVERTICK_CALENDARS": "x"})
        assert "EVERTICK_CALENDARS has no effect. Write 'calendars' into evertick.toml." in found.warnings
        assert {line.key for line in lines(found) if not line.variable} == {
            "calendars",
            "blackouts",
            "notifications.channels",
        }

    @pytest.mark.parametrize("key", catalogue())
    def test_an_empty_text_is_not_a_value_of_any_setting(self, tmp_path, key):
        (told,) = complaints(Settings.load, tmp_path, UTC, {key: " "})
        assert "it is empty" in told

    def test_a_secret_is_not_repeated_in_the_complaint(self, written):
        assert "hunter2" not in complaints(written, "[notifications]\nsigning_key = 'hunter2'")[0]

    def test_a_variable_that_is_nearly_one_is_warned_about(self, tmp_path):
        found = Settings.load(tmp_path, {**UTC, "EVERTICK_TIMEZON": "UTC", "EVERTICK_RUN_ID": "x"})
        assert found.warnings == ("EVERTICK_TIMEZON is not a setting. Did you mean EVERTICK_TIMEZONE?",)

    @given(st.binary(max_size=200))
    def test_no_file_does_more_than_be_refused(self, tmp_path_factory, source):
        folder = tmp_path_factory.mktemp("settings")
        (folder / "evertick.toml").write_bytes(source)
        told = refusal(folder, {})
        assert told is None or "evertick.toml" in told

    @given(
        st.sampled_from(sorted(catalogue())),
        st.one_of(
            st.text(max_size=30),
            st.integers(),
            st.booleans(),
            st.lists(st.text()),
            st.dictionaries(st.text(), st.text()),
        ),
    )
    def test_no_value_does_more_than_be_refused(self, key, value):
        told = refusal(None, {key: value})
        assert told is None or key in told


class TestSecrets:
    def test_a_store_may_be_kept_elsewhere_and_is_never_shown_whole(self, written):
        found = written("store = 'env:DB'", {"DB": "postgresql://me:hunter2@db/evertick"})
        assert found.store == "postgresql://me:hunter2@db/evertick"
        assert "hunter2" not in repr(found) + str(lines(found))

    def test_a_variable_may_hold_a_secret_itself(self, tmp_path):
        environ = {**UTC, "EVERTICK_NOTIFICATIONS_SMTP_PASSWORD": "hunter2"}
        found = Settings.load(tmp_path, environ)
        password = found.notifications.smtp.password
        assert password == Secret("env", "EVERTICK_NOTIFICATIONS_SMTP_PASSWORD")
        assert reveal(password, environ, "'x'") == "hunter2"

    @pytest.mark.parametrize("source", ["env:NOWHERE", "file:/nowhere/at/all", "file:/dev/null"])
    def test_a_missing_secret_is_reported_by_its_place(self, written, source):
        assert "'store' is in" in complaints(written, f"store = '{source}'")[0]

    @pytest.mark.parametrize(
        ("url", "shown"),
        [
            pytest.param(
                "postgresql://me:pw@db:5/x?sslmode=a", "postgresql://me:***@db:5/x?sslmode=a", id="a password"
            ),
            pytest.param("mysql://db/x?password=pw", "mysql://db/x?password=***", id="in the query"),
            pytest.param("https://hooks.example/T0/B0", "https://hooks.example/***", id="a path that is a secret"),
            pytest.param("sqlite:////var/lib/a.db", "sqlite:////var/lib/a.db", id="a file"),
            pytest.param("sqlite:///a.db", "sqlite:///a.db", id="a file here"),
            pytest.param("memory:", "memory:", id="no place"),
        ],
    )
    def test_an_address_is_shown_without_its_secret(self, url, shown):
        assert mask_url(url) == shown


class TestChannels:
    def test_receivers_have_names_and_events_name_them(self, written):
        found = written(
            """
            [notifications.channels]
            ops = "https://hooks.slack.com/services/x"
            pager = {webhook = "env:PAGER", headers = {Authorization = "env:TOKEN"}}
            chat = {slack = "https://chat.example/hook"}
            mail = "ops@example.org"
            [notifications]
            on_failure = ["ops", "pager"]
            on_recovered = ["mail", "chat"]
            """
        ).notifications
        pager = Webhook(Secret("env", "PAGER"), (("Authorization", Secret("env", "TOKEN")),))
        assert found.routes == (
            Route(NotifyEvent.FAILURE, (Slack("https://hooks.slack.com/services/x"), pager)),
            Route(NotifyEvent.RECOVERED, (Mail(("ops@example.org",)), Slack("https://chat.example/hook"))),
        )

    def test_a_job_may_name_them_too(self, written):
        settings = written("[notifications.channels]\nops = 'ops@example.org'\n")
        text = "schedule: '@daily'\ncommand: x\nnotify: {on_failure: %s}\n"
        job = present(parse_definition(text % "[ops, https://example.org/hook]", "a.yaml", settings).job)
        assert job.notify == (
            Route(NotifyEvent.FAILURE, (Mail(("ops@example.org",)), Webhook("https://example.org/hook"))),
        )
        (error,) = parse_definition(text % "op", "a.yaml", settings).errors
        assert str(error) == "a.yaml:3:22: Unknown channel 'op'. Did you mean 'ops'?"


class TestTheTable:
    def test_every_variable_is_of_one_setting(self):
        variables = [setting.variable for setting in catalogue().values() if setting.variable]
        assert len(set(variables)) == len(variables)

    def test_every_default_may_be_written(self):
        for setting in catalogue().values():
            shown = setting.kind.show(setting.default)
            if shown:
                assert setting.kind.read(shown) == setting.default, setting.key

    def test_every_event_can_be_routed(self):
        assert {f"notifications.{event}" for event in NotifyEvent} <= set(catalogue())

    def test_every_part_has_settings(self):
        assert all(part.settings and (part.about or not part.key) for part in parts())

    def test_the_defaults_equal_those_of_the_parts(self):
        from evertick.model.policy import BACKLOG_MAX, GRACE_US

        settings = Settings()
        assert (settings.jobs.grace_us, settings.jobs.backlog) == (GRACE_US, BACKLOG_MAX)


class TestJobs:
    def test_take_their_grace_and_backlog_from_the_settings(self, written, tmp_path):
        settings = written("[jobs]\ngrace = '2m'\nbacklog = 5")
        job = present(parse_definition("schedule: '@daily'\ncommand: x\n", "a.yaml", settings).job)
        assert (job.policy.grace_us, job.policy.backlog_max) == (120 * SECOND, 5)
        assert str(job.origins["grace"]) == f"setting {tmp_path}/evertick.toml:2"

    def test_jobs_can_set_their_own_grace(self, written):
        settings = written("[jobs]\ngrace = '2m'")
        job = present(parse_definition("schedule: '@daily'\ngrace: 3s\ncommand: x\n", "a.yaml", settings).job)
        assert job.policy.grace_us == 3 * SECOND

    def test_may_not_exceed_the_limit_of_the_settings(self, written):
        settings = written("[limits]\nfile = 40")
        text = "schedule: '@daily'\ncommand: x\n#"
        assert parse_definition(text, "a.yaml", settings).errors == ()
        (error,) = parse_definition(text + "#" * 40, "a.yaml", settings).errors
        assert "more than 40 bytes" in error.reason


class TestTheListing:
    def run(self, *arguments: object, **environ: str):
        return CliRunner(env={**UTC, **environ}).invoke(evertick, ["settings", *map(str, arguments)])

    def test_shows_what_was_changed_and_where(self, tmp_path):
        (tmp_path / "evertick.toml").write_text("[retention]\nhistory = 'forever'\n")
        result = self.run(tmp_path, "--changed")
        assert result.exit_code == 0
        assert [line.split()[:3] for line in result.stdout.splitlines()[1:]] == [
            ["timezone", "UTC", "EVERTICK_TIMEZONE"],
            ["retention.history", "forever", f"{tmp_path}/evertick.toml:2"],
        ]

    def test_shows_every_setting(self, tmp_path):
        assert len(self.run(tmp_path).stdout.splitlines()) == len(catalogue()) + 1

    def test_every_error_is_on_its_own_line_and_the_exit_code_is_2(self, tmp_path):
        (tmp_path / "evertick.toml").write_text("prot = 1\nhots = 2\n")
        command = [sys.executable, "-m", "evertick", "settings", str(tmp_path)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 2
        assert len(result.stderr.splitlines()) == 2


def test_a_duration_is_the_same_in_the_file_and_in_the_object(written):
    assert written("[retention]\nlogs = '2d'").retention.logs_us == 2 * DAY


def test_the_page_shows_a_file_that_loads(written):
    page = Path(__file__).parent.parent.parent / "docs" / "reference" / "settings.md"
    example = page.read_text().partition("```toml\n")[2].partition("```")[0]
    assert tomllib.loads(example)
    assert written(example, {"DATABASE_URL": "postgresql://db/x"}).queues == (("reports", 2),)
