"""What `why` answers about an occurrence, for each outcome."""

from __future__ import annotations

import pytest

from evertick.errors import InvalidArgument, NotFound
from evertick.model.facts import Facts, facts_text
from evertick.model.instant import MILLISECOND, MINUTE, SECOND
from evertick.model.ledger import Batch, bucket_of
from evertick.model.lifecycle import FAILED, LAUNCHING, RETRYING, RUNNING, SKIPPED, WAITING, SkipReason, Trigger
from evertick.operations.results.requests import NextStepKind
from evertick.operations.submission import read_run_id
from evertick.operations.why import explain_occurrence
from tests.operations.ledger import TEXT, at, change, entry, fill, job, key, ran

CATCHING_UP = TEXT + "catchupWindow: 6h\n"


def ask(store, when, text=TEXT, now=6.5, *, is_known=True):
    return explain_occurrence(store, "etl", when, {"etl": job(text)} if is_known else {}, at(now))


def test_a_skip_by_overlap_has_a_readable_explanation(store):
    text = (
        "# hourly\nschedule: '0 * * * *'\ntimezone: Europe/Berlin\ncatchupWindow: 6h\noverlapPolicy: skip\ncommand: x\n"
    )
    fill(store, entry(1), entry(2), watermark=3, one=job(text))
    ran(store, key(1), at(1), at(2) + 12 * MINUTE + 41 * SECOND)
    facts = facts_text(Facts(other=key(1).run_id, other_state="running"))
    change(store, key(2), SKIPPED, at(2) + 4 * MILLISECOND, reason=SkipReason.OVERLAP, facts=facts)
    answer = ask(store, "2026-03-02T03:00", text)
    assert (answer.at, answer.zone, answer.verdict) == (at(2), "Europe/Berlin", "skipped: overlap")
    assert answer.sentences == (
        "decided 03:00:00.004 on node a1; the run of 02:00 was still active (02:00:00 to 03:12:41)",
        "rule: overlapPolicy: skip, from jobs/etl.yaml:5",
        "to run every occurrence one after another: replace overlapPolicy with missed: all and overlap: wait",
    )
    assert [str(step) for step in answer.next_steps] == [
        "to run it now: evertick backfill etl --from 2026-03-02T03:00 --to 2026-03-02T03:00:01"
    ]
    assert answer.other is not None
    assert answer.other.key == key(1)


def test_a_skipped_requested_run_is_requested_again_and_not_looked_for_in_the_schedule(store):
    asked = entry(1.5, key=key(1.5, "cli-1"), trigger=Trigger.MANUAL, state=SKIPPED, reason=SkipReason.OVERLAP)
    fill(store, asked, watermark=3)
    steps = explain_occurrence(store, "etl", key(1.5, "cli-1"), {"etl": job()}, at(2)).next_steps
    assert [(step.kind, step.command) for step in steps] == [
        (NextStepKind.RETRY, "evertick retry etl@2026-03-02T01:30:00Z~cli-1")
    ]


def test_the_detail_of_the_previous_attempt_is_not_shown_as_the_running_ones(store):
    fill(store, entry(1), watermark=2)
    ran(store, key(1), at(1), None)
    change(store, key(1), RETRYING, at(1.1), retry_at=at(1.2), detail="exit code 5")
    assert "exit code 5" in ask(store, "2026-03-02T02:00").sentences
    change(store, key(1), LAUNCHING, at(1.2), attempt=2)
    change(store, key(1), RUNNING, at(1.2), started_at=at(1.2))
    assert "previous attempt: exit code 5" in ask(store, "2026-03-02T02:00").sentences


def test_the_rule_of_a_caught_up_run_is_named_once(store):
    fill(store, entry(1, trigger=Trigger.CATCHUP), watermark=2)
    ran(store, key(1), at(1), at(1.5))
    told = ask(store, "2026-03-02T02:00", CATCHING_UP).sentences
    assert [one for one in told if one.startswith("rule: ")] == ["rule: missed: first, from default of catchupWindow"]


def test_a_run_that_waited_itself_is_not_called_active(store):
    fill(store, entry(1), entry(2), watermark=3)
    ran(store, key(1), at(2.5), at(2.75))
    facts = facts_text(Facts(other=key(1).run_id, other_state="waiting"))
    change(store, key(2), SKIPPED, at(2), reason=SkipReason.OVERLAP, facts=facts)
    assert (
        "the run of 02:00 was still waiting (it ran 03:30:00 to 03:45:00)"
        in ask(store, "2026-03-02T03:00").sentences[0]
    )


