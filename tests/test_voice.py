"""Does the check of our texts find what it looks for?"""

from __future__ import annotations

import pytest

from tests import voice


def test_a_phrase_is_found_with_its_place_and_what_to_write(tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text("Jobs.\nList the jobs and how they stand.\n")
    monkeypatch.setattr(voice, "ROOT", tmp_path)
    monkeypatch.setattr(voice, "texts_in", lambda _places: ["page.md"])
    assert list(voice.violations(("docs",), voice.PHRASES)) == ["page.md:2: 'how they stand'. Write: the status"]


@pytest.mark.parametrize("place", ["src/evertick/errors.py", "docs/glossary.md", "web/src/app.tsx", "README.md"])
def test_the_texts_of_all_rooms_are_looked_at(place):
    assert place in voice.texts_in(voice.EVERYWHERE)
