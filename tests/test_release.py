"""Whether the version is written in one place, and a release that names another is refused."""

from __future__ import annotations

import shutil
import subprocess

from tests import release


def test_every_file_names_the_version_of_the_package():
    wrong = [mistake for mistake in release.mistakes(release.version()) if "CHANGELOG" not in mistake]
    assert wrong == []


def test_another_version_is_refused_in_every_place(tmp_path):
    for path in ("CHANGELOG.md", *release.PLACES):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(release.ROOT / path, tmp_path / path)
    assert len(list(release.mistakes("99.0.0", tmp_path))) == 1 + len(release.PLACES)


def test_a_part_of_the_changelog_is_required_with_its_date(tmp_path):
    for path in release.PLACES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(release.ROOT / path, tmp_path / path)
    (tmp_path / "CHANGELOG.md").write_text(f"# Changes\n\n## {release.version()}\n")
    assert [mistake for mistake in release.mistakes(release.version(), tmp_path) if "CHANGELOG" in mistake]
    (tmp_path / "CHANGELOG.md").write_text(f"# Changes\n\n## {release.version()} (2026-11-18)\n")
    assert list(release.mistakes(release.version(), tmp_path)) == []


def test_figures_of_a_commit_that_is_gone_are_named(tmp_path):
    def git(*words: str) -> str:
        who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
        return subprocess.run(["git", *who, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    known = git("rev-parse", "--short", "HEAD").strip()
    (tmp_path / "docs/results").mkdir(parents=True)
    rows = "".join(f'"commit": "{one}"\n' for one in (known, f"{known} with changes", "0123abc"))
    (tmp_path / "docs/results/faults.json").write_text(rows)
    assert [note.partition(" of commit ")[2] for note in release.unknown_commits(tmp_path)] == [
        "0123abc, which is not in the history.",
        f"{known} with changes, which is not in the history.",
    ]
