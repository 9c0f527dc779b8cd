"""Do runs of another user, and in a sandbox, see only what they may? With real accounts and a real `bwrap`."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from evertick.executors.keeper import sandbox as sandbox_words
from evertick.executors.keeper.account import Account, find_account
from evertick.executors.keeper.process import NO_SANDBOX
from evertick.executors.keeper.procfs import is_alive
from evertick.executors.keeper.sandbox import Confinement, bwrap_words, systemd_words
from evertick.executors.keeper.spawn import Limits
from evertick.kinds import Program, StepError
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, SUCCEEDED, TIMED_OUT
from evertick.model.work import Condition, ConditionKind, Param, PythonCall, Sandbox, SandboxKind, Secret
from evertick.settings.parts import KeeperSettings
from tests.executors.contract import KEY
from tests.executors.local_runs import SOON, Place, argv, job_of, kill, launch, of_kind, script, sh, until, written

IS_ROOT = os.geteuid() == 0
NOBODY = pwd.getpwnam("nobody")
ACCOUNT = Account("nobody", NOBODY.pw_uid, NOBODY.pw_gid, NOBODY.pw_dir, NOBODY.pw_shell)
BWRAP = Sandbox(SandboxKind.BWRAP)
# Root reads the files of every user: its sandboxes need another one.
CONFINED = {"user": "nobody", "sandbox": BWRAP} if IS_ROOT else {"sandbox": BWRAP}
ONLY_ROOT = "only root can change the user"


@pytest.fixture
def folder():
    """One that every user may enter and write to, unlike those of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="evertick-"))
    folder.chmod(0o777)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def place(folder):
    place = Place(folder / "state")
    place.folder.mkdir(mode=0o700)
    (place.folder / "token").write_text("the token\n")
    yield place
    place.close()


def confined(**known):
    return {**CONFINED, "sandbox": replace(BWRAP, **known)}


def pids_of(place) -> list[int]:
    lines = (json.loads(line) for line in place.journal().splitlines())
    return [line[2] for line in lines if line[0] == "spawned"]


