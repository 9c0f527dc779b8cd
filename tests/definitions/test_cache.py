"""Whether a cached definition equals a parsed one, and when the cache is not used."""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path

import pytest

from evertick.definitions import cache as caching
from evertick.definitions import source as sources
from evertick.definitions.cache import DefinitionCache, meaningful_settings
from evertick.definitions.source import digest_of, load_folder, parse_source, read_source
from evertick.definitions.watch import FolderWatch
from evertick.model.definition import definition_text
from evertick.settings import Settings
from tests.test_architecture import PACKAGE, ROOT

EXAMPLES = ROOT / "examples"


@pytest.fixture
def jobs(tmp_path):
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "a.yaml").write_text("schedule: '0 9 * * *'\ncommand: one\ncatchupWindow: 2h\n")
    (folder / "b.yaml").write_text("schedule: {stop: '0 9 * * *'}\ncommand: two\n")
    (folder / "sync").mkdir()
    (folder / "sync" / "pipeline.yaml").write_text("input: {a: [1, 2.5, true, null]}\n")
    return folder


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "definitions.cache"


def kept(folder: Path, cache: Path, settings: Settings | None = None) -> FolderWatch:
    """A folder whose cache was written as a scheduler does it."""
    watch = FolderWatch(folder, settings, cache=cache, keeps_cache=True)
    watch.load()
    watch._keep_parsed()
    return watch


def refuse_to_parse(monkeypatch) -> None:
    monkeypatch.setattr(sources, "parse_source", lambda file, *_: pytest.fail(f"{file} was parsed again"))


def test_nothing_is_parsed_again_and_all_is_as_before(jobs, cache, monkeypatch):
    before = kept(jobs, cache).snapshot()
    refuse_to_parse(monkeypatch)
    after = FolderWatch(jobs, cache=cache).load()
    assert dict(after.jobs) == dict(before.jobs)
    for job_id, job in before.jobs.items():
        assert dict(after.jobs[job_id].origins) == dict(job.origins)
        assert dict(after.jobs[job_id].written) == dict(job.written)
        assert after.jobs[job_id].definition == job.definition
    assert [str(one) for told in after.warnings.values() for one in told] == [
        str(one) for told in before.warnings.values() for one in told
    ]
    assert after.warnings


@pytest.mark.parametrize("folder", sorted({path.parent for path in EXAMPLES.rglob("*.yaml")}), ids=str)
def test_every_example_comes_back_as_it_is(folder, cache):
    settings = Settings()
    files = {
        str(path): (digest_of(found), parse_source(path, found, settings))
        for path in sorted(folder.glob("*.yaml"))
        if not isinstance(found := read_source(path, settings), Exception)
    }
    DefinitionCache(cache, str(folder), settings).write(files)
    expected = {file: found for file, found in files.items() if not found[1].errors}
    cached = DefinitionCache(cache, str(folder), settings).read()
    assert {file: (digest, parsed.job) for file, (digest, parsed) in cached.items()} == {
        file: (digest, parsed.job) for file, (digest, parsed) in expected.items()
    }


def test_a_command_reads_the_cache_of_a_scheduler_that_names_the_folder_in_another_way(jobs, cache, monkeypatch):
    kept(jobs, cache)
    monkeypatch.chdir(jobs)
    expected = load_folder(".")
    refuse_to_parse(monkeypatch)
    found = load_folder(".", cache=cache)
    assert dict(found.jobs) == dict(expected.jobs)
    assert {job.file for job in found.jobs.values()} == {"a.yaml", "b.yaml", "sync/pipeline.yaml"}
    assert found.jobs["a"].origins == expected.jobs["a"].origins


def test_a_file_that_changed_is_parsed(jobs, cache):
    kept(jobs, cache)
    (jobs / "a.yaml").write_text("command: other\n")
    assert "command: other" in definition_text(FolderWatch(jobs, cache=cache).load().jobs["a"])


def refuse_to_read(monkeypatch) -> None:
    monkeypatch.setattr(sources, "read_source", lambda file, *_: pytest.fail(f"{file} was read again"))


@pytest.mark.parametrize("keep", [kept, lambda jobs, cache: load_folder(jobs, cache=cache, keeps_cache=True)])
def test_a_file_with_the_stamp_of_its_cached_content_is_not_read(jobs, cache, monkeypatch, keep):
    monkeypatch.setattr(sources, "DOUBT_NS", -1)
    keep(jobs, cache)
    expected = load_folder(jobs)
    refuse_to_read(monkeypatch)
    assert dict(load_folder(jobs, cache=cache).jobs) == dict(expected.jobs)


def test_a_file_that_has_just_changed_is_read_again(jobs, cache):
    load_folder(jobs, cache=cache, keeps_cache=True)
    reread = DefinitionCache(cache, str(jobs), Settings(), os.path.join(jobs, ""))
    assert len(reread.read()) == 3
    assert reread.stamps == {}


def test_the_stamps_are_kept_once_they_vouch_for_the_content(jobs, cache, monkeypatch):
    load_folder(jobs, cache=cache, keeps_cache=True)
    monkeypatch.setattr(sources, "DOUBT_NS", -1)
    load_folder(jobs, cache=cache, keeps_cache=True)
    refuse_to_read(monkeypatch)
    assert len(load_folder(jobs, cache=cache).jobs) == 3


