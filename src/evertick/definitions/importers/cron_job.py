"""Converts CronJob manifests of Kubernetes to jobs; their containers stay containers of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from evertick.definitions.importers.imported import Draft, Imported, Note, finish
from evertick.definitions.nodes import ListNode, MapNode, Node, plain_data
from evertick.definitions.yaml import read_yaml
from evertick.errors import DefinitionError
from evertick.model.variable_text import escape_references

PARALLEL: Final = 10
"""What `Allow` becomes: Kubernetes has no limit, and a job that never ends would fill the cluster."""
BACKOFF_LIMIT: Final = 6
"""The default of Kubernetes."""
_HISTORY: Final = "the ledger keeps what ran; write 'historyRetention'."
_HINTS: Final = {
    "successfulJobsHistoryLimit": _HISTORY,
    "failedJobsHistoryLimit": _HISTORY,
    "ttlSecondsAfterFinished": _HISTORY,
    "labels": "write 'tags' to find it by.",
    "completions": "a run is one pod; write steps for several.",
    "parallelism": "a run is one pod; write steps for several.",
}
_NEEDLESS: Final = frozenset({"name", "namespace", "creationTimestamp", "uid", "resourceVersion", "generation"})


def read_cron_jobs(text: str, source: str, *, timezone: str | None = None) -> Imported:
    """The CronJobs of a file of manifests, one or several, also as a `List`."""
    drafts: list[Draft] = []
    notes: list[Note] = []
    for manifest in _manifests(text, source):
        kind = _text(manifest, "kind")
        if kind == "CronJob":
            drafts.append(_CronJob(manifest).draft())
        else:
            name = _text(_map(manifest, "metadata"), "name")
            notes.append(Note(manifest.line, f"{kind or 'a manifest'} '{name}' is not a CronJob; it is left as it is."))
    return finish(drafts, notes, source, timezone)


def _manifests(text: str, source: str) -> Iterator[MapNode]:
    before = 0
    for document in _documents(text):
        # Empty lines in front: so each node knows its line in the whole file.
        found = read_yaml("\n" * before + document)
        before += document.count("\n")
        if found.problems:
            problem = found.problems[0]
            raise DefinitionError(
                problem.reason, hint=problem.hint, file=source, line=problem.line, column=problem.column
            )
        if found.root is None:
            continue
        if not isinstance(found.root, MapNode):
            raise DefinitionError(
                "a manifest must be a map.",
                hint="Name a file of CronJobs.",
                file=source,
                line=found.root.line,
                column=1,
            )
        items = _value(found.root, "items")
        if isinstance(items, ListNode):
            yield from (item for item in items.items if isinstance(item, MapNode))
        else:
            yield found.root


def _documents(text: str) -> Iterator[str]:
    lines: list[str] = []
    for line in text.splitlines(keepends=True):
        if line.rstrip() == "---" and lines:
            yield "".join(lines)
            lines = ["\n"]  # in the place of the separator
        else:
            lines.append("\n" if line.rstrip() == "---" else line)
    yield "".join(lines)


class _CronJob:
    """One manifest, read from the outside to the inside."""

    def __init__(self, manifest: MapNode) -> None:
        self._manifest = manifest
        self._notes: list[Note] = []
        self._fields: dict[str, object] = {}

    def draft(self) -> Draft:
        metadata, spec = _map(self._manifest, "metadata"), _map(self._manifest, "spec")
        self._note_rest(metadata, _NEEDLESS)
        self._read_schedule(spec)
        self._read_missed(spec)
        self._read_overlap(spec)
        template = _map(spec, "jobTemplate")
        retries = self._read_job(_map(template, "spec"))
        for place, holder in (("job", template), ("pod", _map(_map(template, "spec"), "template"))):
            self._note_rest(_map(holder, "metadata"), _NEEDLESS, f" of the {place}")
        known = {"schedule", "timeZone", "suspend", "concurrencyPolicy", "startingDeadlineSeconds", "jobTemplate"}
        self._note_rest(spec, known)
        pod = _map(_map(_map(template, "spec"), "template"), "spec")
        self._note_restarts(pod, retries)
        self._fields["kubernetes"] = self._read_pod(pod, _text(metadata, "namespace"))
        return Draft(_text(metadata, "name"), self._fields, self._manifest.line, tuple(self._notes))

    def _read_schedule(self, spec: MapNode) -> None:
        schedule, zone = _text(spec, "schedule"), _text(spec, "timeZone")
        for prefix in ("CRON_TZ=", "TZ="):
            if schedule.startswith(prefix):
                zone, _, schedule = schedule.removeprefix(prefix).partition(" ")
        # Without a zone the schedule is in that of the cluster's controller, which is UTC almost everywhere.
        self._fields["timezone"] = zone or "UTC"
        self._fields["schedule"] = schedule.strip()
        if _plain(spec, "suspend") is True:
            self._fields["enabled"] = False

    def _read_missed(self, spec: MapNode) -> None:
        """Kubernetes starts one run for all that were missed, within the deadline where there is one."""
        seconds = _plain(spec, "startingDeadlineSeconds")
        if isinstance(seconds, int) and seconds > 0:
            self._fields["catchupWindow"] = f"{seconds}s"
        self._fields["missed"] = "latest"

    def _read_overlap(self, spec: MapNode) -> None:
        policy = _text(spec, "concurrencyPolicy") or "Allow"
        if policy == "Allow":
            self._fields["overlap"] = f"parallel({PARALLEL})"
            self._note(spec, f"concurrencyPolicy Allow: at most {PARALLEL} run at once here. Write what you need.")
        else:
            self._fields["overlap"] = "replace" if policy == "Replace" else "skip"

    def _read_job(self, spec: MapNode) -> int:
        """How often a run is tried again."""
        deadline = _plain(spec, "activeDeadlineSeconds")
        if isinstance(deadline, int) and deadline > 0:
            self._fields["timeout"] = f"{deadline}s"
        written = _plain(spec, "backoffLimit")
        limit = written if isinstance(written, int) else BACKOFF_LIMIT
        if limit:
            # The waits of Kubernetes: 10 s, doubled each time, six minutes at most.
            waits = {"retryDelay": "10s", "backoff": "exponential", "maxDelay": "6m"}
            self._fields["retryPolicy"] = {"maxRetries": limit, **waits}
        self._note_rest(spec, {"activeDeadlineSeconds", "backoffLimit", "template"})
        return limit

    def _note_restarts(self, pod: MapNode, retries: int) -> None:
        """The kubelet restarts a container in its pod; a retry here is a new pod."""
        if not retries or _text(pod, "restartPolicy") != "OnFailure":
            return
        policy = next(key for key, _value_node in pod.entries if key.text == "restartPolicy")
        times = "1 retry" if retries == 1 else f"{retries} retries"
        self._note(
            policy,
            f"restartPolicy OnFailure becomes {times} of the run, each in a new pod: what the container left in an "
            "'emptyDir' is gone then.",
        )

    def _read_pod(self, pod: MapNode, namespace: str) -> dict[str, object]:
        containers = _value(pod, "containers")
        items = containers.items if isinstance(containers, ListNode) else ()
        maps = [item for item in items if isinstance(item, MapNode)]
        first = maps[0] if maps else MapNode((), pod.line, pod.column)
        found, rest = self._read_container(first)
        spec = {key.text: plain_data(value) for key, value in pod.entries}
        for name in ("containers", "restartPolicy", "serviceAccountName", "serviceAccount"):
            spec.pop(name, None)
        account = _text(pod, "serviceAccountName") or _text(pod, "serviceAccount")
        if account:
            found["serviceAccount"] = account
        if namespace:
            found["namespace"] = namespace
        others = [plain_data(item) for item in maps[1:]]
        if others:
            self._note(maps[1], "a run ends with its first container; the others are in 'podSpec'.")
        if rest or others:
            spec["containers"] = [{"name": "main", **rest}, *others]
        return {**found, "podSpec": spec} if spec else found

    def _read_container(self, container: MapNode) -> tuple[dict[str, object], dict[str, object]]:
        """The fields of `kubernetes`, and what else the container says, which goes into `podSpec`."""
        rest = {key.text: plain_data(value) for key, value in container.entries if key.text != "name"}
        found: dict[str, object] = {"image": rest.pop("image", "")}
        command, arguments = rest.pop("command", None), rest.pop("args", None)
        if isinstance(command, list):
            found["command"] = [str(word) for word in (*command, *(arguments if isinstance(arguments, list) else ()))]
        elif arguments:
            rest["args"] = arguments
        env, secrets, other = _read_env(rest.pop("env", None))
        found |= {name: value for name, value in (("env", env), ("secrets", secrets)) if value}
        if other:
            rest["env"] = other
        resources = rest.get("resources")
        if isinstance(resources, dict) and set(resources) <= {"requests", "limits"}:
            found["resources"] = rest.pop("resources")
        return found, rest

    def _note_rest(self, node: MapNode, known: frozenset[str] | set[str], place: str = "") -> None:
        for key, _value_node in node.entries:
            if key.text not in known:
                self._note(key, f"'{key.text}'{place}: {_HINTS.get(key.text, 'it has no counterpart here.')}")

    def _note(self, node: Node, text: str) -> None:
        self._notes.append(Note(node.line, text))


def _read_env(entries: object) -> tuple[dict[str, str], dict[str, str], list[object]]:
    """Plain values, keys of Secrets, and the rest as the manifest has it."""
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    other: list[object] = []
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        source = entry.get("valueFrom")
        secret = source.get("secretKeyRef") if isinstance(source, dict) else None
        if "valueFrom" not in entry:
            value = entry.get("value")
            env[str(entry.get("name", ""))] = escape_references("" if value is None else str(value))
        elif isinstance(secret, dict) and set(secret) == {"name", "key"}:
            secrets[str(entry.get("name", ""))] = f"{secret['name']}/{secret['key']}"
        else:
            other.append(entry)
    return env, secrets, other


def _value(node: MapNode, name: str) -> Node | None:
    return next((value for key, value in node.entries if key.text == name), None)


def _map(node: MapNode, name: str) -> MapNode:
    found = _value(node, name)
    return found if isinstance(found, MapNode) else MapNode((), node.line, node.column)


def _plain(node: MapNode, name: str) -> object:
    found = _value(node, name)
    return None if found is None else plain_data(found)


def _text(node: MapNode, name: str) -> str:
    found = _plain(node, name)
    return "" if found is None else str(found)