class TestUser:
    def test_a_run_is_wholly_of_its_user(self, place):
        asks = "id -u; id -g; id -G; echo $HOME $USER $LOGNAME; pwd; grep Cap /proc/self/status | sort -u"
        end = place.run(job_of(sh(asks), user="nobody"))
        if not IS_ROOT:
            assert (end.state, ONLY_ROOT in end.detail) == (FAILED, True)
            return
        assert end.state == SUCCEEDED, place.log()
        uid, gid, groups, names, where, *capabilities = place.log().decode().splitlines()
        assert (int(uid), int(gid), {int(group) for group in groups.split()}) == (
            NOBODY.pw_uid,
            NOBODY.pw_gid,
            {NOBODY.pw_gid},
        )
        assert names.split() == [NOBODY.pw_dir, "nobody", "nobody"]
        assert where == (NOBODY.pw_dir if os.path.isdir(NOBODY.pw_dir) else "/")
        held = [line.split()[1] for line in capabilities if not line.startswith("CapBnd")]
        assert held == ["0" * 16] * 4

    def test_a_run_of_another_user_reads_nothing_of_the_scheduler(self, place):
        place.run(job_of(argv("true")))
        (keeper,) = place.keepers()
        tries = [f"cat {place.folder}/token", f"ls {place.folder}", f"cat /proc/{keeper}/environ", f"kill {keeper}"]
        for number, text in enumerate(tries, 2):
            end = place.run(job_of(sh(text), user="nobody"), attempt=number)
            assert end.state == FAILED
            shown = place.log(attempt=number) if IS_ROOT else end.detail.encode()
            assert (b"denied" in shown or b"permitted" in shown) if IS_ROOT else ONLY_ROOT.encode() in shown
        assert place.keepers() == [keeper]

    @pytest.mark.parametrize(
        ("user", "detail"),
        [("no-such-user", "this machine has no user 'no-such-user'"), ("4000123123", "this machine has no user")],
    )
    def test_an_unknown_user_is_an_error(self, place, user, detail):
        end = place.run(job_of(argv("true"), user=user))
        assert (end.state, detail in end.detail) == (FAILED, True)

    def test_the_user_that_it_runs_as_anyway_needs_no_rights(self, place):
        own = pwd.getpwuid(os.geteuid()).pw_name
        assert place.run(job_of(sh("id -un; echo $USER"), user=own)).state == SUCCEEDED
        assert place.log().decode().split() == [own, own]

    def test_the_user_of_a_step_comes_before_that_of_its_job(self, place):
        own = pwd.getpwuid(os.geteuid()).pw_name
        job = job_of(sh("id -un", "one", user=own), sh("id -un", "two", depends=("one",)), user="nobody")
        end = place.run(job)
        assert end.state == (SUCCEEDED if IS_ROOT else FAILED)
        if IS_ROOT:
            assert (place.log(step="one"), place.log(step="two")) == (own.encode() + b"\n", b"nobody\n")

    def test_no_hook_is_called_when_its_conditions_are_not_met(self, place, folder):
        wants = Condition(ConditionKind.COMMAND, f"id -un > {folder}/asked")
        end = place.run(job_of(argv("true"), preconditions=(wants,), user="nobody"))
        assert end.state == (SUCCEEDED if IS_ROOT else FAILED)
        assert not IS_ROOT or (folder / "asked").read_text() == "nobody\n"

    def test_scripts_and_outputs_reach_a_user_that_sees_none_of_our_files(self, place):
        first = sh("printf hi", "first", output="SAID")
        last = script('id -un\necho "$SAID $0"\n', "last", depends=("first",))
        end = place.run(job_of(first, last, user="nobody"))
        assert end.state == (SUCCEEDED if IS_ROOT else FAILED), end
        assert not IS_ROOT or place.log(step="last") == b"nobody\nhi /proc/self/fd/5\n"

    def test_functions_are_called_where_the_user_reaches_the_interpreter(self, place, folder):
        (folder / "work.py").write_text("import getpass\ndef who(): return getpass.getuser()\n")
        call = of_kind(PythonCall("work:who"), "call", output="WHO", working_dir=str(folder))
        end = place.run(job_of(call, sh("echo $WHO", "last", depends=("call",)), user="nobody"))
        if IS_ROOT and ACCOUNT.reaches(sys.executable):
            assert (end.state, place.log(step="last")) == (SUCCEEDED, b"nobody\n")
        else:
            assert end.state == FAILED
            assert ONLY_ROOT in end.detail or "Permission denied" in end.detail

    def test_a_run_of_another_user_is_ended_with_all_that_it_started(self, place, folder):
        text = f"trap '' TERM; setsid sh -c 'echo $$ > {folder}/apart; sleep 600' & echo $$ > {folder}/own; sleep 600"
        executor = place.open()
        executor.launch(launch(job_of(sh(text), user="nobody")))
        if not IS_ROOT:
            assert ONLY_ROOT in place.end_of(KEY).detail
            return
        pids = [int(written(folder / name)) for name in ("own", "apart")]
        executor.stop(KEY, 1, "enough")
        assert place.end_of(KEY).state == CANCELLED
        assert [pid for pid in pids if is_alive(pid)] == []

    def test_a_program_that_the_user_may_not_run_is_not_run(self, place, folder):
        (folder / "private").mkdir(mode=0o700)
        (folder / "private" / "program").write_text("#!/bin/sh\necho ran\n")
        (folder / "private" / "program").chmod(0o755)
        end = place.run(job_of(argv(f"{folder}/private/program"), user="nobody"))
        assert end.state == FAILED
        assert ("Permission denied" if IS_ROOT else ONLY_ROOT) in end.detail


def test_only_root_changes_the_user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4_711)
    with pytest.raises(StepError, match=ONLY_ROOT):
        find_account("nobody")