def test_a_file_that_was_replaced_is_read_although_size_and_time_are_the_same(jobs, cache, monkeypatch):
    monkeypatch.setattr(sources, "DOUBT_NS", -1)
    kept(jobs, cache)
    file, before = jobs / "a.yaml", (jobs / "a.yaml").stat()
    file.write_text(file.read_text().replace("one", "six"))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size
    assert "command: six" in definition_text(load_folder(jobs, cache=cache).jobs["a"])


def test_what_many_files_have_in_common_is_written_once_and_comes_back(tmp_path, cache):
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(20):
        rule = ("catchupWindow: 2h\n", "maxRetries: 2\n", "")[number % 3]
        (folder / f"job{number}.yaml").write_text(f"schedule: '{number} 3 * * *'\ncommand: x\n{rule}")
    expected = load_folder(folder, cache=cache, keeps_cache=True).jobs
    found = load_folder(folder, cache=cache).jobs
    assert {job_id: list(job.origins.items()) for job_id, job in found.items()} == {
        job_id: list(job.origins.items()) for job_id, job in expected.items()
    }


def test_a_file_with_an_error_is_not_kept(jobs, cache):
    (jobs / "bad.yaml").write_text("comand: x\n")
    kept(jobs, cache)
    assert "bad.yaml" not in cache.read_text()
    assert len(FolderWatch(jobs, cache=cache).load().errors) == 1


def test_equal_values_are_shared(jobs, cache):
    kept(jobs, cache)
    found = FolderWatch(jobs, cache=cache).load().jobs
    assert found["a"].routing is found["b"].routing


def read(cache: Path, folder: Path, settings: Settings | None = None) -> int:
    return len(DefinitionCache(cache, str(folder), settings or Settings()).read())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_cache_that_others_may_use_counts_for_nothing(jobs, cache, mode):
    kept(jobs, cache)
    assert read(cache, jobs) == 3
    cache.chmod(mode)
    assert read(cache, jobs) == 0


def test_a_cache_of_another_user_or_behind_a_link_counts_for_nothing(jobs, cache, monkeypatch, tmp_path):
    kept(jobs, cache)
    link = tmp_path / "link"
    link.symlink_to(cache)
    assert read(link, jobs) == 0
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    assert read(cache, jobs) == 0


def test_the_cache_is_private(jobs, cache):
    os.umask(os.umask(0o077))
    kept(jobs, cache)
    assert cache.stat().st_mode & 0o777 == 0o600


def test_other_settings_another_place_or_other_code_make_it_stale(jobs, cache, monkeypatch, tmp_path):
    kept(jobs, cache)
    assert read(cache, jobs, Settings(timezone="Europe/Berlin")) == 0
    assert read(cache, tmp_path) == 0
    monkeypatch.setattr(caching, "_code_stamps", lambda: iter(["another version"]))
    assert read(cache, jobs) == 0


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda text: text[: len(text) // 2], id="cut off"),
        pytest.param(lambda text: text.replace("Job", "Jab"), id="a class that is not known"),
        pytest.param(lambda text: text.replace('"tuple",', '"tuple",99999,'), id="a number that is not there"),
        pytest.param(lambda text: text.splitlines(keepends=True)[0] + "{}\n", id="no line of ours"),
        pytest.param(lambda text: text + json.dumps(["00", ["x"], 0, 0]) + "\n", id="a value that is no file"),
        pytest.param(lambda _text: "", id="empty"),
        pytest.param(lambda text: text.splitlines(keepends=True)[0] + "[" * 100_000, id="nested without end"),
    ],
)
def test_a_spoiled_cache_counts_for_nothing(jobs, cache, spoil):
    kept(jobs, cache)
    cache.write_text(spoil(cache.read_text()))
    assert read(cache, jobs) == 0
    assert sorted(FolderWatch(jobs, cache=cache).load().jobs) == ["a", "b", "sync"]


def test_a_folder_that_cannot_be_written_has_no_cache_and_works(jobs, tmp_path):
    watch = kept(jobs, tmp_path / "nowhere" / "definitions.cache")
    assert sorted(watch.snapshot().jobs) == ["a", "b", "sync"]


def test_the_key_has_every_setting_that_the_parser_reads():
    """A setting that the parser reads and the key leaves out would be ignored until the files change."""
    read: set[str] = set()
    for path in [PACKAGE / "definitions" / "parser.py", *(PACKAGE / "definitions" / "fields").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "settings":
                read.add(node.attr)
    known = {
        "limits",
        "timezone",
        "timezone_origin",
        "jobs",
        "origins",
        "queues",
        "notifications",
        "calendars",
        "blackouts",
    }
    assert read == known
    text = ast.dump(ast.parse((PACKAGE / "definitions" / "cache.py").read_text()))
    assert all(f"attr='{name}'" in text for name in known)
    assert len(meaningful_settings(Settings())) == 9


def test_a_command_writes_the_cache_that_an_upgrade_left_behind(jobs, cache, monkeypatch):
    before = load_folder(jobs, cache=cache, keeps_cache=True)
    refuse_to_parse(monkeypatch)
    assert dict(load_folder(jobs, cache=cache).jobs) == dict(before.jobs)
    assert dict(FolderWatch(jobs, cache=cache).load().jobs) == dict(before.jobs)


def test_a_command_that_may_not_keep_the_cache_or_finds_it_whole_leaves_it(jobs, cache):
    load_folder(jobs, cache=cache)
    assert not cache.exists()
    load_folder(jobs, cache=cache, keeps_cache=True)
    written = cache.stat().st_ino, cache.stat().st_mtime_ns
    load_folder(jobs, cache=cache, keeps_cache=True)
    assert (cache.stat().st_ino, cache.stat().st_mtime_ns) == written
