"""Does the store in files write what people and other programs expect to read, and keep it to its owner?"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from evertick.errors import SchedulerLockError, StoreUnavailable
from evertick.model.instant import SECOND
from evertick.model.lifecycle import CANCELLED, FAILED, LAUNCHING, RUNNING, SUCCEEDED, TIMED_OUT, SkipReason
from evertick.model.run import RunKey
from evertick.model.steps import StepRecord, steps_text
from evertick.store import Batch, JobRecord
from evertick.stores.files import FilesStore
from evertick.stores.files import fold as files_fold
from evertick.stores.files.codec import seal, unseal
from tests.present import present
from tests.stores.builders import (
    DAY,
    ELEVEN,
    HOUR,
    MINUTE,
    NINE,
    NOON,
    TEN,
    became,
    enter,
    job_in,
    occurrence,
    planned,
    rows,
    skipped,
)
from tests.stores.differential import compare


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "pipelines"


@pytest.fixture
def pipeline(folder):
    place = folder / "daily-report"
    place.mkdir(parents=True)
    (place / "pipeline.yaml").write_text("name: Daily Bug Report\n")
    return place


@pytest.fixture
def store(folder):
    store = FilesStore(folder)
    yield store
    store.close()


def watermarks(folder):
    return json.loads((folder / ".evertick" / "watermarks.json").read_text())


def state(pipeline):
    return json.loads((pipeline / ".schedule-state.json").read_text())


class TestOwnership:
    def test_only_its_owner_may_read_the_ledger(self, folder, pipeline):
        store = FilesStore(folder, fold_bytes=1)
        store.commit(Batch(by="n", jobs=[JobRecord("daily-report", NINE)], entries=[planned(occurrence())]))
        store.close()
        home = folder / ".evertick"
        assert home.stat().st_mode & 0o777 == 0o700
        files = {path.name: path for path in home.iterdir()} | {"state": pipeline / ".schedule-state.json"}
        assert {"ledger.json", "ledger.jsonl", "ledger.jsonl.previous", "watermarks.json", "state"} <= set(files)
        assert {name: path.stat().st_mode & 0o777 for name, path in files.items()} == dict.fromkeys(files, 0o600)

    def test_a_folder_that_was_open_to_others_is_closed_to_them(self, folder):
        (folder / ".evertick").mkdir(parents=True, mode=0o755)
        FilesStore(folder).close()
        assert (folder / ".evertick").stat().st_mode & 0o777 == 0o700

    @pytest.mark.usefixtures("store")
    def test_two_stores_on_one_folder_are_one_too_many(self, folder):
        with pytest.raises(SchedulerLockError, match="another process is using the ledger"):
            FilesStore(folder)

    def test_another_process_is_refused_until_the_owner_ends_however_it_ends(self, folder):
        program = "import sys; from evertick.stores.files import FilesStore; store = FilesStore(sys.argv[1]); "
        program += "print(1, flush=True); input()"
        owner = subprocess.Popen(
            [sys.executable, "-c", program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            assert present(owner.stdout).readline() == b"1\n"
            with pytest.raises(SchedulerLockError):
                FilesStore(folder)
        finally:
            owner.kill()
            owner.communicate()
        FilesStore(folder).close()

    def test_a_closed_store_reports_it_and_may_be_closed_twice(self, folder):
        store = FilesStore(folder)
        store.close()
        store.close()
        with pytest.raises(StoreUnavailable, match="closed"):
            enter(store, planned(occurrence()))

    def test_a_place_that_is_not_a_folder_is_refused_with_a_reason(self, tmp_path):
        (tmp_path / "file").write_text("")
        with pytest.raises(StoreUnavailable, match="Check its owner and the disk"):
            FilesStore(tmp_path / "file")


class TestWatermarkFile:
    def test_the_watermark_file_holds_the_watermark_of_every_job(self, folder, store):
        lifted, held = job_in(4), job_in(4, 1)
        store.commit(
            Batch(
                by="n",
                jobs=[
                    JobRecord("plain", NINE),
                    JobRecord(lifted, NINE),
                    JobRecord(held, NINE, held=True),
                    JobRecord("retired", NINE, retired_at=TEN),
                ],
                floors={4: TEN + 500_000},
            )
        )
        store.flush(ELEVEN)
        assert watermarks(folder) == {
            "version": 1,
            "lastTick": "2026-03-02T11:00:00Z",
            "dags": {
                lifted: {"lastScheduledTime": "2026-03-02T10:00:00.5Z"},
                held: {"lastScheduledTime": "2026-03-02T09:00:00Z"},
                "plain": {"lastScheduledTime": "2026-03-02T09:00:00Z"},
            },
        }

    def test_the_watermark_file_is_written_after_five_seconds_and_at_the_end(self, folder, store):
        seen = []
        for second in range(12):
            now = NINE + second * SECOND
            store.commit(Batch(by="n", jobs=[JobRecord("a", now)], entries=[planned(occurrence(now + 5 * SECOND))]))
            seen.append(watermarks(folder)["lastTick"][-3:-1])
        assert seen == ["00"] * 5 + ["05"] * 5 + ["10"] * 2
        store.close()
        assert watermarks(folder)["lastTick"] == "2026-03-02T09:00:11Z"
        assert watermarks(folder)["dags"] == {"a": {"lastScheduledTime": "2026-03-02T09:00:11Z"}}

    @pytest.mark.parametrize("verb", ["record", "lease"])
    def test_other_verbs_tell_the_time_too(self, folder, store, verb):
        store.commit(Batch(by="n", jobs=[JobRecord("a", NINE)]))
        if verb == "record":
            store.record([became(occurrence(), RUNNING, at=TEN)])
        else:
            store.lease(["bucket:1"], "n", DAY, TEN)
        assert watermarks(folder)["lastTick"] == "2026-03-02T10:00:00Z"

    def test_a_clock_set_back_does_not_stop_it(self, folder, store):
        store.commit(Batch(by="n", jobs=[JobRecord("a", NINE)]))
        store.flush(NOON)
        store.commit(Batch(by="n", jobs=[JobRecord("b", NINE)], entries=[planned(occurrence(TEN + 5 * SECOND))]))
        assert watermarks(folder)["lastTick"] == "2026-03-02T10:00:00Z"
        assert set(watermarks(folder)["dags"]) == {"a", "b"}

    @pytest.mark.parametrize("fold_bytes", [1, 1 << 20], ids=["in a snapshot", "in the journal"])
    def test_a_start_without_work_does_not_turn_the_time_back(self, folder, fold_bytes):
        store = FilesStore(folder, fold_bytes)
        store.commit(Batch(by="n", jobs=[JobRecord("a", NINE)]))
        store.lease(["bucket:1"], "n", DAY, TEN)
        store.close()
        before = watermarks(folder)
        FilesStore(folder).close()
        assert watermarks(folder) == before
        assert before["lastTick"] == "2026-03-02T10:00:00Z"

    def test_an_unknown_last_tick_is_left_out(self, folder, store):
        store.commit(Batch(by="n", jobs=[JobRecord("a", NINE)]))
        store.close()
        assert set(watermarks(folder)) == {"version", "dags"}

    def test_without_a_ledger_it_is_where_the_jobs_begin(self, folder):
        home = folder / ".evertick"
        home.mkdir(parents=True)
        dags = {"etl": {}, "a": {"lastScheduledTime": "2026-03-02T10:00:00+01:00"}}
        text = {"version": 1, "lastTick": "2026-03-02T10:00:00Z", "dags": dags}
        (home / "watermarks.json").write_text(json.dumps(text))
        for _ in range(2):
            store = FilesStore(folder)
            assert list(store.load().jobs) == [JobRecord("a", NINE)]
            assert list(store.load().notices) == []
            store.close()

    def test_with_a_ledger_it_is_not_read(self, folder, store):
        store.commit(Batch(by="n", jobs=[JobRecord("a", NINE)]))
        store.close()
        (folder / ".evertick" / "watermarks.json").write_text('{"dags": {"b": {"lastScheduledTime": "?"}}}')
        again = FilesStore(folder)
        assert list(again.load().jobs) == [JobRecord("a", NINE)]
        again.close()
        assert watermarks(folder)["dags"] == {"a": {"lastScheduledTime": "2026-03-02T09:00:00Z"}}

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("", id="empty"),
            pytest.param("{", id="torn"),
            pytest.param("[1]", id="a list"),
            pytest.param('{"version": 7, "dags": {}}', id="another version"),
            pytest.param('{"dags": {"a": {"lastScheduledTime": "yesterday"}}}', id="no instant"),
            pytest.param('{"dags": {"a": {"lastScheduledTime": "2026-03-02T09:00:00"}}}', id="no offset"),
            pytest.param('{"dags": {"a": 7}}', id="no map"),
        ],
    )
    def test_an_unreadable_watermark_file_is_set_aside_and_reported(self, folder, text):
        home = folder / ".evertick"
        home.mkdir(parents=True)
        (home / "watermarks.json").write_text(text)
        for _ in range(2):
            store = FilesStore(folder)
            assert list(store.load().jobs) == []
            assert "set aside" in store.load().notices[0]
            store.close()
        (aside,) = home.glob("watermarks.json.unreadable-*")
        assert aside.read_text() == text


class TestStateFile:
    KEY = occurrence(job="daily-report")

    def run(self, store, at, state, seconds=155, **known):
        key = RunKey("daily-report", at)
        enter(store, planned(key))
        end = at + seconds * SECOND
        store.record([became(key, RUNNING, started_at=at)])
        store.record([became(key, state, at=end, finished_at=end, **known)])

    def test_the_state_file_tells_what_a_pipeline_has_done(self, store, pipeline):
        store.commit(Batch(by="n", jobs=[JobRecord("daily-report", NINE)]))
        self.run(store, NINE, FAILED, 5, detail="exit 1", attempt=2)
        self.run(store, TEN, SUCCEEDED, attempt=1)
        store.show_next_runs(ELEVEN, {"daily-report": NOON, "other": NOON})
        told = state(pipeline)
        schedule_id = told.pop("scheduleId")
        assert told == {
            "version": 1,
            "pipelineId": "daily-report",
            "status": "idle",
            "enabled": True,
            "lastRun": {
                "startedAt": "2026-03-02T10:00:00.000Z",
                "completedAt": "2026-03-02T10:02:35.000Z",
                "success": True,
                "error": None,
            },
            "nextRun": "2026-03-02T12:00:00.000Z",
            "stats": {
                "totalRuns": 2,
                "successfulRuns": 1,
                "failedRuns": 1,
                "lastFailure": "2026-03-02T09:00:05.000Z",
                "averageDuration": 80_000,
            },
            "history": [
                {
                    "startedAt": "2026-03-02T10:00:00.000Z",
                    "completedAt": "2026-03-02T10:02:35.000Z",
                    "success": True,
                    "duration": 155_000,
                },
                {
                    "startedAt": "2026-03-02T09:00:00.000Z",
                    "completedAt": "2026-03-02T09:00:05.000Z",
                    "success": False,
                    "duration": 5_000,
                    "error": "exit 1",
                    "retryAttempt": 1,
                },
            ],
        }
        name, _, suffix = schedule_id.rpartition("-")
        assert name == "daily-report"
        assert len(bytes.fromhex(suffix)) == 3

    def test_no_output_of_a_step_stops_it(self, store, pipeline):
        self.run(
            store, NINE, SUCCEEDED, attempt=1, steps=steps_text([StepRecord("a", "succeeded", output="[" * 4_000)])
        )
        store.flush(TEN)
        assert state(pipeline)["stats"]["successfulRuns"] == 1

    @pytest.mark.parametrize(
        ("record", "run", "status"),
        [
            pytest.param({}, None, "idle", id="nothing yet"),
            pytest.param({}, LAUNCHING, "running", id="launching"),
            pytest.param({}, RUNNING, "running", id="running"),
            pytest.param({}, SUCCEEDED, "idle", id="succeeded"),
            pytest.param({}, CANCELLED, "idle", id="cancelled is not an error"),
            pytest.param({}, TIMED_OUT, "error", id="the last run timed out"),
            pytest.param({"held": True, "paused_at": NINE}, FAILED, "paused", id="paused"),
            pytest.param({"held": True}, SUCCEEDED, "disabled", id="disabled"),
            pytest.param({"held": True, "error": "no zone"}, SUCCEEDED, "error", id="a bad definition"),
            pytest.param({"retired_at": NINE}, SUCCEEDED, "disabled", id="retired"),
        ],
    )
    def test_the_status_file_has_the_state_of_the_job(self, store, pipeline, record, run, status):
        store.commit(Batch(by="n", jobs=[JobRecord("daily-report", NINE, **record)]))
        if run is not None:
            enter(store, planned(self.KEY))
            store.record([became(self.KEY, run)])
        store.flush(TEN)
        assert (state(pipeline)["status"], state(pipeline)["enabled"]) == (status, status != "disabled")

    def test_a_skip_is_not_a_run(self, store, pipeline):
        enter(store, skipped(self.KEY, SkipReason.MISSED))
        store.commit(Batch(by="n", jobs=[JobRecord("daily-report", NINE)]))
        store.flush(TEN)
        assert (state(pipeline)["lastRun"], state(pipeline)["stats"]["totalRuns"]) == (None, 0)

    def test_an_entry_that_waits_is_the_next_run(self, store, pipeline):
        enter(store, planned(RunKey("daily-report", TEN)), planned(RunKey("daily-report", NOON)))
        store.flush(NINE)
        assert state(pipeline)["nextRun"] == "2026-03-02T10:00:00.000Z"

    def test_a_next_run_that_has_passed_is_not_reported_forever(self, store, pipeline):
        store.commit(Batch(by="n", jobs=[JobRecord("daily-report", NINE)]))
        store.show_next_runs(NINE, {"daily-report": TEN})
        assert state(pipeline)["nextRun"] == "2026-03-02T10:00:00.000Z"
        self.run(store, TEN, SUCCEEDED)
        store.flush(ELEVEN)
        assert state(pipeline)["nextRun"] is None

    @pytest.mark.slow
    def test_its_history_is_the_last_fifty_and_outlives_compaction_and_restarts(self, folder, pipeline):
        store = FilesStore(folder, fold_bytes=8_000)
        for number in range(60):
            self.run(store, NINE + number * MINUTE, SUCCEEDED if number % 3 else FAILED, seconds=1)
            if number % 20 == 7:
                store.compact({}, NINE + number * MINUTE, 100)
                store.close()
                store = FilesStore(folder, fold_bytes=8_000)
        store.close()
        told = state(pipeline)
        assert len(told["history"]) == 50
        assert told["history"][0]["startedAt"] == "2026-03-02T09:59:00.000Z"
        assert (told["stats"]["totalRuns"], told["stats"]["successfulRuns"], told["stats"]["failedRuns"]) == (
            60,
            40,
            20,
        )

    def test_a_repeated_end_is_counted_once(self, store, pipeline):
        enter(store, planned(self.KEY))
        for _ in range(3):
            store.record([became(self.KEY, SUCCEEDED, fence=1)])
        store.flush(TEN)
        assert state(pipeline)["stats"]["totalRuns"] == 1

    def test_what_a_predecessor_counted_is_taken_over_once(self, folder, pipeline):
        theirs = {
            "version": 1,
            "scheduleId": "daily-report-a1b2c3",
            "stats": {"totalRuns": 156, "successfulRuns": 152, "failedRuns": 4, "lastFailure": None},
            "history": [
                {
                    "startedAt": "2026-03-01T09:00:00.000Z",
                    "completedAt": "2026-03-01T09:02:35.000Z",
                    "success": True,
                    "duration": 155_000,
                }
            ],
        }
        (pipeline / ".schedule-state.json").write_text(json.dumps(theirs))
        for number in range(3):
            store = FilesStore(folder)
            self.run(store, NINE + number * HOUR, SUCCEEDED)
            store.close()
        told = state(pipeline)
        assert (told["scheduleId"], told["stats"]["totalRuns"]) == ("daily-report-a1b2c3", 159)
        assert told["history"][3:] == theirs["history"]

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"stats": 3}', '{"history": [{"completedAt": "x"}]}'])
    def test_a_garbled_file_of_a_predecessor_is_replaced(self, folder, pipeline, text):
        (pipeline / ".schedule-state.json").write_text(text)
        store = FilesStore(folder)
        self.run(store, NINE, SUCCEEDED)
        store.close()
        assert state(pipeline)["stats"]["totalRuns"] == 1

    @pytest.mark.parametrize("job_id", ["../outside", "..", ".", "a/b", "/abs"])
    def test_a_name_does_not_lead_out_of_the_folder(self, folder, store, job_id):
        for place in (folder.parent / "outside", folder.parent, folder, folder / "a" / "b"):
            place.mkdir(parents=True, exist_ok=True)
            (place / "pipeline.yaml").write_text("")
        store.commit(Batch(by="n", jobs=[JobRecord(job_id, NINE)]))
        store.flush(NINE)
        assert list(folder.parent.rglob(".schedule-state.json")) == []

    def test_a_job_without_a_pipeline_has_none(self, folder, store):
        store.commit(Batch(by="n", jobs=[JobRecord("plain", NINE)]))
        store.flush(NINE)
        assert not (folder / "plain").exists()

    def test_files_that_cannot_be_written_are_reported_and_retried(self, pipeline, store):
        blocked = pipeline / ".schedule-state.json"
        blocked.mkdir()
        store.commit(Batch(by="n", jobs=[JobRecord("daily-report", NINE)]))
        store.flush(NINE)
        assert "out of date" in store.load().notices[0]
        blocked.rmdir()
        store.flush(NINE)
        assert list(store.load().notices) == []
        assert state(pipeline)["status"] == "idle"


class TestFolding:
    @pytest.mark.slow
    @pytest.mark.parametrize("seed", range(4))
    def test_a_random_history_with_many_generations_is_answered_as_by_the_reference(self, folder, seed):
        opened = [FilesStore(folder, fold_bytes=5_000)]

        def reopen():
            opened[-1].close()
            opened.append(FilesStore(folder, fold_bytes=5_000))
            return opened[-1]

        compare(opened[0], reopen, seed, steps=300)
        assert (folder / ".evertick" / "ledger.json.previous").exists()
        opened[-1].close()

    def test_the_journal_stays_short_and_the_ledger_whole(self, folder):
        store = FilesStore(folder, fold_bytes=2_000)
        keys = [occurrence(NINE + n) for n in range(200)]
        for key in keys:
            enter(store, planned(key))
        store.close()
        home = folder / ".evertick"
        assert (home / "ledger.jsonl").stat().st_size < 2 * (home / "ledger.json").stat().st_size
        again = FilesStore(folder)
        assert [line.key for line in rows(again)] == keys
        again.close()

    @pytest.mark.parametrize("lines", [1, 7, 1_000])
    def test_a_snapshot_made_in_parts_is_of_one_moment_and_the_journal_has_the_rest(self, folder, lines, monkeypatch):
        monkeypatch.setattr(files_fold, "LINES", lines)
        store = FilesStore(folder, fold_bytes=2_000)
        home = folder / ".evertick"
        moments = []
        for number in range(120):
            enter(store, planned(occurrence(NINE + number)), by=str(number))
            expected = rows(store)
            place = folder.parent / "copy"
            if number % 10 == 9:  # as a crash at this point leaves it
                shutil.copytree(folder, place)
                again = FilesStore(place)
                assert rows(again) == expected
                again.close()
                shutil.rmtree(place)
            moments.append(((home / "ledger.json").exists(), store._folding is not None))
        assert moments[-1][0]
        assert any(is_folding for _, is_folding in moments) is (lines < 1_000)
        store.close()
        assert list(home.glob("*.tmp-*")) == []
        again = FilesStore(folder, fold_bytes=2_000)
        assert rows(again) == expected
        again.close()

    def test_a_snapshot_is_written_as_a_line_is_sealed(self, folder):
        store = FilesStore(folder)
        enter(store, *(planned(occurrence(NINE + number)) for number in range(5)))
        store._fold()
        document = present(unseal((folder / ".evertick" / "ledger.json").read_bytes().rstrip(b"\n")))
        assert (
            seal({name: value for name, value in document.items() if name not in ("sum", "version")})
            == (folder / ".evertick" / "ledger.json").read_bytes()
        )
        store.close()

    def test_a_journal_that_was_never_folded_is_folded_at_a_start(self, folder):
        store = FilesStore(folder, fold_bytes=1 << 20)
        enter(store, *(planned(occurrence(NINE + number)) for number in range(50)))
        expected = rows(store)
        store.close()
        again = FilesStore(folder, fold_bytes=1_000)
        assert ((folder / ".evertick" / "ledger.jsonl").stat().st_size, rows(again)) == (0, expected)
        again.close()

    def test_drafts_of_a_process_that_died_are_swept(self, folder):
        FilesStore(folder).close()
        draft = folder / ".evertick" / "ledger.json.tmp-1"
        draft.write_text("half")
        FilesStore(folder).close()
        assert not draft.exists()

    def test_a_ledger_from_a_newer_version_is_refused_and_left_alone(self, folder, store):
        from evertick.errors import SchemaTooNew
        from evertick.stores.files import codec as files_codec

        enter(store, planned(occurrence()))
        store.close()
        journal = folder / ".evertick" / "ledger.jsonl"
        future = files_codec.seal({"seq": 2, "version": files_codec.VERSION + 1, "brand": "new"})
        journal.write_bytes(journal.read_bytes() + future)
        before = {path.name: path.read_bytes() for path in journal.parent.iterdir()}
        with pytest.raises(SchemaTooNew, match="Install that version again"):
            FilesStore(folder)
        assert {path.name: path.read_bytes() for path in journal.parent.iterdir()} == before

    def test_a_symbolic_link_is_not_followed(self, folder, tmp_path):
        home = folder / ".evertick"
        home.mkdir(parents=True)
        target = tmp_path / "target"
        target.write_text("")
        os.symlink(target, home / "ledger.jsonl")
        with pytest.raises(StoreUnavailable):
            FilesStore(folder)
        assert target.read_text() == ""