@pytest.mark.parametrize(
    ("written", "reason", "facts", "said", "policy", "advice"),
    [
        pytest.param(
            "",
            SkipReason.MISSED,
            Facts(missed_by="none"),
            "no scheduler was running when it was due, and the job does not run missed occurrences",
            "rule: missed: none, from default",
            "to run missed occurrences: missed: all and overlap: wait",
            id="missed",
        ),
        pytest.param(
            "catchupWindow: 6h\n",
            SkipReason.MISSED,
            Facts(),
            "missed, and older than the catch-up window",
            "rule: catchupWindow: 6h, from jobs/etl.yaml:4",
            "to run older ones: set a catchupWindow longer than 6h",
            id="older than the window",
        ),
        pytest.param(
            "catchupWindow: 6h\n",
            SkipReason.OVERLAP,
            Facts(missed_by="first"),
            "no scheduler was running when it was due; only the first missed occurrence runs",
            "rule: missed: first, from default of catchupWindow",
            "to run missed occurrences: missed: all and overlap: wait",
            id="not the first that was missed",
        ),
        pytest.param(
            "overlap: latest\n",
            SkipReason.SUPERSEDED,
            Facts(other=key(4).run_id),
            "the newer run of 05:00 replaced it",
            "rule: overlap: latest, from jobs/etl.yaml:4",
            "to run every occurrence one after another: overlap: wait",
            id="superseded",
        ),
        pytest.param(
            "window: {maxDelayMinutes: 30}\n",
            SkipReason.LATE,
            Facts(),
            "later than the job's window allows",
            "rule: maxDelayMinutes: 30, from jobs/etl.yaml:4",
            "to allow later starts: increase maxDelayMinutes",
            id="late",
        ),
        pytest.param(
            "skipIfSuccessful: true\n",
            SkipReason.ALREADY_SUCCEEDED,
            Facts(success_for=at(1.5)),
            "a run has already succeeded for 02:30:00",
            "rule: skipIfSuccessful: true, from jobs/etl.yaml:4",
            "to run it anyway: skipIfSuccessful: false",
            id="already succeeded",
        ),
        pytest.param(
            "enabled: false\n",
            SkipReason.DISABLED,
            Facts(held_since=at(-12)),
            "the job had been disabled since 2026-03-01 13:00:00",
            "rule: enabled: false, from jobs/etl.yaml:4",
            "to run it: enabled: true",
            id="disabled",
        ),
    ],
)
def test_a_skip_names_its_rule_the_place_of_it_and_the_way_out(store, written, reason, facts, said, policy, advice):
    # Where there are facts, the words beside them decide nothing.
    detail = said if facts == Facts() else "words that are not read"
    fill(store, entry(2, state=SKIPPED, reason=reason, detail=detail, facts=facts_text(facts)), watermark=6)
    sentences = ask(store, "2026-03-02T03:00", TEXT + written).sentences
    assert sentences[0].endswith(f"; {said}")
    assert sentences[1:3] == (policy, advice)


@pytest.mark.parametrize("reason", SkipReason)
def test_every_reason_for_a_skip_is_answered(store, reason):
    fill(store, entry(2, state=SKIPPED, reason=reason, detail="so it was"), watermark=6)
    answer = ask(store, "2026-03-02T03:00")
    assert answer.reason is reason
    assert answer.ruling.advice.startswith("to ")


def test_a_gap_is_reported_by_its_extent(store):
    gap = entry(1, state=SKIPPED, reason=SkipReason.PAUSED, through=at(12), occurrences=12, detail="the job was paused")
    fill(store, gap, watermark=12)
    answer = ask(store, "2026-03-02T05:00", now=12.5)
    assert "one of 12 occurrences skipped together, from 2026-03-02 02:00 to 2026-03-02 13:00" in answer.sentences
    assert "to catch up on the next resume: evertick resume etl --catchup all" in map(str, answer.next_steps)
    assert ask(store, "2026-03-02T05:20", now=12.5).outcome == "no occurrence"


def test_a_run_is_reported_by_its_course(store):
    fill(store, entry(2), watermark=6)
    ran(store, key(2), at(2) + 12 * MILLISECOND, at(2) + 63 * SECOND, FAILED, exit_code=3, detail="step 'x' failed")
    answer = ask(store, "2026-03-02T03:00")
    assert answer.verdict == "failed"
    assert answer.sentences == (
        "decided 02:59:55 on node a1; an occurrence of its schedule",
        "started 03:00:00.012 on local, 12ms late",
        "ended 03:01:03 after 1m 2s, exit code 3",
        "step 'x' failed",
    )
    assert [str(step) for step in answer.next_steps] == [
        "output: evertick logs etl@2026-03-02T02:00:00Z",
        "to retry it: evertick retry etl@2026-03-02T02:00:00Z",
    ]


def test_a_run_that_waits_names_what_it_waits_for(store):
    fill(store, entry(1), entry(2), watermark=6)
    ran(store, key(1), at(1), None)
    change(store, key(2), WAITING, at(2))
    answer = ask(store, "2026-03-02T03:00", TEXT + "overlap: wait\n")
    assert "waiting for etl@2026-03-02T01:00:00Z (running)" in answer.sentences
    assert "rule: overlap: wait, from jobs/etl.yaml:4" in answer.sentences


