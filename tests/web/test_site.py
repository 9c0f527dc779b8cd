"""Whether the page's files are found, told apart and shipped."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from evertick.web.site import STATIC, read_site
from tests.present import present
from tests.web.conftest import ROOT

WEB = ROOT / "web"


@pytest.fixture
def built(tmp_path):
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html>")
    (tmp_path / "assets/index-Ab12.js").write_text("1")
    (tmp_path / "notes.md").write_text("not ours to show")
    return tmp_path


def test_without_a_build_no_page_is_served(tmp_path):
    assert read_site(tmp_path) is None


def test_a_file_has_its_type_and_a_mark_of_its_content(built):
    found = present(present(read_site(built)).read("/assets/index-Ab12.js"))
    assert (found.body, found.media_type) == (b"1", "text/javascript; charset=utf-8")
    assert found.etag != present(read_site(built)).index.etag


def test_only_what_carries_a_hash_is_cached_forever(built):
    site = present(read_site(built))
    assert present(site.read("assets/index-Ab12.js")).is_immutable
    assert not site.index.is_immutable


@pytest.mark.parametrize("path", ["../site.py", "/etc/passwd", "assets/../../site.py", "notes.md", "", "assets"])
def test_nothing_but_the_pages_own_files_is_ever_read(built, path):
    assert present(read_site(built)).read(path) is None


def test_the_lock_file_names_no_registry_and_every_package_has_its_hash():
    packages = json.loads((WEB / "package-lock.json").read_text())["packages"]
    assert not [name for name, one in packages.items() if "resolved" in one]
    assert not [name for name, one in packages.items() if name and "integrity" not in one]


@pytest.mark.slow
def test_the_first_script_is_named_by_its_content_and_comes_before_all_others():
    """A browser keeps it for ever: it is read before the first paint, and must not cost a round trip."""
    site = present(read_site(STATIC))
    scripts = re.findall(r'<script [^>]*src="(/assets/[^"]+)"', site.index.body.decode())
    assert [re.sub(r"-[\w-]{8}\.js$", "", script) for script in scripts] == ["/assets/first", "/assets/index"]
    assert all(present(site.read(script)).is_immutable for script in scripts)


def test_no_script_or_style_stands_in_the_shell_itself():
    text = (WEB / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\bon\w+=", text) == []


@pytest.mark.slow
def test_the_built_page_names_no_other_server():
    assert STATIC.is_dir(), "the page is not built. Next: make web"
    text = "".join(path.read_text() for path in sorted(STATIC.rglob("*")) if path.suffix in (".js", ".css", ".html"))
    assert set(re.findall(r"https?://[\w.-]+", text)) <= {"http://www.w3.org"}


@pytest.mark.slow
def test_what_is_pure_in_the_page_holds(tmp_path):
    node = shutil.which("node") or str(ROOT / ".venv/bin/node")
    done = subprocess.run([node, "dev/unit.mjs"], cwd=WEB, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
