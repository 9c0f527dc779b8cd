"""Converts an export of XXL-JOB to jobs: the JSON list of its `jobInfo` records."""

from __future__ import annotations

import json
import re
import shlex
from typing import Final

from evertick.definitions.catalogue.words import BLOCK_STRATEGY_ALIASES, STRATEGY_ALIASES
from evertick.definitions.importers.imported import Draft, Imported, Note, finish, unique
from evertick.errors import DefinitionError
from evertick.model.variable_text import escape_references

_MISFIRE: Final = ("DO_NOTHING", "FIRE_ONCE_NOW")
_INTERPRETERS: Final = {
    "GLUE_SHELL": ["bash"],
    "GLUE_PYTHON": ["python3"],
    "GLUE_PYTHON2": ["python2"],
    "GLUE_PHP": ["php"],
    "GLUE_NODEJS": ["node"],
    "GLUE_POWERSHELL": ["pwsh", "-File"],
}
_GAP: Final = re.compile(r"[\s,]*")
_LISTS: Final = ("data", "content", "list", "jobs", "jobInfo", "records")


def read_xxl_job(text: str, source: str, *, timezone: str | None = None) -> Imported:
    try:
        root = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        reason = f"this is not JSON: {error}."
        raise DefinitionError(reason, hint="Export the jobs as JSON.", file=source, line=line, column=1) from None
    records = _records(root)
    if records is None:
        hint = "It is a JSON list of jobInfo records."
        raise DefinitionError("no list of jobs was found.", hint=hint, file=source, line=1, column=1)
    notes: list[Note] = []
    drafts: list[Draft] = []
    ids: list[str] = []
    children: list[str] = []
    for data, line in zip(records, _lines(text, records), strict=True):
        if not isinstance(data, dict):
            notes.append(Note(line, "this is not a record of a job."))
            continue
        drafts.append(_read_record(data, line))
        ids.append(str(data.get("id", "")))
        children.append(str(data.get("childJobId") or ""))
    return finish(_chained(unique(drafts), ids, children), notes, source, timezone)


def _records(root: object) -> list[object] | None:
    """The list itself, or the list inside of an answer of the administration."""
    if isinstance(root, list):
        return root
    if isinstance(root, dict):
        for name in _LISTS:
            if name in root and (found := _records(root[name])) is not None:
                return found
    return None


def _lines(text: str, records: list[object]) -> list[int]:
    """On which line each record begins: the list is read once more, record by record."""
    decoder = json.JSONDecoder()
    for opened in re.finditer(r"\[", text):
        try:
            found, _end = decoder.raw_decode(text, opened.start())
        except json.JSONDecodeError:
            continue
        if found != records:
            continue
        lines, place = [], opened.end()
        counted, line = 0, 1
        for _record in records:
            gap = _GAP.match(text, place)
            place = gap.end() if gap else place
            line += text.count("\n", counted, place)
            counted = place
            lines.append(line)
            place = decoder.raw_decode(text, place)[1]
        return lines
    return [1] * len(records)


def _read_record(data: dict[str, object], line: int) -> Draft:
    notes: list[Note] = []
    fields: dict[str, object] = {}
    about = str(data.get("jobDesc") or "").strip()
    if about:
        fields["description"] = about
    if str(data.get("triggerStatus", 1)) == "0":
        fields["enabled"] = False
    _schedule(data, fields, notes, line)
    misfire = str(data.get("misfireStrategy") or "")
    if misfire in _MISFIRE and "schedule" in fields:
        fields["misfire"] = misfire
    elif misfire and misfire not in _MISFIRE:
        notes.append(Note(line, f"the misfire strategy '{misfire}'."))
    block = str(data.get("executorBlockStrategy") or "")
    if block in BLOCK_STRATEGY_ALIASES:
        fields["blockStrategy"] = BLOCK_STRATEGY_ALIASES[block]
    elif block:
        notes.append(Note(line, f"the block strategy '{block}'."))
    timeout, retries = _number(data.get("executorTimeout")), _number(data.get("executorFailRetryCount"))
    if timeout:
        fields["timeout"] = f"{timeout}s"
    if retries:
        fields["retryPolicy"] = {"maxRetries": retries, "retryDelayMs": 0, "backoff": "fixed"}
    route = str(data.get("executorRouteStrategy") or "")
    if route:
        word = STRATEGY_ALIASES.get(route, route)
        notes.append(
            Note(line, f"the routing '{route}': it runs on this machine. With a fleet, add 'routing: {word}'.")
        )
    mails = [mail.strip() for mail in str(data.get("alarmEmail") or "").split(",") if mail.strip()]
    if mails:
        fields["notify"] = {"on_failure": {"smtp": mails}}
    _work(data, fields, notes, line)
    identity = data.get("id")
    return Draft(about or f"xxl-job-{identity if identity is not None else line}", fields, line, tuple(notes))


