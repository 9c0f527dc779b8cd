"""A fleet whose members freeze, disappear and are cut off: only the scheduler's side is production code.

Each process of a node has a real scheduler's assignments. The hub only forwards messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from random import Random
from typing import Any, Final, Protocol

from evertick.executor import AttemptId
from evertick.executors.fleet.assignments import Assignments
from evertick.executors.fleet.log_sync import LogCopies
from evertick.executors.fleet.membership import Membership
from evertick.executors.protocol import LaunchMessage, split_key
from evertick.loop.effects import Launch
from evertick.model.instant import HOUR, SECOND, Instant
from evertick.model.report import AttemptQuestion, Report, RunFinished, RunLost
from evertick.model.routing import FLEET
from evertick.model.run import RunKey
from evertick.model.subrun import SubRunEnd
from evertick.routing.placement import parse_placement
from evertick.settings.parts import FleetSettings
from evertick.testing.faults import Faults
from evertick.testing.invariants import Violation
from evertick.testing.lines import Line
from evertick.testing.members import RunningWatch, SimulatedMember
from evertick.testing.subcalls import SubRunWatch
from evertick.testing.timeline import Caller, SimulatedClock, Timeline, Trace

TICK_US: Final = 2 * SECOND
"""While a member is silent. Not longer: a scheduler whose ticks come later takes itself for the one that froze."""
CALM_US: Final = 12 * SECOND
"""While all members are connected: often enough to repeat unanswered messages."""
LOGS: Final = b'["logs"'
"""How a question about logs begins; no member here has logs."""


class MemberFault(StrEnum):
    """A fault of a member."""

    KILLED = "its worker is killed"
    FROZEN = "its worker is frozen"
    ASLEEP = "its machine is frozen"
    REBOOTED = "its machine is restarted"
    CUT = "it is cut off"
    DEAF = "it hears nothing"
    MUTE = "it is not heard"


class Host(Protocol):
    """The node that a process of a scheduler lives on."""

    clock: SimulatedClock

    def later(self, incarnation: int, delay_us: int, action: Callable[..., None], *args: object) -> None: ...


class _NoLogs(LogCopies):
    """Nothing is printed in a simulation."""

    def __init__(self) -> None: ...

    def offsets_of(self, attempt_id: AttemptId) -> dict[str, int]:  # noqa: ARG002
        return {}

    def forget(self, attempt_id: AttemptId) -> None: ...


class _Station:
    """One process of a scheduler, its assignments, and its connection to the hub."""

    def __init__(self, caller: Caller, host: Host, up: Line, down: Line) -> None:
        self.caller, self.host, self.up, self.down = caller, host, up, down
        self.assignments: Assignments
        self.is_connected = False
        self.is_listening_closely = False
        self.look = 0
        """The number of the next tick, so that an earlier one replaces it."""

    @property
    def now(self) -> float:
        return self.host.clock.monotonic_us() / SECOND

    @property
    def instant(self) -> Instant:
        return max(self.host.clock.now(), 0)


class SimulatedFleet:
    def __init__(
        self,
        timeline: Timeline,
        random: Random,
        faults: Callable[[], Faults],
        answer: Callable[[Caller, Report], None],
        host_of: Callable[[str], Host],
        names: Sequence[str],
        run_max_us: int,
        lease_us: int,
        sub_runs: SubRunWatch,
        trace: Trace,
    ) -> None:
        self._timeline, self._random, self._faults = timeline, random, faults
        self._answer_to, self._host_of, self._trace = answer, host_of, trace
        self._lease_us = lease_us
        self._heartbeat_us, self._ttl_us, self._silence_us = lease_us // 8, lease_us // 5, lease_us // 3
        self._launches: dict[tuple[RunKey, int], tuple[Launch, str]] = {}
        self._stations: dict[str, _Station] = {}
        self._watch = RunningWatch()
        self._members = {
            name: SimulatedMember(
                name,
                (("kind", "even" if number % 2 == 0 else "odd"),),
                timeline,
                random,
                faults,
                self._watch,
                sub_runs,
                self,
                self._from_member,
                run_max_us,
                lease_us,
            )
            for number, name in enumerate(names)
        }
        self._out = {name: Line(timeline, random) for name in names}
        self._in = {name: Line(timeline, random) for name in names}
        self._connected: dict[str, int] = {}
        """The connection under which the hub knows a member; another one's words are dropped."""
        self._connection = dict.fromkeys(names, 1)
        """That of the member itself."""
        self._heartbeats: dict[str, tuple[Mapping[str, Any], Instant]] = {}
        self._is_troubled: set[str] = set()
        self._hub_away_until: Instant = 0
        self.is_calm = False

    @property
    def started(self) -> int:
        return self._watch.started

    def launch_of(self, key: RunKey, attempt: int) -> Launch:
        """Of a run, whichever shard of it is asked for."""
        return self._launches[split_key(key)[0], attempt][0]

    def launched_by(self, key: RunKey, attempt: int) -> str:
        """The node that did."""
        return self._launches[split_key(key)[0], attempt][1]

    # What nodes ask for

    def open(self, caller: Caller) -> None:
        """A process starts, without the memory of the one before."""
        lines = (Line(self._timeline, self._random), Line(self._timeline, self._random))
        station = _Station(caller, self._host_of(caller.node), *lines)

        def report(said: Report) -> None:
            self._report(station, said)

        def send(member: str, said: bytes) -> None:
            self._from_node(station, member, said)

        settings = FleetSettings("tcp://127.0.0.1:1", lease_us=self._lease_us, silence_us=self._silence_us)
        station.assignments = Assignments(Membership(settings), _NoLogs(), send, report)
        self._stations[caller.node] = station
        self._later(station, self._random.randrange(5 * SECOND), self._connect, station)
        self._look_soon(station)

    def launch(self, caller: Caller, launch: Launch) -> None:
        placement = parse_placement(launch.executor)
        if placement.executor != FLEET or not placement.members:
            raise Violation(f"{launch.key.run_id} is for the fleet, and was launched on {launch.executor!r}")
        self._launches.setdefault((launch.key, launch.attempt), (launch, caller.node))
        station = self._stations[caller.node]
        order = LaunchMessage(launch.key, launch.attempt, launch.fence, str(launch.trigger), "", None, "")
        valid_us = None if launch.valid_until is None else launch.valid_until - self._timeline.now
        station.assignments.launch(order, launch.executor, station.now, valid_us=valid_us)

    def stop(self, caller: Caller, key: RunKey, attempt: int) -> None:
        self._stations[caller.node].assignments.stop(key, attempt, "")

    def reconcile(self, caller: Caller, runs: Sequence[AttemptQuestion]) -> None:
        station = self._stations[caller.node]
        station.assignments.reconcile(runs, station.now)

    def sub_run_ended(self, caller: Caller, key: RunKey, attempt: int, step: str, number: int, end: SubRunEnd) -> None:
        self._stations[caller.node].assignments.sub_run_ended(key, attempt, step, number, end)

    def _report(self, station: _Station, report: Report) -> None:
        if isinstance(report, RunFinished | RunLost) and report.executor:
            told = parse_placement(report.executor)
            self._watch.note_done(
                station.caller.node, report.key, (shard.number for shard in told.shards if shard.is_done)
            )
        self._answer_to(station.caller, report)

    # Between nodes and the hub

    def _later(self, station: _Station, delay_us: int, action: Callable[..., None], *args: object) -> None:
        """Let a process do something, if it still lives then and is not stalled."""
        station.host.later(station.caller.incarnation, delay_us, action, *args)

    def _connect(self, station: _Station) -> None:
        if self._stations.get(station.caller.node) is not station:
            return
        if self._timeline.now < self._hub_away_until:
            self._later(station, 5 * SECOND, self._connect, station)
            return
        station.is_connected = True
        station.assignments.connected(station.now)
        now = self._timeline.now
        there: list[dict[str, Any]] = []
        away: list[dict[str, Any]] = []
        for name, (heartbeat, seen_at) in self._heartbeats.items():
            one = {"card": heartbeat, "address": name, "age": (now - seen_at) / SECOND}
            (there if name in self._connected else away).append(one)
        station.assignments.heartbeats(there, station.now, station.instant, away)

    def _disconnect(self, station: _Station) -> None:
        if station.is_connected and (station.up.is_cut or station.down.is_cut):
            station.is_connected = False
            station.up.lose()
            station.down.lose()
            station.assignments.disconnected(station.now)

    def _from_node(self, station: _Station, member: str, lines: bytes) -> None:
        if station.is_connected and not lines.startswith(LOGS):
            station.up.carry(self._to_member, member, lines)

    def _to_nodes(self, message: Mapping[str, Any]) -> None:
        for station in self._stations.values():
            if station.is_connected:
                station.down.carry(self._arrive, station, message)

    def _arrive(self, station: _Station, message: Mapping[str, Any]) -> None:
        self._later(station, 0, self._take, station, message)

    def _take(self, station: _Station, message: Mapping[str, Any]) -> None:
        assignments, now = station.assignments, station.now
        if not station.is_connected:
            return
        assignments.listening(now)
        match message:
            case {"lines": bytes(lines), "member": str(member)}:
                assignments.receive(member, lines, now)
            case {"card": heartbeat, "address": str(address)}:
                assignments.heartbeat(heartbeat, address, now, station.instant)
            case {"gone": str(member)}:
                assignments.gone(member, now)
        if self._misses_a_member(station):
            self._look_soon(station)

    def _misses_a_member(self, station: _Station) -> bool:
        return not all(member.is_healthy for member in station.assignments.members)

    def _look_soon(self, station: _Station) -> None:
        if not station.is_listening_closely:
            station.is_listening_closely = True
            station.look += 1
            self._later(station, TICK_US, self._tick, station, station.look)

    def _tick(self, station: _Station, number: int) -> None:
        if number != station.look:
            return
        station.assignments.tick(station.now)
        if station.is_connected and not station.down.is_cut:
            station.assignments.listening(station.now)  # the hub confirms once a second that its messages arrive
        station.look += 1
        station.is_listening_closely = self._misses_a_member(station)
        wait_us = TICK_US if station.is_listening_closely else CALM_US
        self._later(station, wait_us, self._tick, station, station.look)

    # Between the hub and members

    def _from_member(self, name: str, message: Mapping[str, Any]) -> None:
        self._out[name].carry(self._to_hub, name, self._connection[name], message)

    def _to_hub(self, name: str, connection: int, message: Mapping[str, Any]) -> None:
        if self._connected.get(name) != connection:
            return  # it was given up; it learns of that and joins again
        match message:
            case {"card": heartbeat}:
                self._heartbeats[name] = (heartbeat, self._timeline.now)
                self._to_nodes({"card": heartbeat, "address": name})
                self._in[name].carry(self._members[name].acknowledge, heartbeat["stamp"])
            case {"lines": lines}:
                self._to_nodes({"member": name, "lines": lines})

    def _to_member(self, name: str, lines: bytes) -> None:
        if name in self._connected:
            self._in[name].carry(self._members[name].receive, lines)

    def _join(self, name: str) -> None:
        """It connects again."""
        self._connection[name] += 1
        self._connected[name] = self._connection[name]
        self._members[name].return_anew()

    def _miss(self, name: str, connection: int) -> None:
        """The hub has received nothing from it for too long."""
        if self._connected.get(name) == connection:
            del self._connected[name]
            self._in[name].lose()
            self._to_nodes({"gone": name})

    def _beat(self, name: str) -> None:
        self._members[name].show()
        self._timeline.after(self._heartbeat_us, self._beat, name)

    # What befalls them

    def begin(self) -> None:
        for name in self._members:
            self._connected[name] = self._connection[name]
            self._timeline.after(self._random.randrange(self._heartbeat_us), self._beat, name)
            self._now_and_then(self._trouble, name)
        self._now_and_then(self._cut_off_a_node)
        self._now_and_then(self._lose_the_hub)

    def end_faults(self) -> None:
        """No new faults; the current ones end soon."""
        self.is_calm = True
        for member in self._members.values():
            member.is_calm = True

    def _now_and_then(self, action: Callable[..., None], *args: object) -> None:
        per_hour = self._faults().member_outages_per_hour
        if per_hour and not self.is_calm:
            wait_us = int(self._random.expovariate(per_hour) * HOUR)
            self._timeline.after(wait_us, self._happen, action, *args)

    def _happen(self, action: Callable[..., None], *args: object) -> None:
        if not self.is_calm:
            action(*args)
            self._now_and_then(action, *args)

    def _trouble(self, name: str) -> None:
        if name not in self._is_troubled:
            self._befall(
                name, self._random.choice(tuple(MemberFault)), self._random.randrange(SECOND, 3 * self._lease_us)
            )

    def _befall(self, name: str, trouble: MemberFault, for_us: int) -> None:
        self._trace.add(name, "%s for %s s", trouble, for_us // SECOND)
        self._is_troubled.add(name)
        member, until = self._members[name], self._timeline.now + for_us
        is_long = for_us > self._ttl_us
        match trouble:
            case MemberFault.KILLED | MemberFault.REBOOTED:
                self._out[name].cut(until, is_lossy=True)
                self._in[name].cut(until, is_lossy=True)
                if trouble is MemberFault.REBOOTED:
                    member.reboot()
                member.is_worker_there = False
                self._miss(name, self._connection[name])
            case MemberFault.FROZEN | MemberFault.ASLEEP:
                # What is sent to it lies in its buffers, and is read when it goes on.
                member.is_worker_frozen = True
                self._out[name].cut(until, is_lossy=False)
                self._in[name].cut(until, is_lossy=False)
                if trouble is MemberFault.ASLEEP:
                    member.freeze(until)
            case MemberFault.CUT | MemberFault.MUTE:
                self._out[name].cut(until, is_lossy=is_long)
                if trouble is MemberFault.CUT:
                    self._in[name].cut(until, is_lossy=is_long)
            case MemberFault.DEAF:
                self._in[name].cut(until, is_lossy=False)
        if is_long and trouble is not MemberFault.DEAF:
            self._timeline.after(self._ttl_us, self._miss, name, self._connection[name])
        self._timeline.at(until + SECOND, self._recover, name)

    def _recover(self, name: str) -> None:
        """A second later: what lay in buffers was read before."""
        self._trace.add(name, "is well again")
        self._is_troubled.discard(name)
        if self._connected.get(name) != self._connection[name]:
            self._join(name)
        else:
            self._members[name].is_worker_frozen = False

    def _cut_off_a_node(self) -> None:
        """From the fleet, not from the ledger."""
        stations = [station for station in self._stations.values() if station.is_connected and not station.up.is_cut]
        if stations:
            station = self._random.choice(stations)
            self._cut_off(station, self._random.randrange(SECOND, 2 * self._lease_us))

    def _cut_off(self, station: _Station, for_us: int) -> None:
        self._trace.add(station.caller.node, "is cut off from the fleet for %s s", for_us // SECOND)
        until = self._timeline.now + for_us
        for line in (station.up, station.down):
            line.cut(until, is_lossy=False)
        if for_us > self._ttl_us:
            self._later(station, self._ttl_us, self._disconnect, station)
            self._timeline.at(until + SECOND, self._dial, station)

    def _dial(self, station: _Station) -> None:
        self._later(station, 0, self._redial, station)

    def _redial(self, station: _Station) -> None:
        if not station.is_connected and not station.up.is_cut:
            self._connect(station)

    def _lose_the_hub(self) -> None:
        for_us = self._random.randrange(SECOND, 2 * self._lease_us)
        self._trace.add("hub", "is gone for %s s", for_us // SECOND)
        self._hub_away_until = self._timeline.now + for_us
        for name in self._members:
            if name not in self._is_troubled:
                self._befall(name, MemberFault.CUT, self._ttl_us + for_us)
                self._miss(name, self._connection[name])
        for station in self._stations.values():
            if station.is_connected and not station.up.is_cut:
                self._cut_off(station, self._ttl_us + for_us)
