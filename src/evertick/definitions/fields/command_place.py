"""Where the commands of a job run: `docker` or `ssh` of the job, for its steps and handlers that are commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from evertick.definitions.catalogue.limits import PATH_MAX
from evertick.definitions.fields.docker import read_container
from evertick.definitions.fields.ssh import read_ssh
from evertick.definitions.fields.values import path_of
from evertick.definitions.nodes import Node
from evertick.definitions.report import Report, Section
from evertick.model.work import Command, Container, Kind, Script, SshCommand, Step

CommandPlace: TypeAlias = Container | SshCommand

FIELDS: Final = ("docker", "ssh")
_DEFAULT_INTERPRETER: Final = Script("").interpreter


def read_place(job: Section, report: Report) -> CommandPlace | None:
    docker, ssh = (job.take(name) for name in FIELDS)
    job.contradict("docker", "ssh", "a command runs in one place")
    for name in FIELDS:
        job.contradict("kubernetes", name, "a job that is a container on a cluster runs nothing else")
    container = read_container(docker, "docker", report) if docker else None
    if container is not None and (container.command or container.args) and ("command" in job or "steps" in job):
        inner, other = ("command" if container.command else "args"), ("command" if "command" in job else "steps")
        reason = f"'docker.{inner}' and '{other}' contradict each other: both say what the container runs."
        report.error(job.key("docker"), f"docker.{inner}", reason, "Remove one of them.")
    host = read_ssh(ssh, "ssh", report, is_place=True) if ssh else None
    return (container or host) if "kubernetes" not in job else None


def move_kind(kind: Kind | None, section: Section, place: CommandPlace | None, report: Report) -> Kind | None:
    """The kind of a step or handler of a job whose commands run in that place; other kinds stay as they are."""
    if place is None or not isinstance(kind, Command | Script):
        return kind
    name = "docker" if isinstance(place, Container) else "ssh"
    if isinstance(kind, Script) and kind.interpreter != _DEFAULT_INTERPRETER:
        written = "shell" if "shell" in section else "interpreter"
        reason = (
            f"'{section.field(written)}' reads a file of this machine, and the commands of this job run by '{name}'."
        )
        report.error(section.key(written), section.field(written), reason, "Write a 'command' that is a list.")
    node, field = section.take("workingDir"), section.field("workingDir")
    folder = path_of(node, field, report, longest=PATH_MAX) if node else None
    if folder is not None and name == "docker" and not folder.startswith("/"):
        report.error(node, field, f"'{field}' is a folder in the container, and must begin with '/'.")
    if isinstance(kind, Script):
        # Its shell text as it is: in a list, `{{ }}` would be replaced.
        moved = replace(place, command=(f"set -e\n{kind.text}",), is_shell=True)
    else:
        moved = move_command(kind, place, section.key("command"), section.field("command"), report)
    return moved if folder is None else replace(moved, working_dir=folder)


def move_command(command: Command, place: CommandPlace, node: Node, field: str, report: Report) -> CommandPlace:
    if isinstance(place, SshCommand) and not command.is_shell and command.words[0].startswith("-"):
        reason = f"'{field}' begins with '{command.words[0][:60]}', which is not a program."
        report.error(node, field, reason, "Write the program first.")
    return replace(place, command=command.words, is_shell=command.is_shell)


def report_unused_place(job: Section, place: CommandPlace | None, steps: Iterable[Step], report: Report) -> None:
    if place is None or any(isinstance(step.kind, type(place)) for step in steps):
        return
    name = "docker" if isinstance(place, Container) else "ssh"
    reason = f"'{name}' says where the commands of the job run, and it has none."
    report.error(job.key(name), name, reason, "Add 'command', or a step with one.")
