"""Why a message that is delivered twice, late or out of order does no harm."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from evertick.loop import messages as m
from evertick.loop.state import HandledRequest, State
from evertick.model.answer import Answer

ANSWERED_MAX: Final = 10_000
"""How many answered requests are remembered. The ledger does not return them again; this is for other callers."""


class Identity(Enum):
    """What identifies a message."""

    REQUEST = "its request id: a request is executed once, and one about a job of another node is left to its owner"
    ATTEMPT = "the run and the attempt: a report about any attempt but the current one changes nothing"
    LAUNCH = "the run and the fence of the launch: a refusal of any launch but the last one changes nothing"
    SUB_RUN = "the key of the run that the step requests, which is always the same"
    WRITE = "the number of the write that it answers: an answer counts once"
    EPOCH = "the bucket and its epoch: only a newer epoch is gained, and only the current one is lost"
    ASKED = "the question that it answers: without an open question it changes nothing"
    STATE = "nothing: it has the complete state, so that a repetition changes nothing and the last one counts"


IDENTITY: Final[Mapping[type, Identity]] = {
    m.TimePassed: Identity.STATE,
    m.Shutdown: Identity.STATE,
    m.DefinitionsChanged: Identity.STATE,
    m.DefinitionsResynced: Identity.STATE,
    m.DefinitionEventsLost: Identity.STATE,
    m.BlackoutsSeen: Identity.STATE,
    m.BucketsGained: Identity.EPOCH,
    m.BucketsLost: Identity.EPOCH,
    m.LeaseRenewed: Identity.STATE,
    m.NodesSeen: Identity.STATE,
    m.OrphansFound: Identity.ATTEMPT,
    m.BatchCommitted: Identity.WRITE,
    m.BatchFenced: Identity.WRITE,
    m.ChangesRecorded: Identity.WRITE,
    m.OpenRunsSeen: Identity.ASKED,
    m.OutcomesSeen: Identity.ASKED,
    m.StopsSeen: Identity.ATTEMPT,
    m.PlacementsSeen: Identity.ASKED,
    m.ReportsRead: Identity.ASKED,
    m.MembersSeen: Identity.STATE,
    m.AttemptSeen: Identity.ATTEMPT,
    m.RunStarted: Identity.ATTEMPT,
    m.RunHeartbeat: Identity.ATTEMPT,
    m.StepsSeen: Identity.ATTEMPT,
    m.RunFinished: Identity.ATTEMPT,
    m.RunLost: Identity.ATTEMPT,
    m.RunUnknown: Identity.ATTEMPT,
    m.LaunchRefused: Identity.LAUNCH,
    m.SubRunWanted: Identity.SUB_RUN,
    m.SubRunUnwanted: Identity.SUB_RUN,
    m.SubRunsSeen: Identity.ASKED,
    m.TriggerJob: Identity.REQUEST,
    m.CancelRun: Identity.REQUEST,
    m.PauseJob: Identity.REQUEST,
    m.ResumeJob: Identity.REQUEST,
    m.BackfillJob: Identity.REQUEST,
    m.ForwardedReport: Identity.REQUEST,
    m.UpstreamEnded: Identity.REQUEST,
}
"""For every kind of message; `tests/loop/test_delivery.py` delivers each of them twice."""


def answer_known(state: State, request_id: str) -> HandledRequest | None:
    """The answer to a request that was delivered before; None: it is new."""
    return state.handled.get(request_id) or state.answered.get(request_id)


def take(state: State, request_id: str, job_id: str, answer: Answer) -> None:
    """Remember a request that is being executed, until the ledger has its answer and for a while after."""
    state.handled[request_id] = HandledRequest(job_id, answer)


def note_answered(state: State, request_id: str) -> None:
    """The ledger has the answer: forget the request when enough others have been answered since."""
    handled = state.handled.pop(request_id, None)
    if handled is None:
        return
    state.answered[request_id] = handled
    if len(state.answered) > ANSWERED_MAX:
        del state.answered[next(iter(state.answered))]
