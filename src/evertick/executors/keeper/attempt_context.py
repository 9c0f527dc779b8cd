"""The context of an attempt's steps: their environment, folders and logs, and the outputs they pass on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from evertick.executors.keeper.account import find_account
from evertick.executors.keeper.attempt_state import StepEnd
from evertick.executors.keeper.conditions import why_refused, why_unmet
from evertick.executors.keeper.environment import (
    RESUME,
    Secrets,
    add_plain_environment,
    check_environment,
    item_variables,
    marks_of_attempt,
    member_variables,
    parse_params,
    resolve_params,
    run_variables,
    step_variables,
    without_defaults,
    without_resume,
)
from evertick.executors.keeper.exit_note_file import NoteHead
from evertick.executors.keeper.mask import Masker
from evertick.executors.keeper.output import LogWriter
from evertick.executors.keeper.outputs import StepOutputs, read_outputs, save_outputs
from evertick.executors.keeper.process import UNCONFINED, Cancellable, Runtime
from evertick.executors.keeper.sandbox import Confinement
from evertick.executors.keeper.sent_item import SentItem, digest_of_work
from evertick.executors.logs import SUFFIX
from evertick.executors.paths import file_name, run_folder
from evertick.executors.protocol import SPREADS, LaunchMessage
from evertick.kinds import Program, StepError
from evertick.kinds.command import command_program, script_program
from evertick.kinds.docker import ACCESS as DOCKER_ACCESS
from evertick.kinds.http import HttpRequest, parse_url
from evertick.kinds.python import python_program
from evertick.kinds.rendering import render_step
from evertick.model import run_variables as variables
from evertick.model.run import RunKey
from evertick.model.steps import ITEM_SHOWN_MAX, OUTPUT_MAX, StepRecord, cut, read_steps
from evertick.model.subrun import sub_run_key
from evertick.model.template import ITEM, Expression
from evertick.model.work import (
    NO_HANDLERS,
    STOP_ON_FAILURE,
    Command,
    Condition,
    Container,
    HttpCall,
    Item,
    ItemValue,
    Param,
    Pipeline,
    Pod,
    PythonCall,
    Sandbox,
    SandboxKind,
    Script,
    Secret,
    SshCommand,
    Step,
    SubJob,
    Value,
    Work,
    spreads_items,
)
from evertick.planning.items import ItemsError, digest_of_value, item_name, item_value_of, items_of
from evertick.planning.run_dates import RunDates
from evertick.planning.workflow import StepOutcome

RUN_ITEMS_MAX: Final = 2_000
"""Items of all steps of one run: the ledger keeps a line of each."""
_VARIABLE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*)\}?")
_NOTHING_TO_MASK = Masker(())


class AttemptContext:
    """One attempt's. It resolves all secrets at once, so that every log is masked from its start."""

    def __init__(
        self,
        launch: LaunchMessage,
        work: Work,
        named: Sequence[Secret],
        digests: Mapping[str, str],
        runtime: Runtime,
        dates: RunDates,
        written_params: Sequence[Param],
        sent: SentItem | None = None,
    ) -> None:
        """`sent` is the item that this attempt runs of another run."""
        self._launch = launch
        self._parent = launch.key.run_id if sent is None else sent.parent
        self._spreads = SPREADS in launch.secrets and sent is None
        self.run_id, self.job_id = launch.key.run_id, launch.key.job_id
        self._work = work
        self._digests = digests
        self._runtime = runtime
        self._confinement = self._confined(work.user, work.sandbox)
        # First: an attempt that cannot be confined as its job asks must not start.
        self._confinement.check()
        self._folder = _folder_of(work.working_dir, self._confinement)
        secrets = Secrets(launch.secrets, self._folder or "")
        for secret in named:
            secrets.value_of(secret)
        self._secrets = secrets
        given = parse_params(launch.params)
        self._params = resolve_params(work.params, without_defaults(given, written_params))
        self._dates = dates.variables()
        self._dotenv = {
            name: value
            for path in work.dotenv
            for name, value in secrets.read_dotenv(_expanded(path, self._confinement)).items()
        }
        self._variables = {
            **run_variables(launch, self.run_id, runtime.identity, runtime.home),
            **self._dates,
            **member_variables(runtime.member_file),
        }
        self.outputs = StepOutputs(self._is_secret)
        if sent is not None:
            self.outputs.receive(sent.outputs)
        self._sub_runs: dict[str, str] = {}
        self._items = 0
        self._value_of = dates.value_of
        self._earlier_run = ""
        self._earlier: dict[str, StepRecord] = {}
        """The steps and items of the run that this one resumes, by their names."""
        self._earlier_whole: dict[str, str] = {}
        self.marks = marks_of_attempt(self.run_id, launch.attempt, runtime.identity)
        self.outcome = ""
        """How the steps ended; set for handlers."""
        self.resumed = self._resume(given.get(RESUME)) if given else ()
        """Steps reused from an earlier run."""

    def note_head_of(self, step: Step, started_at: int, tries: int) -> NoteHead:
        """What the next keeper has to know of a try if this one is killed: whether its end decides the attempt's."""
        work = self._work
        is_all = len(work.steps) == 1 and work.steps[0] is step and step.repeat is None and step.output is None
        is_end = is_all and work.handlers == NO_HANDLERS and not work.post_run_hooks
        is_last = tries > step.retry.max_retries and step.continue_on == STOP_ON_FAILURE
        return NoteHead(step.name, self._digests.get(step.name, ""), started_at, tries, is_end, is_end and is_last)

    def masker(self) -> Masker:
        # A masker without secrets keeps no state and can be shared.
        return Masker(self._secrets.values) if self._secrets.values else _NOTHING_TO_MASK

    def env_of(self, step: Step, confinement: Confinement | None = None) -> dict[str, str]:
        confinement = confinement or self.confinement_of(step)
        run = {**self._variables, **self._step_variables(step)}
        if self.outcome:
            run[variables.OUTCOME] = self.outcome
        env = self._job_env(confinement, run)
        self._secrets.add_environment(step.env, env)
        # First to be referred to, and last because no job may replace them.
        env.update(run)
        return self._checked(env, confinement)

    def _step_variables(self, step: Step) -> dict[str, str]:
        return {
            **step_variables(self.run_id, self._launch.attempt, step.name),
            **item_variables(step.item, self._parent),
        }

    def _job_env(self, confinement: Confinement, run: Mapping[str, str]) -> dict[str, str]:
        """What every step has, in the order in which values may refer to each other."""
        env = {**self._base_env(confinement), **run, **self._dotenv, **self._params}
        self._secrets.add_environment(self._work.env, env)
        env.update(self.outputs.variables)
        return env

    def folder_of(self, step: Step, confinement: Confinement | None = None) -> str | None:
        confinement = confinement or self.confinement_of(step)
        own = _folder_of(self._work.working_dir, confinement)
        if step.working_dir is None or isinstance(step.kind, Pod):  # a pod has it inside
            return own
        home = confinement.account.home if confinement.account is not None else ""
        return os.path.join(own or home, _expanded(step.working_dir, confinement))

    def confinement_of(self, step: Step) -> Confinement:
        """The user and sandbox of a step; what the step does not set, its job does."""
        if isinstance(step.kind, Pod | Container):
            return UNCONFINED  # the process here is ours and only watches the container
        if isinstance(step.kind, SshCommand):
            # OpenSSH needs the network and the keys of its account, and nothing of the job runs here.
            return replace(self._confinement if step.user is None else self._confined(step.user, None), sandbox=None)
        if step.user is None and step.sandbox is None:
            return self._confinement
        confinement = self._confined(step.user, step.sandbox or self._work.sandbox)
        return confinement if step.user is not None else replace(confinement, account=self._confinement.account)

    def _confined(self, user: str | None, sandbox: Sandbox | None) -> Confinement:
        account = find_account(user) if user is not None else None
        runtime = self._runtime
        return Confinement(account, sandbox, runtime.hidden, runtime.shown, runtime.unshowable)

    def _base_env(self, confinement: Confinement) -> dict[str, str]:
        """The variables inherited from the scheduler, and those of the user."""
        inherited = {name: value for name, value in self._runtime.env.items() if name not in DOCKER_ACCESS}
        env = {**inherited, **(confinement.account.env if confinement.account is not None else {})}
        if not confinement.is_plain:
            env.pop("TMPDIR", None)  # the scheduler's own
        return env

    def _checked(self, env: dict[str, str], confinement: Confinement) -> dict[str, str]:
        if confinement.sandbox is not None and confinement.sandbox.kind is SandboxKind.SYSTEMD_RUN:
            for name, value in env.items():
                if self._is_secret(value):
                    raise StepError(
                        f"the variable {name!r} holds a secret, and systemd shows the environment of its services to "
                        "every user. Use 'sandbox: bwrap' instead."
                    )
        return check_environment(env)

    def log_of(self, step: Step) -> LogWriter:
        name = file_name(step.name) + SUFFIX
        folder = partial(self._attempt_folder, self._launch.attempt)
        return LogWriter(self._runtime.logs, folder, name, self._work.log_max_bytes, self.masker())

    def program_of(self, step: Step) -> Program | HttpRequest:
        match step.kind:
            case Command():
                return command_program(step.kind)
            case Script():
                return script_program(step.kind)
            case PythonCall():
                return python_program(step.kind, self._params, has_result=step.output is not None)
            case HttpCall(url, method, headers, body, expected):
                parse_url(url)
                named = tuple((name, self._secrets.value_of(value)) for name, value in headers)
                return HttpRequest(url, method, named, None if body is None else body.encode(), expected)
            case Pipeline():
                # Imported on use: most keepers never need it, and should stay small.
                from evertick.kinds.pipeline.program import pipeline_program

                has_result = step.output is not None
                return pipeline_program(step.kind, self.folder_of(step), self._params, has_result=has_result)
            case SubJob():
                raise AssertionError("a sub-run needs no program")
            case Pod():
                return self._pod(step, step.kind)
            case Container():
                return self._container(step, step.kind)
            case SshCommand():
                from evertick.kinds.ssh import ssh_program

                folder = self.folder_of(step) or os.path.expanduser("~")
                return ssh_program(step.kind, self._env_elsewhere(step), folder, self._runtime.grace_seconds)

    def _pod(self, step: Step, pod: Pod) -> Program:
        # Imported on use, as pipelines are.
        from evertick.kinds.kubernetes.program import ACCESS, StepId, program_of

        launch = self._launch
        return program_of(
            pod,
            StepId(launch.key, launch.attempt, launch.fence, step.name),
            self._pod_env(step),
            {name: launch.secrets[name] for name in ACCESS if name in launch.secrets},
            working_dir=step.working_dir,
            # The cluster enforces it too: a pod must not outlive its timeout if this machine is gone.
            timeout_us=min(filter(None, (step.timeout_us, self._work.timeout_us)), default=None),
            grace_seconds=self._runtime.grace_seconds,
        )

    def _pod_env(self, step: Step) -> dict[str, str]:
        """The environment of a pod: nothing of this machine and nothing secret: its specification is readable."""
        for name, value in self.outputs.variables.items():
            if self.masker().masks(value.encode("utf-8", "surrogateescape")):
                raise StepError(f"the output {name!r} holds a secret, and everyone who may see the pod could read it.")
        if step.item is not None and self._holds_secret(step.item.value):
            raise StepError("the value of the item holds a secret, and everyone who may see the pod could read it.")
        run = {**run_variables(self._launch, self.run_id), **self._dates, **self._step_variables(step)}
        env = {**run, **self._params}
        add_plain_environment(self._work.env, env)
        env.update(self.outputs.variables)
        add_plain_environment(step.env, env)
        return {**env, **run}

    def _container(self, step: Step, container: Container) -> Program:
        from evertick.kinds.docker.program import Allowed, StepId, docker_program, instance_of
        from evertick.kinds.docker.registry import Login

        launch, runtime = self._launch, self._runtime
        # A member's operator decides about the member. Here the settings do, as they are now: this keeper may be older.
        allowed = Allowed.of(runtime.env if variables.MEMBER in self._variables else launch.secrets)
        step_id = StepId(instance_of(runtime.home), launch.key, launch.attempt, step.name)
        folder = self.folder_of(step) or os.path.expanduser("~")
        env, login = self._env_elsewhere(step), None
        if container.registry is not None:
            value_of = self._secrets.value_of
            login = Login(value_of(container.registry.username), value_of(container.registry.password))
        return docker_program(container, step_id, env, allowed, folder, runtime.grace_seconds, login)

    def process_env_of(self, step: Step, confinement: Confinement) -> dict[str, str]:
        """The environment of the process here: of a step that runs elsewhere, only what finds and describes it."""
        if not isinstance(step.kind, SshCommand | Container):
            return self.env_of(step, confinement)
        return {**self._base_env(confinement), **self._variables, **self._step_variables(step)}

    def _env_elsewhere(self, step: Step) -> dict[str, str]:
        """The environment of what runs on another machine or in a container: nothing of this machine's."""
        run = {**run_variables(self._launch, self.run_id), **self._dates, **self._step_variables(step)}
        if self.outcome:
            run[variables.OUTCOME] = self.outcome
        env = {**run, **self._dotenv, **self._params}
        self._secrets.add_environment(self._work.env, env)
        env.update(self.outputs.variables)
        self._secrets.add_environment(step.env, env)
        return check_environment({**env, **run})

    def params_for(self, step: Step, kind: SubJob) -> str:
        """The parameters of a sub-run; `${NAME}` is a variable of the step."""
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
                raise StepError(f"the parameter {name!r} refers to {value}, and the step has no such variable.")
            if self._is_secret(given[name]):
                # Parameters are stored in the ledger and shown unmasked.
                raise StepError(
                    f"the parameter {name!r} of job {kind.job_id!r} holds a secret, and everyone who sees its runs can "
                    f"read their parameters. Name the secret in 'env' of {kind.job_id!r} instead."
                )
        return json.dumps(given)

    def set_sub_run(self, step: Step, job_id: str, number: int) -> str:
        run_id = sub_run_key(job_id, self._launch.key, self._launch.attempt, step.name, number).run_id
        self._sub_runs[step.name] = run_id
        return run_id

    async def why_unmet(
        self, condition: Condition, add: Callable[[Cancellable], None], step: Step | None = None
    ) -> str | None:
        if step is not None:
            confinement = self.confinement_of(step)
            env, folder = self.env_of(step, confinement), self.folder_of(step, confinement)
        else:
            folder, confinement = self._folder, self._confinement
            written = self._job_env(confinement, self._variables)
            env = self._checked({**written, **self._variables}, confinement)
        return await why_unmet(condition, self._runtime, env, folder, self.marks, add, confinement)

    async def why_refused(self, hook: Value, add: Callable[[Cancellable], None], state: str = "") -> str | None:
        """Call a hook that decides whether the run may start or counts as a success; headers name the run."""
        headers = {
            "Evertick-Job": self._launch.key.job_id,
            "Evertick-Run": self.run_id,
            "Evertick-Attempt": str(self._launch.attempt),
            "Evertick-State": state,
        }
        plain = tuple((name, value) for name, value in headers.items() if value and value.isascii())
        return await why_refused(self._secrets.value_of(hook), plain, self._runtime, add)

    def completed(self, end: StepEnd, item: Item | None = None) -> StepEnd:
        """The end of a step with its output, digest and sub-run, for the ledger."""
        value = self.outputs.public_of(end.name)
        if value is not None:
            end = end._replace(output=value[:OUTPUT_MAX], is_output_cut=len(value) > OUTPUT_MAX)
        digest = self._digests.get(end.name, "")
        if item is not None:
            end = end._replace(item_of=item.step, item=self.shown(item))
            digest = self._digest_of_item(item)
        return end._replace(digest=digest, sub_run=self._sub_runs.get(end.name, ""))

    # Items

    def items_of(self, step: Step) -> tuple[Step, ...]:
        """A step for each item of a step with `each`; `StepError` if its list cannot be used."""
        try:
            items = items_of(step, self._value_of, self.outputs.by_step)
            steps = tuple(self._item_step(step, item) for item in items)
        except ItemsError as error:
            raise StepError(str(error)) from None
        self._items += len(items)
        if self._items > RUN_ITEMS_MAX:
            raise StepError(f"the steps of this run have more than {RUN_ITEMS_MAX:,} items. Use several jobs.")
        return steps

    def sent_step(self, sent: SentItem) -> Step:
        """The step of an item that another member's run has sent."""
        return self._item_step(next(step for step in self._work.steps if step.name == sent.item.step), sent.item)

    def sent_item(self, step: Step) -> SentItem | None:
        """What another member needs to run an item; None: it runs here, with its run."""
        assert step.item is not None
        owner = next(one for one in self._work.steps if one.name == step.item.step)
        if not (self._spreads and spreads_items(owner)):
            return None
        # What the ledger keeps for the item can be read by everyone who sees its run.
        if self._holds_secret(step.item.value) or not self.outputs.may_be_sent:
            return None
        launch, params = self._launch, without_resume(self._launch.params)
        known = (launch.trigger, params, launch.previous_success_at, self.outputs.variables, digest_of_work(launch))
        return SentItem(step.item, self.run_id, *known)

    def forget_sub_run(self, step: Step) -> None:
        """It is not run elsewhere after all."""
        self._sub_runs.pop(step.name, None)

    def _item_step(self, step: Step, item: Item) -> Step:
        own = replace(step, name=item_name(step.name, item.number), preconditions=(), each=None, item=item)
        if not self._holds_secret(item.value):
            return render_step(own, item_value_of(item, self._value_of))
        return render_step(own, partial(_without_secret, self._value_of))

    def reused_item(self, step: Step) -> StepEnd | None:
        """The end of an item that succeeded in the run that this one resumes, and has not changed."""
        assert step.item is not None
        known = self._earlier.get(step.name)
        if known is None or known.state != StepOutcome.SUCCEEDED or known.digest != self._digest_of_item(step.item):
            return None
        return self._reused(step, known) if known.digest else None

    def shown(self, item: Item) -> str:
        """The value of an item, for the ledger."""
        return "" if self._holds_secret(item.value) else cut(item.value.shown, ITEM_SHOWN_MAX)

    def _digest_of_item(self, item: Item) -> str:
        """Of the definition and of the value; empty if that holds a secret, of which a digest could be guessed."""
        return "" if self._holds_secret(item.value) else f"{self._digests[item.step]}.{digest_of_value(item.value)}"

    def _holds_secret(self, value: ItemValue) -> bool:
        return any(map(self._is_secret, (value.shown, *dict(value.fields).values())))

    def _is_secret(self, value: str) -> bool:
        return self.masker().masks(value.encode("utf-8", "surrogateescape"))

    def save_outputs(self) -> None:
        """Save the outputs for a later attempt that resumes this one; never one that holds a secret."""
        save_outputs(self._runtime.logs, self._attempt_folder(self._launch.attempt), self.outputs.public())

    def _resume(self, earlier: object) -> tuple[StepEnd, ...]:
        """Steps that need not run again: they succeeded, have not changed, and their output is available."""
        if not isinstance(earlier, Mapping):
            return ()
        self._earlier_run = str(earlier.get("run", ""))
        self._earlier = {step.name: step for step in read_steps(json.dumps(earlier.get("steps")))}
        with suppress(ValueError):
            parts = (*run_folder(RunKey.from_run_id(self._earlier_run)), str(int(str(earlier.get("attempt")))))
            self._earlier_whole = read_outputs(self._runtime.logs, parts)
        done: list[StepEnd] = []
        for step in self._work.steps:
            known = self._earlier.get(step.name)
            if known is None or known.state != StepOutcome.SUCCEEDED or known.digest != self._digests[step.name]:
                continue
            reused = self._reused(step, known)
            if reused is not None:
                done.append(reused)
        return tuple(done)

    def _reused(self, step: Step, known: StepRecord) -> StepEnd | None:
        if step.output is not None:
            value = known.output if not known.is_output_cut else self._earlier_whole.get(step.name)
            if value is None:
                return None
            self.outputs.set(step, value)
        at = known.started_at or 0, known.finished_at or 0
        end = StepEnd(step.name, known.state, *at, known.exit_code, tries=0, reused_from=self._earlier_run)
        return self.completed(end, step.item)

    def _attempt_folder(self, attempt: int) -> tuple[str, ...]:
        return (*run_folder(self._launch.key), str(attempt))


def _folder_of(written: str | None, confinement: Confinement) -> str | None:
    """The working folder of a job; None: the keeper's home, or an empty one in a sandbox."""
    account = confinement.account
    if written is not None:
        return os.path.join(account.home if account is not None else "", _expanded(written, confinement))
    return account.own_folder if account is not None and confinement.sandbox is None else None


def _expanded(path: str, confinement: Confinement) -> str:
    """Expand `~` to the home of the account."""
    return os.path.expanduser(path) if confinement.account is None else confinement.account.expanded(path)


def _without_secret(value_of: Callable[[Expression], str], expression: Expression) -> str:
    """An argument or an address is visible to others, so that an item with a secret is only a variable."""
    if expression.name == ITEM:
        raise ItemsError(f"an item holds a secret, which {{{{ item }}}} would show to others. Use ${variables.ITEM}.")
    return value_of(expression)
