"""Whether docs/compare.md says the same about every scheduler, and where each claim comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PAGE = (Path(__file__).parent.parent / "docs/compare.md").read_text()
PEERS = [
    "Dagu",
    "XXL-JOB",
    "PowerJob",
    "APScheduler 3",
    "APScheduler 4",
    "Celery beat",
    "Airflow",
    "Temporal",
    "Kubernetes CronJob",
    "systemd timers",
]
COMPARED = ["Evertick", *PEERS]


def sections() -> Iterator[tuple[str, list[list[str]]]]:
    """Each heading, with the rows of its table as cells, without header and rule."""
    for part in PAGE.split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        rows = [
            [cell.strip() for cell in line.strip("|").split(" | ")]
            for line in text.splitlines()
            if line.startswith("|")
        ]
        yield heading, rows[2:]


SECTIONS = dict(sections())
TOPICS = [heading for heading in SECTIONS if heading not in ("Which one to use", "What the others do better")]


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_row_has_a_source(heading):
    for row in SECTIONS[heading]:
        assert len(row) == 3, row
        about, _, source = row
        links = re.findall(r"\]\(([^)\s]+)\)", source)
        assert links, f"no source: {row}"
        ours = about == "Evertick" or row[1] == "Evertick"
        # Evertick is shown by its own pages, which other tests check; the others by what they publish themselves.
        assert all(link.startswith("https://") != ours for link in links), row


@pytest.mark.parametrize("heading", TOPICS)
def test_every_topic_is_about_every_scheduler(heading):
    assert [row[0] for row in SECTIONS[heading]] == COMPARED


def test_every_other_scheduler_does_something_better():
    assert [row[0] for row in SECTIONS["What the others do better"]] == PEERS
    assert len(TOPICS) >= 9
