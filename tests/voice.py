"""Which phrases our texts must not contain, and where they do: `python -m tests.voice`, part of `make lint`.

The list is short on purpose: phrases that readers had to read twice. Add one when you have removed it everywhere.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
EVERYWHERE = ("src", "web/src", "docs", "examples", "*.md")
PROSE = ("docs", "examples", "README.md", "CONTRIBUTING.md", "SECURITY.md")
KINDS = frozenset({".html", ".md", ".py", ".toml", ".ts", ".tsx", ".yaml"})
# History; and pages that are generated from texts in src.
LEFT_OUT = ("CHANGELOG.md", "docs/reference/")

PHRASES = {
    r"how (it|they|things|jobs) stands?": "the status",
    r"stands? so": "has that status",
    r"made up for": "corrected, replaced",
    r"in vain": "timed out, without a result",
    r"the (most|least) is": "the maximum is, the minimum is",
    r"known are": "known fields: ...",
    r"no channel of": "unknown channel",
    r"is no evertick": "is not an Evertick server",
    r"not good, or no longer": "is invalid or has expired",
    r"with a slip": "misspelled",
    r"is being ended": "is stopping",
    r"what shall become of": "name the choice",
    r"is said to be": "name who reports it",
    r"so many of": "how many",
    r"waited for in vain": "waits until ...",
    r"whom the settings name": "the configured receivers",
    r"run again what a run was for": "re-run a past run",
    r"at work when its time came": "was running when it was due",
    r"entered ahead, but": "planned ahead, but",
    r"took its place": "replaced it",
    r"there is no (job|run|token|event) '": "unknown job '...'",
    r"is no (role|name for|id of)": "unknown role, invalid name",
    r"a fault of evertick": "an internal error",
    r"whoever may": "everyone who can",
    r"has no place in it": "is not allowed in it",
    r"is not put in": "is not expanded",
    r"cannot stand here": "is not allowed here",
    r"not written here": "must not be in the file",
    r"is that of the": "belongs to the",
    r"of which this evertick": "say what this version can do",
    r"the (job's|effective) policy": "the job's rule, by its name",
    r"(overlap|catch-up) policy": "overlap rule, catch-up rule",
    r"somebody": "name the actor: a user, another node",
    r"whoever": "name the actor",
    r"is told": "receives, is notified",
    r"what (became|becomes) of": "the outcome of",
    r"for ever": "until it is stopped, forever",
    r"said again": "repeated, a duplicate",
    r"belongs? into": "belongs in, must be in",
}
"""What is not written anywhere, and what is written instead."""

PROSE_PHRASES = {
    r"what of": "say what is asked",
    r"carr(y|ies|ied) (it )?out": "run, execute",
    r"or the like": "name it, or leave it out",
    r"each list is that": "say what is listed",
    r"misfire (in|of) other": "the names of other schedulers are in docs/migrating",
}
"""What the documentation does not say besides."""


def main() -> int:
    found = [*violations(EVERYWHERE, PHRASES), *violations(PROSE, PROSE_PHRASES)]
    sys.stderr.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


def violations(places: tuple[str, ...], phrases: dict[str, str]) -> Iterator[str]:
    patterns = {re.compile(rf"\b{phrase}\b", re.IGNORECASE): instead for phrase, instead in phrases.items()}
    # Whether a file has a phrase at all is found fifteen times faster in its text in lower case than line by line.
    likely = {re.compile(phrase): pattern for phrase, pattern in zip(phrases, patterns, strict=True)}
    for path in texts_in(places):
        text = (ROOT / path).read_text(encoding="utf-8")
        lowered = text.lower()
        there = [pattern for phrase, pattern in likely.items() if phrase.search(lowered)]
        for number, line in enumerate(text.splitlines(), 1) if there else ():
            for pattern in there:
                if match := pattern.search(line):
                    yield f"{path}:{number}: '{match[0]}'. Write: {patterns[pattern]}"


def texts_in(places: tuple[str, ...]) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    names = sorted(set(listed.stdout.splitlines()))
    return [
        name
        for name in names
        if Path(name).suffix in KINDS and not name.startswith(LEFT_OUT) and (ROOT / name).is_file()
    ]


if __name__ == "__main__":
    sys.exit(main())