class TestBwrap:
    def test_a_sandbox_sees_programs_and_its_folder_and_nothing_of_the_scheduler(self, place, folder):
        (folder / "input").write_text("some input\n")
        text = f"cat input; cat {place.folder}/token; ls -A {place.folder}; ls -d /root /home /srv /proc/[0-9]*"
        text += "; cat /etc/shadow"
        end = place.run(job_of(sh(f"{text}; true"), working_dir=str(folder), **CONFINED))
        assert end.state == SUCCEEDED, (end, place.log())
        shown = place.log().decode()
        assert "some input" in shown
        assert "the token" not in shown
        assert "keeper-0" not in shown
        assert "root:" not in shown
        assert len([line for line in shown.splitlines() if line.startswith("/proc/")]) <= 4
        assert not {"/root", "/home", "/srv"} & set(shown.splitlines())

    def test_a_sandbox_changes_only_what_it_may(self, place, folder):
        (folder / "out").mkdir()
        (folder / "out").chmod(0o777)
        job = job_of(
            sh("touch here; touch out/made; touch /usr/bin/made; touch /made; touch /tmp/mine && echo private"),
            working_dir=str(folder),
            **confined(writable=("out",)),
        )
        place.run(job)
        assert place.log().decode().splitlines()[-1] == "private"
        assert sorted(os.listdir(folder)) == ["out", "state"]
        assert os.listdir(folder / "out") == ["made"]

    @pytest.mark.parametrize("has_network", [False, True])
    def test_the_network_is_there_only_where_it_is_asked_for(self, place, has_network):
        assert place.run(job_of(sh("readlink /proc/self/ns/net"), **confined(network=has_network))).state == SUCCEEDED
        is_same = place.log().decode().strip() == os.readlink("/proc/self/ns/net")
        assert is_same is has_network

    def test_an_exit_code_arrives_as_it_is(self, place):
        end = place.run(job_of(sh("echo out; exit 3"), **CONFINED))
        assert (end.state, end.exit_code, end.detail, place.log()) == (FAILED, 3, "exit code 3", b"out\n")

    def test_scripts_and_outputs_work_in_it_and_secrets_are_masked(self, place):
        first = sh("printf 5", "first", output="SUM")
        last = script('echo "$SUM $SECRET"\n', "last", depends=("first",), env=(("SECRET", Secret("env", "S")),))
        place.open(environ={**os.environ, "S": "hidden away"})
        assert place.run(job_of(first, last, **CONFINED)).state == SUCCEEDED
        assert place.log(step="last") == b"5 ***\n"

    def test_functions_are_called_in_it_where_the_interpreter_can_be_shown(self, place, folder):
        (folder / "work.py").write_text("def add(one, two): return one + two\n")
        call = of_kind(PythonCall("work:add", {"one": 2, "two": 3}), "call", output="SUM", working_dir=str(folder))
        end = place.run(job_of(call, sh("echo $SUM", "last", depends=("call",)), **CONFINED))
        if not IS_ROOT or ACCOUNT.reaches(sys.executable):
            assert (end.state, place.log(step="last")) == (SUCCEEDED, b"5\n"), place.log(step="call")
        else:
            assert NO_SANDBOX in end.detail

    def test_parameters_are_never_part_of_a_command_line(self, place):
        job = job_of(sh('printf "%s" "$P"'), params=(Param("P", "$(id); `id` --bind / / %n"),), **CONFINED)
        assert place.run(job).state == SUCCEEDED
        assert place.log() == b"$(id); `id` --bind / / %n"

    def test_the_program_ends_within_its_grace_and_its_output_is_kept(self, place):
        executor = place.open(replace(SOON, keeper=KeeperSettings(kill_after_us=30 * SECOND, idle_us=2 * SECOND)))
        text = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.05; done"
        executor.launch(launch(job_of(sh(text), **CONFINED)))
        until(lambda: b"ready" in place.log(), "the program to run")
        executor.stop(KEY, 1, "enough")
        end = place.end_of(KEY)
        assert (end.state, end.exit_code) == (CANCELLED, 7)
        assert place.log().endswith(b"bye\n")

    def test_a_sandbox_that_does_not_end_is_killed_with_all_that_it_started(self, place, folder):
        text = "trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & while :; do sleep 1; done"
        end = place.run(job_of(sh(text, env=(("MARK", str(folder)),)), timeout_us=SECOND, **CONFINED))
        assert end.state == TIMED_OUT
        assert marked(str(folder).encode()) == []

    def test_processes_that_remain_when_their_sandbox_is_killed_are_ended(self, place, folder):
        executor = place.open()
        executor.launch(launch(job_of(sh("echo ready; sleep 600", env=(("MARK", str(folder)),)), **CONFINED)))
        until(lambda: b"ready" in place.log(), "the program to run")
        kill(pids_of(place)[-1])
        assert place.end_of(KEY).detail == "killed by SIGKILL"
        assert marked(str(folder).encode()) == []

    def test_a_sandbox_outlives_its_keeper_and_can_be_stopped_by_the_next(self, place, folder):
        executor = place.open()
        executor.launch(launch(job_of(sh("echo ready; sleep 600", env=(("MARK", str(folder)),)), **CONFINED)))
        until(lambda: b"ready" in place.log(), "the program to run")
        place.start_of(KEY)
        kill(place.keepers()[0])
        until(lambda: len(place.keepers()) == 1, "another keeper")
        assert len(marked(str(folder).encode())) >= 2
        executor.stop(KEY, 1, "enough")
        place.reports.wait_until(
            lambda said: any(getattr(one, "detail", "").startswith("its exit code") for one in said)
        )
        assert marked(str(folder).encode()) == []

    def test_limits_hold_inside_of_it(self, place):
        place.open(replace(SOON, keeper=KeeperSettings(files=64, kill_after_us=SECOND // 4, idle_us=2 * SECOND)))
        place.run(job_of(sh("ulimit -n"), **CONFINED))
        assert place.log() == b"64\n"

    @pytest.mark.parametrize(
        ("known", "detail"),
        [
            pytest.param(
                {"readable": ("/no/such",)}, "'/no/such', which does not exist", id="a folder that is missing"
            ),
            pytest.param({"readable": ("/",)}, "which is everything", id="everything"),
            pytest.param({"writable": ("out",)}, "no 'workingDir'", id="a relative one without a folder"),
            pytest.param({"readable": (f"/proc/{os.getpid()}",)}, NO_SANDBOX, id="what cannot be put there"),
        ],
    )
    def test_what_it_cannot_show_is_an_error_and_nothing_runs(self, place, folder, known, detail):
        end = place.run(job_of(sh(f"touch {folder}/ran"), **confined(**known)))
        assert (end.state, detail in end.detail) == (FAILED, True), end
        assert not (folder / "ran").exists()

    def test_a_folder_of_the_scheduler_is_never_shown(self, place, folder):
        (folder / "link").symlink_to(place.folder)
        for number, known in enumerate(({"readable": (str(folder / "link"),)}, {"writable": (str(place.folder),)}), 1):
            end = place.run(job_of(argv("true"), **confined(**known)), attempt=number)
            assert "which contains files of the scheduler" in end.detail

    def test_without_bwrap_nothing_runs(self, place, folder):
        place.open(environ={**os.environ, "PATH": str(folder)})
        end = place.run(job_of(argv("/usr/bin/touch", f"{folder}/ran"), working_dir=str(folder), **CONFINED))
        assert (end.state, "needs the program 'bwrap'" in end.detail) == (FAILED, True), end
        assert not (folder / "ran").exists()

    def test_root_needs_another_user(self, place):
        end = place.run(job_of(sh("true"), sandbox=BWRAP))
        assert end.state == (FAILED if IS_ROOT else SUCCEEDED)
        assert not IS_ROOT or "needs 'user' where Evertick runs as root" in end.detail


# How the programs are called


def marked(value: bytes) -> list[int]:
    """The processes that have this as the value of a variable."""
    found = []
    for name in os.listdir("/proc"):
        try:
            variables = Path("/proc", name, "environ").read_bytes().split(b"\0") if name.isdigit() else []
        except OSError:
            continue
        if b"MARK=" + value in variables:
            found.append(int(name))
    return found


@pytest.fixture
def tools(monkeypatch):
    monkeypatch.setattr(sandbox_words, "_tool", lambda name, *_needs: f"/bin/{name}")


SOMEBODY = Account("somebody", 4_711, 4_712, "/home/somebody", "/bin/sh")


@pytest.mark.usefixtures("tools")
def test_the_schedulers_files_inside_a_shown_folder_are_covered(folder):
    (folder / "state" / "bundles" / "abc").mkdir(parents=True)
    (folder / "evertick.toml").touch()
    confinement = Confinement(
        SOMEBODY,
        BWRAP,
        hidden=(f"{folder}/state", f"{folder}/evertick.toml"),
        shown=(f"{folder}/state/bundles",),
    )
    words = bwrap_words(confinement, Program(("true",)), ("/bin/true",), str(folder), {"HOME": "/home/somebody"})
    text = " ".join(words)
    assert f"--ro-bind {folder} {folder}" in text
    assert text.index(f"--tmpfs {folder}/state") > text.index(f"--ro-bind {folder}")
    assert f"--ro-bind /dev/null {folder}/evertick.toml" in text
    inside = bwrap_words(confinement, Program(("true",)), ("/bin/true",), f"{folder}/state/bundles/abc", {})
    assert f"{folder}/state/bundles/abc" in inside


@pytest.mark.usefixtures("tools")
def test_a_folder_that_holds_a_ledger_is_not_shown(folder):
    confinement = Confinement(SOMEBODY, BWRAP, unshowable=(f"{folder}/ledger.db.lock",))
    with pytest.raises(StepError, match="which contains files of the scheduler"):
        bwrap_words(confinement, Program(("true",)), ("/bin/true",), str(folder), {})
    is_covered = replace(confinement, hidden=(f"{folder}/state",), unshowable=(f"{folder}/state/ledger.db.lock",))
    assert bwrap_words(is_covered, Program(("true",)), ("/bin/true",), str(folder), {})


@pytest.mark.usefixtures("tools")
class TestSystemdRun:
    """How it is called; `tests/systemd` calls it where systemd runs."""

    SANDBOX = Sandbox(SandboxKind.SYSTEMD_RUN, writable=("/tmp",))

    def words(self, inner, env=None, **known):
        confinement = Confinement(SOMEBODY, replace(self.SANDBOX, **known), hidden=("/var/lib/ever tick",))
        return systemd_words(confinement, Program(inner), inner, "/srv", env or {}, Limits(1024, 5_000_000, 64))

    def test_every_protection_is_asked_for(self):
        words = self.words(("/bin/true",))
        for wanted in (
            *("--wait", "--pipe", "--collect", "--uid=4711", "--gid=4712", "--working-directory=/srv"),
            *("--property=NoNewPrivileges=yes", "--property=CapabilityBoundingSet=", "--property=ProtectSystem=strict"),
            *("--property=ProtectHome=tmpfs", "--property=ProtectProc=invisible", "--property=PrivateTmp=yes"),
            *("--property=PrivateNetwork=yes", "--property=InaccessiblePaths=-/var/lib/ever\\x20tick"),
            *("--property=BindPaths=/tmp:/tmp", "--property=BindReadOnlyPaths=/srv:/srv"),
            *("--property=LimitAS=5000000", "--property=LimitNOFILE=64"),
        ):
            assert wanted in words
        assert "--property=PrivateNetwork=no" in self.words(("/bin/true",), network=True)

    def test_values_are_on_no_command_line_and_dollars_stay_dollars(self):
        words = self.words(("/bin/echo", "$HOME ${X} %n"), {"TOKEN": "value"})
        assert words[-3:] == ("--", "/bin/echo", "$$HOME $${X} %n")
        assert "--setenv=TOKEN" in words
        assert not [word for word in words if "value" in word]

    def test_a_machine_without_systemd_refuses(self, monkeypatch, tmp_path):
        monkeypatch.setattr(sandbox_words, "BOOTED_BY_SYSTEMD", str(tmp_path / "none"))
        with pytest.raises(StepError, match="needs a machine booted by systemd"):
            Confinement(SOMEBODY, self.SANDBOX).check()

    def test_what_needs_our_descriptors_is_refused(self):
        with pytest.raises(StepError, match="runs commands only"):
            systemd_words(
                Confinement(SOMEBODY, self.SANDBOX), Program(("sh",), script="x"), ("sh",), None, {}, Limits(1024)
            )

    def test_a_run_fails_here_and_says_why(self, place, folder):
        """A real one: refused for want of systemd, or of the rights to use it."""
        known = {"user": "nobody"} if IS_ROOT else {}
        step = sh(f"echo $S > {folder}/ran", env=(("S", Secret("env", "S")),))
        place.open(environ={**os.environ, "S": "hidden away"})
        end = place.run(job_of(step, sandbox=Sandbox(SandboxKind.SYSTEMD_RUN), **known))
        # Where systemd runs and we are root, the secret is what it refuses.
        reasons = ("needs a machine booted by systemd", "needs Evertick to run as root", "every user")
        assert (end.state, any(reason in end.detail for reason in reasons)) == (FAILED, True), end
        assert not (folder / "ran").exists()
