"""The context of an attempt's steps: their environment, folders and logs, and the outputs they pass on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from evertick.executors.keeper.account import find_account
from evertick.executors.keeper.attempt_state import StepEnd
from evertick.executors.keeper.conditions import why_refused, why_unmet
from evertick.executors.keeper.environment import (
    RESUME,
    Secrets,
    checked,
    facts_of,
    given_params,
    marks_of_attempt,
    member_facts,
    params_of,
    step_facts,
)
from evertick.executors.keeper.mask import Masker
from evertick.executors.keeper.output import LogWriter
from evertick.executors.keeper.process import UNCONFINED, Living, Tools
from evertick.executors.keeper.sandbox import Confinement
from evertick.executors.logs import SUFFIX
from evertick.executors.paths import file_name, open_folder, run_folder
from evertick.executors.protocol import LaunchMessage
from evertick.kinds import Program, Unready
from evertick.kinds import command as command_kind
from evertick.kinds import python as python_kind
from evertick.kinds import script as script_kind
from evertick.kinds.http import HttpRequest, parse_url
from evertick.model import run_variables as variables
from evertick.model.run import RunKey
from evertick.model.steps import OUTPUT_MAX, read_steps
from evertick.model.subrun import sub_run_key
from evertick.model.work import (
    Command,
    Condition,
    HttpCall,
    Pipeline,
    Pod,
    PythonCall,
    Sandbox,
    SandboxKind,
    Script,
    Secret,
    Step,
    SubJob,
    Value,
    Work,
)
from evertick.planning.workflow import StepOutcome

OUTPUTS = "outputs.json"
_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_NOTHING_TO_MASK = Masker(())


class AttemptContext:
    """One attempt's. Everything secret is looked up when it is made, so that every log can be masked from its start."""

    def __init__(
        self, order: LaunchMessage, work: Work, named: Sequence[Secret], digests: Mapping[str, str], tools: Tools
    ) -> None:
        self._order = order
        self.run_id = order.key.run_id
        self._work = work
        self._digests = digests
        self._tools = tools
        self._confinement = self._confined(work.user, work.sandbox)
        # Before anything is asked or done: what cannot be confined as it asks for does not begin.
        self._confinement.check()
        self._folder = _folder_of(work.working_dir, self._confinement)
        secrets = Secrets(order.secrets, self._folder or "")
        for secret in named:
            secrets.value_of(secret)
        self._secrets = secrets
        given = given_params(order.params)
        self._params = params_of(work.params, given)
        self._env = {**secrets.environment(work.env), **self._params}
        self._facts = {**facts_of(order, self.run_id, tools.identity, tools.home), **member_facts(tools.member_file)}
        self._outputs: dict[str, str] = {}
        self._by_step: dict[str, str] = {}
        self._sub_runs: dict[str, str] = {}
        self.marks = marks_of_attempt(self.run_id, order.attempt, tools.identity)
        self.outcome = ""
        """How the steps ended, for handlers."""
        self.resumed = self._resume(given.get(RESUME)) if given else ()
        """Steps that are not repeated, as they ended in an earlier run."""

    def masker(self) -> Masker:
        # One that has nothing to mask remembers nothing either, and serves all.
        return Masker(self._secrets.values) if self._secrets.values else _NOTHING_TO_MASK

    def env_of(self, step: Step) -> dict[str, str]:
        env = {
            **self._base_env(self.confinement_of(step)),
            **self._env,
            **self._outputs,
            **(self._secrets.environment(step.env) if step.env else {}),
            **self._facts,
            **step_facts(self.run_id, self._order.attempt, step.name),
        }
        if self.outcome:
            env[variables.OUTCOME] = self.outcome
        return self._checked(env, self.confinement_of(step))

    def folder_of(self, step: Step) -> str | None:
        confinement = self.confinement_of(step)
        own = _folder_of(self._work.working_dir, confinement)
        if step.working_dir is None:
            return own
        account = confinement.account
        home = account.home if account is not None else ""
        written = os.path.expanduser(step.working_dir) if account is None else account.expanded(step.working_dir)
        return os.path.join(own or home, written)

    def confinement_of(self, step: Step) -> Confinement:
        """As whom the processes of a step run, and what they see; what a step does not say, its job does."""
        if isinstance(step.kind, Pod):
            return UNCONFINED  # the process here is ours, and only attends to the container
        if step.user is None and step.sandbox is None:
            return self._confinement
        confinement = self._confined(step.user, step.sandbox or self._work.sandbox)
        return confinement if step.user is not None else replace(confinement, account=self._confinement.account)

    def _confined(self, user: str | None, sandbox: Sandbox | None) -> Confinement:
        account = find_account(user) if user is not None else None
        tools = self._tools
        return Confinement(account, sandbox, tools.hidden, tools.shown, tools.unshowable)

    def _base_env(self, confinement: Confinement) -> dict[str, str]:
        """What is inherited from the scheduler, and who the process is."""
        env = {**self._tools.env, **(confinement.account.env if confinement.account is not None else {})}
        if not confinement.is_plain:
            env.pop("TMPDIR", None)  # the scheduler's own
        return env

    def _checked(self, env: dict[str, str], confinement: Confinement) -> dict[str, str]:
        if confinement.sandbox is not None and confinement.sandbox.kind is SandboxKind.SYSTEMD_RUN:
            for name, value in env.items():
                if self._is_secret(value):
                    raise Unready(
                        f"the variable {name!r} holds a secret, and systemd shows the environment of its services to "
                        "every user. Write 'sandbox: bwrap' instead."
                    )
        return checked(env)

    def log_of(self, step: Step) -> LogWriter:
        name = file_name(step.name) + SUFFIX
        folder = partial(self._attempt_folder, self._order.attempt)
        return LogWriter(self._tools.logs, folder, name, self._work.log_max_bytes, self.masker())

    def program_of(self, step: Step) -> Program | HttpRequest:
        match step.kind:
            case Command():
                return command_kind.program_of(step.kind)
            case Script():
                return script_kind.program_of(step.kind)
            case PythonCall():
                return python_kind.program_of(step.kind, self._params, has_result=step.output is not None)
            case HttpCall(url, method, headers, body, expected):
                parse_url(url)
                named = tuple((name, self._secrets.value_of(value)) for name, value in headers)
                return HttpRequest(url, method, named, None if body is None else body.encode(), expected)
            case Pipeline():
                # Imported when it is needed: most keepers never see one, and should stay small.
                from evertick.kinds.pipeline.program import program_of

                has_result = step.output is not None
                return program_of(step.kind, self.folder_of(step), self._params, has_result=has_result)
            case SubJob():
                raise AssertionError("a run of another job needs no program")
            case Pod():
                return self._pod(step, step.kind)

    def _pod(self, step: Step, pod: Pod) -> Program:
        # Imported when it is needed, as pipelines are.
        from evertick.kinds.kubernetes.program import ACCESS, Where, program_of

        order = self._order
        return program_of(
            pod,
            Where(order.key, order.attempt, order.fence, step.name),
            self._pod_env(step),
            {name: order.secrets[name] for name in ACCESS if name in order.secrets},
            working_dir=step.working_dir,
            # Told to the cluster too: a pod must not outlive its time because nobody is left here who would end it.
            timeout_us=min(filter(None, (step.timeout_us, self._work.timeout_us)), default=None),
            grace_seconds=self._tools.grace_seconds,
        )

    def _pod_env(self, step: Step) -> dict[str, str]:
        """What a pod is told: nothing of this machine, and nothing secret, because its specification can be read."""
        for name, value in self._outputs.items():
            if self.masker().masks(value.encode("utf-8", "surrogateescape")):
                raise Unready(f"the output {name!r} holds a secret, and whoever may see the pod could read it.")
        written = {name: value for name, value in self._work.env if isinstance(value, str)}
        own = {name: value for name, value in step.env if isinstance(value, str)}
        facts = facts_of(self._order, self.run_id)
        told = step_facts(self.run_id, self._order.attempt, step.name)
        return {**written, **self._params, **self._outputs, **own, **facts, **told}

    def params_for(self, step: Step, kind: SubJob) -> str:
        """What a run of another job is given; what is handed on to it comes from the step's variables."""
        if not kind.params:
            return ""
        env = self.env_of(step)
        given: dict[str, str] = {}
        for name, value in kind.params:
            found = _VARIABLE.fullmatch(value)
            if found is None:
                given[name] = value
            elif found[1] in env:
                given[name] = env[found[1]]
            else:
                raise Unready(f"the parameter {name!r} is to be {value}, and there is no such variable.")
            if self._is_secret(given[name]):
                # Parameters stand in the ledger, in answers and in exports: there, nothing masks them.
                raise Unready(
                    f"the parameter {name!r} of the job {kind.job_id!r} holds a secret, and parameters can be read by "
                    f"everyone who sees its runs. Name the secret in 'env' of {kind.job_id!r} instead."
                )
        return json.dumps(given)

    def note_sub_run(self, step: Step, kind: SubJob, number: int) -> str:
        run_id = sub_run_key(kind.job_id, self._order.key, self._order.attempt, step.name, number).run_id
        self._sub_runs[step.name] = run_id
        return run_id

    async def why_unmet(
        self, condition: Condition, attend: Callable[[Living], None], step: Step | None = None
    ) -> str | None:
        if step is not None:
            env, folder, confinement = self.env_of(step), self.folder_of(step), self.confinement_of(step)
        else:
            folder, confinement = self._folder, self._confinement
            written = {**self._base_env(confinement), **self._env, **self._outputs, **self._facts}
            env = self._checked(written, confinement)
        return await why_unmet(condition, self._tools, env, folder, self.marks, attend, confinement)

    async def why_refused(self, hook: Value, attend: Callable[[Living], None], state: str = "") -> str | None:
        """Ask an address whether the run may start, or counts; it is told which run it is about."""
        headers = {
            "Evertick-Job": self._order.key.job_id,
            "Evertick-Run": self.run_id,
            "Evertick-Attempt": str(self._order.attempt),
            "Evertick-State": state,
        }
        plain = tuple((name, value) for name, value in headers.items() if value and value.isascii())
        return await why_refused(self._secrets.value_of(hook), plain, self._tools, attend)

    def hand_on(self, step: Step, value: str) -> None:
        """Let later steps have what this one printed."""
        assert step.output is not None
        self._outputs[step.output] = value
        self._by_step[step.name] = value

    def completed(self, end: StepEnd) -> StepEnd:
        """How a step ended, with what the ledger keeps of it beyond that."""
        value = self._by_step.get(end.name)
        if value is not None and not self._is_secret(value):
            end = end._replace(output=value[:OUTPUT_MAX], is_output_cut=len(value) > OUTPUT_MAX)
        return end._replace(digest=self._digests.get(end.name, ""), sub_run=self._sub_runs.get(end.name, ""))

    def _is_secret(self, value: str) -> bool:
        return self.masker().masks(value.encode("utf-8", "surrogateescape"))

    def keep_outputs(self) -> None:
        """Leave what was handed on to a later attempt that goes on from here; never what holds a secret."""
        kept = {name: value for name, value in self._by_step.items() if not self._is_secret(value)}
        if not kept:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            folder = open_folder(self._tools.logs, self._attempt_folder(self._order.attempt), create=True)
            try:
                with open(os.open(OUTPUTS, flags, 0o600, dir_fd=folder), "w") as file:
                    json.dump(kept, file)
            finally:
                os.close(folder)
        except OSError:
            pass  # then the steps that hand something on are run again

    def _resume(self, earlier: object) -> tuple[StepEnd, ...]:
        """Steps that need not run again: they succeeded, are the same still, and what they handed on is there."""
        if not isinstance(earlier, Mapping):
            return ()
        run_id = str(earlier.get("run", ""))
        before = {step.name: step for step in read_steps(json.dumps(earlier.get("steps")))}
        whole = self._earlier_outputs(run_id, earlier.get("attempt"))
        done: list[StepEnd] = []
        for step in self._work.steps:
            known = before.get(step.name)
            if known is None or known.state != StepOutcome.SUCCEEDED or known.digest != self._digests[step.name]:
                continue
            value = known.output if not known.is_output_cut else whole.get(step.name)
            if step.output is not None:
                if value is None:
                    continue
                self.hand_on(step, value)
            at = known.started_at or 0, known.finished_at or 0
            reused = StepEnd(step.name, known.state, *at, known.exit_code, tries=0, reused_from=run_id)
            done.append(self.completed(reused))
        return tuple(done)

    def _earlier_outputs(self, run_id: str, attempt: object) -> dict[str, str]:
        """What that attempt handed on, whole; nothing when it ran elsewhere, or its logs are gone."""
        try:
            parts = (*run_folder(RunKey.from_run_id(run_id)), str(int(str(attempt))))
            folder = open_folder(self._tools.logs, parts)
        except (OSError, ValueError):
            return {}
        try:
            with open(os.open(OUTPUTS, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)) as file:
                kept = json.load(file)
        except (OSError, ValueError):
            return {}
        finally:
            os.close(folder)
        return {str(name): str(value) for name, value in kept.items()} if isinstance(kept, dict) else {}

    def _attempt_folder(self, attempt: int) -> tuple[str, ...]:
        return (*run_folder(self._order.key), str(attempt))


def _folder_of(written: str | None, confinement: Confinement) -> str | None:
    """The working folder of a job; None: the keeper's home, or in a sandbox an empty one."""
    account = confinement.account
    if account is None:
        return os.path.expanduser(written) if written is not None else None
    if written is None:
        return account.own_folder if confinement.sandbox is None else None
    return os.path.join(account.home, account.expanded(written))
