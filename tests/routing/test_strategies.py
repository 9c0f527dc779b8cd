"""Whether each strategy chooses as documented, whichever members are there."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evertick.model.member import Member
from evertick.model.routing import Routing, Strategy
from evertick.routing.placement import Placement, Shard, parse_placement
from evertick.routing.selection import NoPlacement, PlacementRequest, place
from evertick.routing.strategies import HISTORY, STRATEGIES, RoutingContext

NAMES = st.lists(st.sampled_from([f"ex-{letter}" for letter in "abcdefghij"]), min_size=1, unique=True).map(sorted)
JOBS = st.text("abcdefgh", min_size=1, max_size=8)
CHOOSING = sorted(STRATEGIES)
ABC = ("ex-a", "ex-b", "ex-c")


def choose(strategy: Strategy, *names: str, **known) -> str | None:
    return STRATEGIES[strategy](
        RoutingContext(sorted(names), known.pop("job_id", "report"), known.pop("seed", "1"), **known)
    )


def members(*names: str, **known) -> list[Member]:
    return [Member(name, is_healthy=True, running=0, **known) for name in names]


def asked(strategy: Strategy, *there: Member, labels=(), **known) -> PlacementRequest:
    return PlacementRequest(
        Routing("fleet", strategy, labels), there, "report", "report@09:00", known.pop("attempt", 1), **known
    )


def sequence(strategy: Strategy, names: list[str], count: int, used: tuple[str, ...] = ()) -> list[str]:
    """What a strategy chooses, one after another, each knowing of those before."""
    chosen = list(used)
    for number in range(count):
        name = choose(strategy, *names, used=chosen[-HISTORY:], seed=str(number))
        assert name is not None
        chosen.append(name)
    return chosen[len(used) :]


@pytest.mark.parametrize(
    ("strategy", "known", "chosen"),
    [
        pytest.param(Strategy.FIRST, {}, "ex-a", id="first takes the first by name"),
        pytest.param(Strategy.LAST, {}, "ex-c", id="last takes the last by name"),
        pytest.param(Strategy.ROUND, {}, "ex-b", id="round begins at a hash of the job"),
        pytest.param(Strategy.ROUND, {"job_id": "job-0"}, "ex-a", id="round begins elsewhere for another job"),
        pytest.param(Strategy.ROUND, {"free": {"ex-a": 3, "ex-c": 1}}, "ex-a", id="round begins where there is room"),
        pytest.param(
            Strategy.ROUND,
            {"used": ["ex-a"], "free": {"ex-a": 3, "ex-c": 1}},
            "ex-c",
            id="of those that have had no turn, the one with the most free slots",
        ),
        pytest.param(
            Strategy.LRU, {"used": ["ex-a"], "free": {"ex-c": 1}}, "ex-c", id="lru of equals takes the most free slots"
        ),
        pytest.param(
            Strategy.LFU, {"used": ["ex-a"], "free": {"ex-c": 1}}, "ex-c", id="lfu of equals takes the most free slots"
        ),
        pytest.param(
            Strategy.LEAST_LOADED,
            {"free": {"ex-a": 1, "ex-c": 2}, "cpu": {"ex-c": 90.0}},
            "ex-c",
            id="least loaded takes the most free slots",
        ),
        pytest.param(
            Strategy.LEAST_LOADED,
            {"free": dict.fromkeys(ABC, 1), "cpu": {"ex-a": 5.0, "ex-b": 90.0, "ex-c": 20.0}},
            "ex-a",
            id="of equals least loaded takes the least cpu",
        ),
        pytest.param(Strategy.ROUND, {"used": ["ex-b"]}, "ex-c", id="round goes on behind the one used last"),
        pytest.param(Strategy.ROUND, {"used": ["ex-c"]}, "ex-a", id="round begins again after the last"),
        pytest.param(Strategy.ROUND, {"used": ["ex-bb"]}, "ex-c", id="round goes on behind one that has left"),
        pytest.param(Strategy.LRU, {"used": ["ex-c", "ex-a", "ex-b", "ex-a"]}, "ex-c", id="lru takes the oldest use"),
        pytest.param(Strategy.LRU, {"used": ["ex-a", "ex-c"]}, "ex-b", id="lru takes one that was never used first"),
        pytest.param(
            Strategy.LFU, {"used": ["ex-a", "ex-b", "ex-c", "ex-a"]}, "ex-b", id="lfu takes the rarest, oldest"
        ),
        pytest.param(Strategy.LFU, {"used": ["ex-a", "ex-b"]}, "ex-c", id="lfu takes one that was never used first"),
        pytest.param(Strategy.FAILOVER, {}, "ex-a", id="failover begins with the first"),
        pytest.param(Strategy.FAILOVER, {"last_tried": "ex-a"}, "ex-b", id="failover goes on to the next"),
        pytest.param(Strategy.FAILOVER, {"last_tried": "ex-c"}, "ex-a", id="failover comes back to the first"),
        pytest.param(Strategy.BUSYOVER, {"busy": frozenset({"ex-a"})}, "ex-b", id="busyover passes over the busy one"),
        pytest.param(Strategy.BUSYOVER, {"busy": frozenset(ABC)}, None, id="busyover waits when all are busy"),
    ],
)
def test_of_three_members(strategy, known, chosen):
    assert choose(strategy, *ABC, **known) == chosen


@given(st.sampled_from(CHOOSING), NAMES, JOBS, st.text(), st.lists(st.sampled_from(ABC)), st.sampled_from(["", *ABC]))
def test_only_those_who_are_there_are_chosen_and_twice_the_same(strategy, names, job_id, seed, used, tried):
    situation = RoutingContext(names, job_id, seed, used, tried)
    assert STRATEGIES[strategy](situation) in names
    assert STRATEGIES[strategy](situation) == STRATEGIES[strategy](situation)


@given(NAMES, st.integers(1, 4), st.lists(st.sampled_from(ABC), max_size=HISTORY).map(tuple))
def test_round_is_fair_wherever_it_begins(names, times, used):
    counts = Counter(sequence(Strategy.ROUND, names, times * len(names), used))
    assert counts == dict.fromkeys(names, times)


@given(NAMES, st.data())
def test_round_gives_every_member_a_turn_whatever_the_load(names, data):
    used: list[str] = []
    for _ in range(4 * len(names)):
        free = data.draw(st.fixed_dictionaries({name: st.integers(0, 3) for name in names}))
        used.append(str(choose(Strategy.ROUND, *names, used=used, free=free)))
    assert set(used) == set(names)


def test_a_member_without_a_limit_has_more_free_slots_than_one_with():
    there = [Member("ex-a", True, 0, slots=8), Member("ex-b", True, 20), Member("ex-c", True, 5)]
    assert place(asked(Strategy.LEAST_LOADED, *there)) == Placement("fleet", "ex-c")


@given(NAMES, st.integers(1, 4))
def test_lru_takes_everyone_in_turn(names, times):
    chosen = sequence(Strategy.LRU, names, times * len(names))
    assert chosen == chosen[: len(names)] * times
    assert sorted(chosen[: len(names)]) == names


@given(NAMES, st.integers(1, 30))
def test_lfu_keeps_the_counts_within_one_of_each_other(names, count):
    counts = Counter(sequence(Strategy.LFU, names, count))
    assert max(counts.values()) - min(counts[name] for name in names) <= 1


def test_a_member_that_joins_late_is_behind_by_no_more_than_the_history():
    used = tuple(sequence(Strategy.LFU, ["ex-a", "ex-b"], 1_000))
    chosen = sequence(Strategy.LFU, list(ABC), 4 * HISTORY, used[-HISTORY:])
    assert 0 < chosen[:HISTORY].count("ex-c") <= HISTORY // 2 + 1
    assert HISTORY // 4 < chosen[-HISTORY:].count("ex-c") < HISTORY // 2


@given(NAMES, JOBS, st.data())
def test_losing_a_member_moves_only_the_jobs_it_had(names, job_id, data):
    lost = data.draw(st.sampled_from(names))
    left = [name for name in names if name != lost]
    before = choose(Strategy.CONSISTENT_HASH, *names, job_id=job_id)
    if left and before != lost:
        assert choose(Strategy.CONSISTENT_HASH, *left, job_id=job_id) == before


@given(NAMES, JOBS)
def test_a_member_that_joins_takes_jobs_only_for_itself(names, job_id):
    before = choose(Strategy.CONSISTENT_HASH, *names, job_id=job_id)
    after = choose(Strategy.CONSISTENT_HASH, *names, "ex-new", job_id=job_id)
    assert after in {before, "ex-new"}


@pytest.mark.parametrize("strategy", [Strategy.RANDOM, Strategy.CONSISTENT_HASH])
def test_hashed_times_are_spread_evenly(strategy):
    counts = Counter(choose(strategy, *ABC, job_id=f"job-{number}", seed=str(number)) for number in range(3_000))
    assert all(850 < counts[name] < 1_150 for name in ABC)


def test_random_differs_between_the_attempts_of_a_run():
    chosen = {place(asked(Strategy.RANDOM, *members(*ABC), attempt=number)) for number in range(1, 20)}
    assert len(chosen) == 3


GPU = (("gpu", "true"),)


@pytest.mark.parametrize(
    ("there", "why"),
    [
        pytest.param([], "no member of the fleet is connected", id="nobody"),
        pytest.param(members("ex-a"), "of 1 member: none has gpu=true", id="another label"),
        pytest.param(
            members("ex-a", labels=GPU, is_open=False), "of 1 member with gpu=true: 1 cordoned", id="cordoned"
        ),
        pytest.param([Member("ex-a", False, 0, GPU)], "of 1 member with gpu=true: 1 away", id="away"),
        pytest.param([Member("ex-a", True, 2, GPU, slots=2)], "of 1 member with gpu=true: 1 full", id="full"),
    ],
)
@pytest.mark.parametrize("strategy", list(Strategy))
def test_an_attempt_that_finds_no_place_says_why(strategy, there, why):
    placed = place(asked(strategy, *there, labels=GPU))
    if strategy is Strategy.SHARDING_BROADCAST and why.endswith("full"):
        assert placed == Placement("fleet", shards=(Shard(0, "ex-a"),))
    else:
        assert placed == NoPlacement(why, is_full=why.endswith("full"))


CPU = (("cpu", 2_000),)


def having(name: str, cpu: int, used: int = 0, **known) -> Member:
    used_cpu = (("cpu", used),) if used else ()
    return Member(name, known.pop("is_healthy", True), 0, offers=(("cpu", cpu),), used=used_cpu, **known)


@pytest.mark.parametrize(
    ("there", "why"),
    [
        pytest.param(members("ex-a"), "of 1 member: none offers cpu=2", id="nobody has any"),
        pytest.param([having("ex-a", 1_500)], "of 1 member: none offers cpu=2 (the maximum is 1.5)", id="too small"),
        pytest.param([having("ex-a", 4_000, 3_000)], "of 1 member: 1 without room for cpu=2", id="no room now"),
        pytest.param(
            [having("ex-a", 4_000, is_healthy=False), having("ex-b", 1_000)],
            "of 2 members: 1 away, 1 without cpu=2",
            id="the one that could is away",
        ),
    ],
)
@pytest.mark.parametrize("strategy", CHOOSING)
def test_an_attempt_without_room_says_what_is_missing(strategy, there, why):
    request = asked(strategy, *there)
    placed = place(request._replace(routing=Routing("fleet", strategy, resources=CPU)))
    assert placed == NoPlacement(why, is_full="without room" in why)


def test_a_combination_that_no_member_has_is_reported():
    both = (("cpu", 2_000), ("gpus", 1_000))
    there = [Member("ex-a", True, 0, offers=(("cpu", 4_000),)), Member("ex-b", True, 0, offers=(("gpus", 1_000),))]
    request = asked(Strategy.FIRST, *there)._replace(routing=Routing("fleet", Strategy.FIRST, resources=both))
    assert place(request) == NoPlacement("of 2 members: none offers cpu=2 gpus=1 together")


def test_a_broadcast_goes_to_those_that_could_take_it_and_waits_for_their_room():
    routing = Routing("fleet", Strategy.SHARDING_BROADCAST, resources=CPU)
    there = [having("ex-a", 4_000), having("ex-b", 1_000), having("ex-c", 2_000)]
    request = asked(Strategy.SHARDING_BROADCAST, *there)._replace(routing=routing)
    assert place(request) == Placement("fleet", shards=(Shard(0, "ex-a"), Shard(1, "ex-c")))
    there[2] = having("ex-c", 2_000, 500)
    assert place(request._replace(members=there)) == NoPlacement(
        "of 2 members: ex-c has no room for cpu=2", is_full=True
    )


@given(st.sampled_from(CHOOSING), st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef")))
def test_only_members_with_the_labels_are_chosen(strategy, with_gpu, others):
    there = members(*with_gpu, labels=GPU) + members(*(others - with_gpu))
    placed = place(asked(strategy, *there, labels=GPU))
    if with_gpu:
        assert isinstance(placed, Placement)
        assert placed.member in with_gpu
    else:
        assert isinstance(placed, NoPlacement)


def test_a_broadcast_has_a_shard_for_every_member():
    placed = place(asked(Strategy.SHARDING_BROADCAST, *members("ex-b", "ex-a", "ex-c")))
    assert placed == Placement("fleet", shards=(Shard(0, "ex-a"), Shard(1, "ex-b"), Shard(2, "ex-c")))


@pytest.mark.parametrize(
    ("before", "is_open", "waits"),
    [
        pytest.param(None, True, True, id="before it begins"),
        pytest.param("fleet:*ex-a+,ex-b", True, True, id="before it is tried again"),
        pytest.param(None, False, False, id="not for one that is cordoned"),
    ],
)
def test_a_broadcast_waits_for_a_member_that_may_be_back_in_a_moment(before, is_open, waits):
    there = [*members("ex-a"), Member("ex-b", False, 0, is_open=is_open, is_awaited=True)]
    known = parse_placement(before) if before else None
    placed = place(asked(Strategy.SHARDING_BROADCAST, *there, before=known))
    if waits:
        assert placed == NoPlacement("of 2 members: ex-b may reconnect in a moment")
    else:
        assert placed == Placement("fleet", shards=(Shard(0, "ex-a"),))


def test_a_retry_repeats_only_the_shards_that_have_not_succeeded():
    before = parse_placement("fleet:*ex-a+,ex-b,ex-c+")
    placed = place(asked(Strategy.SHARDING_BROADCAST, *members(*ABC), before=before, attempt=2))
    assert isinstance(placed, Placement)
    assert placed.wanted == (Shard(1, "ex-b"),)
    assert len(placed.shards) == 3


def test_a_shard_whose_member_has_gone_moves_to_the_next_one():
    before = parse_placement("fleet:*ex-a+,ex-b,ex-c")
    placed = place(asked(Strategy.SHARDING_BROADCAST, *members("ex-a"), before=before, attempt=2))
    assert isinstance(placed, Placement)
    assert placed.wanted == (Shard(1, "ex-a"), Shard(2, "ex-a"))


def test_a_broadcast_passes_over_members_where_the_job_is_active():
    placed = place(asked(Strategy.SHARDING_BROADCAST, *members(*ABC), left_out=frozenset({"ex-b"})))
    assert isinstance(placed, Placement)
    assert (placed.members, len(placed.shards)) == (("ex-a", "ex-c"), 3)


SHARDS = st.lists(st.tuples(st.sampled_from(["", *ABC]), st.booleans()), min_size=1).map(
    lambda words: tuple(Shard(index, name, bool(name) and done) for index, (name, done) in enumerate(words))
)


@given(
    st.one_of(
        st.sampled_from(ABC).map(lambda name: Placement("fleet", name)),
        SHARDS.map(lambda shards: Placement("fleet", shards=shards)),
    )
)
def test_a_placement_is_read_back_as_it_was_written(placement):
    assert parse_placement(str(placement)) == placement


@pytest.mark.parametrize(
    ("text", "executor"),
    [
        pytest.param("", "", id="nowhere"),
        pytest.param("local@node-1", "local", id="this machine"),
        pytest.param("fleet:ex-a", "fleet", id="a member"),
        pytest.param("fleet:*ex-a+,ex-b", "fleet", id="a broadcast"),
    ],
)
def test_the_text_decides_the_executor(text, executor):
    assert parse_placement(text).executor == executor


def test_a_broadcast_that_the_ledger_cannot_hold_waits_with_a_reason():
    some = members(*(f"member-{number:04}" for number in range(200)))
    assert isinstance(place(asked(Strategy.SHARDING_BROADCAST, *some)), Placement)
    many = members(*(f"member-{number:04}" for number in range(400)))
    placed = place(asked(Strategy.SHARDING_BROADCAST, *many))
    assert placed == NoPlacement("a broadcast to 400 members does not fit into an entry of the ledger")