@pytest.mark.parametrize(
    ("when", "outcome", "words"),
    [
        pytest.param("2026-03-02T09:00", "due", "it runs in 1h 30m", id="a future occurrence"),
        pytest.param(
            "2026-03-02T09:20",
            "no occurrence",
            "the nearest: before 2026-03-02 09:00, after 2026-03-02 10:00",
            id="a future time between two",
        ),
        pytest.param(
            "2026-03-02T03:20",
            "no occurrence",
            "the nearest: before 2026-03-02 03:00, after 2026-03-02 04:00",
            id="a past time between two",
        ),
        pytest.param(
            "2026-03-01T12:00", "unknown", "the ledger has no entries for this job before", id="before the job"
        ),
        pytest.param("2026-03-02T07:00", "undecided", "no scheduler has planned beyond", id="after the watermark"),
        pytest.param(
            "2026-03-02T04:00", "missing", "it was due, but the ledger has no entry", id="a line that is not there"
        ),
        pytest.param(
            "2026-03-02T03:00Z", "missing", "it was due, but the ledger has no entry", id="a time with an offset"
        ),
    ],
)
def test_a_time_without_a_line(store, when, outcome, words):
    fill(store, entry(2), watermark=5.5)
    answer = ask(store, when)
    assert (answer.outcome, words in answer.sentences[0]) == (outcome, True)
    assert not [sentence for sentence in answer.sentences if "evertick " in sentence]


def test_a_paused_job_explains_coming_and_past_occurrences(store):
    fill(store, watermark=5.5, paused_at=at(5.5), pause_note="a move", held=True)
    assert "but the job has been paused since 2026-03-02 06:30 (a move)" in ask(store, "2026-03-02T09:00").sentences[0]
    assert "the job has been paused since 2026-03-02 06:30" in ask(store, "2026-03-02T07:00").sentences[0]


def test_without_a_time_the_newest_that_has_come_is_meant(store):
    fill(store, entry(5), entry(6), entry(7), watermark=7)
    assert ask(store, None).at == at(6)


def test_without_a_time_and_a_past_the_next_is_meant(store):
    fill(store, watermark=6)
    assert ask(store, None, now=6.5).at == at(7)


def test_a_requested_run_is_asked_for_by_its_id(store):
    by_hand = entry(2.5, key=key(2.5, "r1"), trigger=Trigger.MANUAL)
    fill(store, by_hand, watermark=6)
    answer = ask(store, read_run_id("etl@2026-03-02T02:30:00Z~r1"))
    assert answer.row is not None
    assert answer.row.key.origin == "r1"
    assert "requested (manual)" in answer.sentences[0]


def test_the_local_time_that_comes_twice_is_the_one_that_is_due(store):
    text = "schedule: '30 2 * * *'\ntimezone: Europe/Berlin\ncommand: x\n"
    fill(store, watermark=5)
    answer = explain_occurrence(store, "etl", "2026-10-25T02:30", {"etl": job(text)}, at(0))
    assert (answer.outcome, answer.at) == ("due", read_run_id("etl@2026-10-25T00:30:00Z").scheduled_for)


def test_without_its_file_the_zone_and_schedule_come_from_the_ledger_and_the_policy_is_not_known(store):
    fill(store, entry(2, state=SKIPPED, reason=SkipReason.MISSED), watermark=6)
    answer = ask(store, "2026-03-02T03:00", is_known=False)
    assert answer.zone == "Europe/Berlin"
    assert "rule: unknown" in answer.sentences[1]
    assert "if the job file exists: evertick why etl --folder FOLDER" in map(str, answer.next_steps)


def test_a_job_that_is_not_there_names_the_nearest(store):
    fill(store, watermark=1)
    with pytest.raises(NotFound, match="Did you mean 'etl'"):
        explain_occurrence(store, "elt", None, {}, at(2))


@pytest.mark.parametrize("when", ["someday", "25:00", "0001-01-01T00:00"])
def test_an_invalid_time_is_refused(store, when):
    fill(store, watermark=1)
    with pytest.raises(InvalidArgument):
        ask(store, when)


def test_a_job_without_a_schedule_was_never_due(store):
    one = job("command: x\n")
    store.commit(Batch(by="a1/1#1"))
    assert explain_occurrence(store, "etl", None, {"etl": one}, at(1)).outcome == "no occurrence"


@pytest.mark.parametrize(
    ("late", "said"),
    [
        pytest.param(-90, "due in 1m 30s", id="still to come"),
        pytest.param(2, "due now", id="just now"),
        pytest.param(90, "it was due 1m 30s ago; no scheduler has planned this job since", id="long ago"),
    ],
)
def test_a_run_that_has_not_started_shows_how_late_it_is(store, late, said):
    fill(store, entry(2), watermark=6)
    sentences = ask(store, "2026-03-02T03:00", now=2 + late / 3_600).sentences
    assert sentences[1].startswith(said)


@pytest.mark.parametrize(
    ("late", "said"),
    [
        pytest.param(90, "the scheduler is running and starts it next", id="a moment ago"),
        pytest.param(1_200, "it is stuck and waits for nothing; the scheduler retries it", id="long ago"),
    ],
)
def test_an_overdue_run_beside_a_working_scheduler_is_reported_as_stuck(store, late, said):
    fill(store, entry(2), watermark=6)
    store.commit(Batch(by="a1/1#2", floors={bucket_of("etl"): at(6)}))
    assert said in ask(store, "2026-03-02T03:00", now=2 + late / 3_600).sentences[1]