def _schedule(data: dict[str, object], fields: dict[str, object], notes: list[Note], line: int) -> None:
    kind = str(data.get("scheduleType") or ("CRON" if data.get("jobCron") else "NONE"))
    conf = str(data.get("scheduleConf") or data.get("jobCron") or "").strip()
    if kind == "CRON":
        try:
            fields["schedule"], lost = from_quartz(conf)
        except ValueError as error:
            notes.append(Note(line, f"its schedule: {error}."))
            return
        if lost:
            notes.append(Note(line, lost))
    elif kind in ("FIX_RATE", "FIX_DELAY") and conf.isdecimal() and int(conf) > 0:
        fields["schedule"] = {"every": f"{int(conf)}s"}
        if kind == "FIX_DELAY":
            notes.append(Note(line, "the delay is counted from start to start, and not from the end of a run."))
    elif kind != "NONE":
        notes.append(Note(line, f"its schedule '{kind} {conf}'."))


def _work(data: dict[str, object], fields: dict[str, object], notes: list[Note], line: int) -> None:
    kind, param = str(data.get("glueType") or "BEAN"), str(data.get("executorParam") or "")
    if param:
        fields["env"] = {"XXL_JOB_PARAM": escape_references(param)}
    if kind in _INTERPRETERS and str(data.get("glueSource") or "").strip():
        text = str(data["glueSource"]).replace("\r\n", "\n")
        fields["steps"] = [{"name": "main", "script": text, "interpreter": _INTERPRETERS[kind]}]
        if re.search(r"\$[1-3]|sys\.argv|\$argv|process\.argv", text):
            notes.append(Note(line, "a script is given no arguments; its parameter is the variable XXL_JOB_PARAM."))
        return
    handler = str(data.get("executorHandler") or kind)
    fields["enabled"] = False
    fields["command"] = f"echo {shlex.quote(f'replace this with what {handler} did')} >&2; exit 1"
    notes.append(
        Note(line, f"what it runs ('{handler}', {kind}) is code of its executor. It is disabled until you write it.")
    )


def _number(value: object) -> int:
    text = str(value or 0)
    return int(text) if text.isdecimal() else 0


def _chained(drafts: list[Draft], ids: list[str], children: list[str]) -> list[Draft]:
    """A child of a job comes after it, whichever of its parents has ended."""
    by_id = {identity: draft for identity, draft in zip(ids, drafts, strict=True) if identity}
    parents: dict[str, list[str]] = {}
    lost: dict[str, list[Note]] = {}
    for draft, written in zip(drafts, children, strict=True):
        for identity in filter(None, (part.strip() for part in written.split(","))):
            child = by_id.get(identity)
            if child is None or child is draft:
                lost.setdefault(draft.name, []).append(
                    Note(draft.line, f"its child '{identity}' is not among the imported jobs.")
                )
            elif "schedule" in child.fields:
                # Beside a schedule 'after' holds an occurrence back; here it would have started one more.
                text = f"its child '{child.name}' starts by its own schedule only."
                lost.setdefault(draft.name, []).append(Note(draft.line, text))
            else:
                parents.setdefault(child.name, []).append(draft.name)
    chained = []
    for draft in drafts:
        fields, found = dict(draft.fields), parents.get(draft.name)
        if found:
            fields["after"] = {"jobs": found, "mode": "any"}
        chained.append(Draft(draft.name, fields, draft.line, (*draft.notes, *lost.get(draft.name, ()))))
    return chained


def from_quartz(text: str) -> tuple[str, str | None]:
    """The expression with six fields, and what was lost on the way; ValueError when it is none of Quartz's."""
    fields = text.split()
    if len(fields) not in (6, 7):
        raise ValueError(f"'{text}' has {len(fields)} fields; Quartz has six or seven")
    second, minute, hour, day, month, weekday = fields[:6]
    year = fields[6] if len(fields) == 7 else "*"
    lost = None if year == "*" else f"the year '{year}': it fires every year here."
    return " ".join((second, minute, hour, day, month, _weekday(weekday))), lost


def _weekday(field: str) -> str:
    """Quartz counts from Sunday as 1; we do from Sunday as 0. Names are the same."""
    if field.upper() == "L":
        return "6"
    return ",".join(_weekday_part(part) for part in field.split(","))


def _weekday_part(part: str) -> str:
    """Numbers behind `/` and `#` count something else."""
    days, mark, rest = re.fullmatch(r"([^/#]*)([/#]?)(.*)", part, re.DOTALL).groups()  # type: ignore[union-attr]
    return re.sub(r"[0-9]+", lambda found: str(int(found[0]) - 1), days) + mark + rest
