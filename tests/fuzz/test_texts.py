"""Whether hostile texts end in a value or in their error: files, schedules, templates, ids, logs, signatures."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pytest

from evertick.api.routes_hooks import is_signed, signature
from evertick.definitions.parser import parse_definition
from evertick.errors import DefinitionError
from evertick.executors.logs import LIMIT_MAX, Logs
from evertick.executors.paths import run_folder
from evertick.model.ids import ORIGIN_MAX, origin_of
from evertick.model.instant import SECOND
from evertick.model.run import RunKey
from evertick.model.template import NAMES, parse_template, render_template
from evertick.planning.cron import Cron
from tests.definitions.test_fuzz import SAMPLE, check
from tests.executors.contract import NINE
from tests.fuzz import drawing
from tests.fuzz.harness import fuzz

pytestmark = pytest.mark.slow

TEMPLATES = (
    "{{ date }}",
    '{{ date(-1d, "%Y%m%d") }}',
    "x{{ scheduled_for(-2h) }}y",
    '{{ previous_success("%F") }}',
    '{{ "{{" }}',
)
EXPRESSIONS = (
    "0 9 * * *",
    "*/15 0 9-17 * * 1-5",
    "CRON_TZ=Europe/Berlin 30 2 L * *",
    "H H * * SUN",
    "0 0 1W JAN,MAR 1#2",
    "@daily",
)
CRON_WORDS = (
    "*",
    "?",
    "L",
    "LW",
    "W",
    "#",
    "H",
    "/",
    "-",
    ",",
    "0",
    "7",
    "59",
    "60",
    "MON",
    "JAN",
    "*/0",
    "1-99999999",
    "@every 1s",
    "\u00a0",
)
ZONES = ("UTC", "Europe/Berlin", "Australia/Lord_Howe", "Pacific/Apia", "../etc/passwd", "")


def test_job_files():
    def draw(dice: Random) -> str:
        return (
            drawing.mutated(dice, SAMPLE)
            if dice.random() < 0.8
            else drawing.text(dice, (*SAMPLE.split(), "\n", "\n  "))
        )

    def send(text: str) -> str:
        parsed = parse_definition(text, "jobs/x.yaml")
        check(parsed)
        return "errors" if parsed.errors else "job"

    fuzz("job file (YAML)", draw, send, few=500)


def test_cron_expressions():
    start = datetime(2026, 3, 28, tzinfo=UTC)

    def field(dice: Random) -> str:
        first, last, step = dice.randrange(8), dice.randrange(32), dice.randrange(1, 70)
        return dice.choice(
            ("*", "*", str(last), f"{first}-{last}", f"*/{step}", f"{first},{last}", f"{first}/{step}", "H")
        )

    def draw(dice: Random) -> tuple[str, str]:
        match dice.randrange(3):
            case 0:
                written = drawing.mutated(dice, dice.choice(EXPRESSIONS))
            case 1:
                written = " ".join(field(dice) for _ in range(dice.choice((5, 6))))
            case _:
                fields = ("".join(dice.choices(CRON_WORDS, k=dice.choice((1, 1, 2, 3)))) for _ in range(5))
                written = " ".join(fields)
        return written, dice.choice(ZONES)

    def send(drawn: tuple[str, str]) -> str:
        try:
            cron = Cron.parse(*drawn, name="report")
        except DefinitionError:
            return "refused"
        # As instants: two passes of a repeated hour have the same wall time.
        fires = [fire.timestamp() for fire in (start, *cron.upcoming(start, count=3))]
        assert fires == sorted(set(fires))
        return "accepted"

    fuzz("cron expression", draw, send, few=2_000)


def test_templates():
    def draw(dice: Random) -> str:
        return (
            drawing.mutated(dice, dice.choice(TEMPLATES))
            if dice.random() < 0.8
            else drawing.text(dice, (*TEMPLATES, *NAMES, '"', "(", ")"))
        )

    def send(text: str) -> str:
        try:
            parts = parse_template(text)
        except DefinitionError:
            return "refused"
        rendered = render_template(text, lambda one: f"<{one.name}>")
        assert all(part in rendered for part in parts if isinstance(part, str))
        return "accepted"

    fuzz("template", draw, send, few=2_000)


def test_ids_of_runs():
    known = RunKey("nightly-report", NINE, "api-0123456789ab").run_id

    def draw(dice: Random) -> str:
        return drawing.mutated(dice, known) if dice.random() < 0.8 else drawing.text(dice)

    def send(text: str) -> str:
        assert 0 < len(origin_of(text.encode("utf-8", "replace").decode())) <= ORIGIN_MAX
        try:
            key = RunKey.from_run_id(text)
        except ValueError:
            return "refused"
        # Other spellings of an instant name the same run; what it is called does not change any more.
        assert RunKey.from_run_id(key.run_id) == key
        return "accepted"

    fuzz("id of a run", draw, send, few=2_000)


def test_ranges_of_logs(tmp_path):
    content = bytes(range(256)) * 40
    key = RunKey("report", NINE)
    (tmp_path / "secret.log").write_bytes(b"not for readers")
    folder = tmp_path / "state/logs" / "/".join(run_folder(key)) / "1"
    folder.mkdir(parents=True)
    (folder / "main.log").write_bytes(content)
    logs = Logs(tmp_path / "state")

    def number(dice: Random) -> int:
        return int(dice.choice((0, 1, -1, dice.randrange(12_000), LIMIT_MAX, LIMIT_MAX + 1, 2**31, 2**62)))

    def draw(dice: Random) -> tuple[RunKey, int, str, int, int]:
        names = (*drawing.WORDS, "../../../../../secret", "main", "main.log", ".", "%2e")
        job = "report" if dice.random() < 0.8 else drawing.text(dice, names)
        origin = "" if dice.random() < 0.8 else drawing.text(dice, names)
        step = "main" if dice.random() < 0.6 else drawing.text(dice, names)
        return RunKey(job, NINE, origin), dice.choice((1, 1, 1, 0, -1, 2**70)), step, number(dice), number(dice)

    def send(drawn: tuple[RunKey, int, str, int, int]) -> str:
        key, attempt, step, offset, limit = drawn
        try:
            chunk = logs.read_log(key, attempt, step, offset, limit)
        except ValueError:
            return "refused"
        wanted = (
            content[offset : offset + min(limit, LIMIT_MAX)]
            if (key.job_id, key.origin, attempt, step) == ("report", "", 1, "main")
            else b""
        )
        assert chunk.data == wanted
        assert chunk.next_offset == offset + len(chunk.data)
        return "read" if chunk.data else "empty"

    fuzz("range of a log", draw, send, few=1_000)


def test_signatures_of_webhooks():
    secret, body, now = "a secret that is long enough", b'{"params": {"DAY": "1"}}', NINE
    good = signature(secret, now // SECOND, body)

    def draw(dice: Random) -> tuple[str, bytes]:
        match dice.randrange(4):
            case 0:
                return f" {good} ", body
            case 1:
                return good, drawing.mutated(dice, body.decode()).encode("utf-8", "replace")
            case 2:
                return signature(drawing.text(dice).encode("utf-8", "replace").decode(), now // SECOND, body), body
            case _:
                return drawing.mutated(dice, good) if dice.random() < 0.7 else drawing.text(dice), body

    def send(drawn: tuple[str, bytes]) -> str:
        written, sent = drawn
        is_good = is_signed(secret, written, sent, now)
        assert is_good == (written == good and sent == body)
        return "accepted" if is_good else "refused"

    fuzz("signature of a webhook", draw, send, few=2_000)
