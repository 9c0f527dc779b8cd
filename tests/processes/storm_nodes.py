"""Nodes and members that are killed, frozen, cut off and started again: `python -m tests.processes.storm_nodes --help`.

Real schedulers on one database, a real fleet, and jobs whose processes notice when another copy of their run, another
run of their job or too many of their queue are alive. `make soak-nodes` runs it for minutes, the suite for a moment.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from random import Random

from evertick.model.facts import read_facts
from evertick.model.ledger import Batch, RequestKind
from evertick.model.lifecycle import OPEN, SUCCEEDED
from evertick.model.run import LedgerRow
from evertick.operations.requests import trigger_request
from evertick.stores import open_store
from tests.fleet.cable import Cable
from tests.fleet.local_fleet import LocalFleet, children_of, wait_for
from tests.processes import proof
from tests.processes.served import Served
from tests.processes.soak_nodes import SERVERS

LEASE_SECONDS = 12
QUEUE_LIMIT = 2
CHAINS = 3
SETTLED_SECONDS = 240.0
JOBS = {
    **{f"up{number}": "schedule: {every: 2s}\n" for number in range(CHAINS)},
    **{f"down{number}": f"after: up{number}\noverlap: wait\n" for number in range(CHAINS)},
    **{f"queue{number}": "schedule: {every: 3s}\nqueue: narrow\noverlap: wait\n" for number in range(3)},
    "once": "schedule: {every: 3s}\nonExecutorLost: fail\n",
    "asked": "overlap: wait\n",
    "round": "schedule: {every: 2s}\nrouting: ROUND\noverlap: wait\n",
    "hashed": "schedule: {every: 3s}\nrouting: CONSISTENT_HASH\nonExecutorLost: fail\n",
    "calling": "schedule: {every: 5s}\n",
}
WRITTEN_FIRST = {name for name, text in JOBS.items() if "onExecutorLost: fail" in text or "queue:" in text}
"""Jobs of which nothing is started before the ledger has it; of the others, one that dies with its node may be made
again under its number, once it has ended."""
SCRIPT = """\
alive() { grep -qs '^State:.[^ZX]' "/proc/$1/status"; }
job=${EVERTICK_RUN_ID%%@*}
for other in $(ls "$HALL" 2>/dev/null); do
    pid=${other##*,}
    alive "$pid" || { rm -f "$HALL/$other"; continue; }
    case "$other" in
        "$EVERTICK_RUN_ID,"*) echo "copy: $EVERTICK_RUN_ID/$EVERTICK_RUN_ATTEMPT met $other" >> "$MET" ;;
        "$job@"*) echo "overlap: $EVERTICK_RUN_ID/$EVERTICK_RUN_ATTEMPT met $other" >> "$MET" ;;
    esac
done
touch "$HALL/$EVERTICK_RUN_ID,$$"
case "$job" in queue*)
    count=0
    for other in "$HALL"/queue*; do alive "${other##*,}" && count=$((count + 1)); done
    [ "$count" -le "$LIMIT" ] || echo "queue: $count with $EVERTICK_RUN_ID" >> "$MET" ;;
esac
echo "$EVERTICK_RUN_ID/$EVERTICK_RUN_ATTEMPT $EVERTICK_RUN_KEEPER" >> "$BEGAN"
sleep "0.$(($$ % 9 + 1))"
rm -f "$HALL/$EVERTICK_RUN_ID,$$"
echo "$EVERTICK_RUN_ID/$EVERTICK_RUN_ATTEMPT" >> "$ENDED"
"""


class Storm:
    """The nodes, the fleet and all that befalls them."""

    def __init__(self, folder: Path, url: str, nodes: int, members: int, seed: int, stack: ExitStack) -> None:
        self.folder, self.url, self.jobs = folder, url, folder / "jobs"
        self._random = Random(seed)
        self.trouble_seconds = LEASE_SECONDS * 1.8
        """How long one lasts at most: some are over before a lease is, and some are not."""
        self.happened: Counter[str] = Counter()
        self.asked: list[str] = []
        self.local_fleet = LocalFleet(folder)
        stack.callback(self.local_fleet.close)
        self.local_fleet.start()
        wait_for(self._hub_listens, "the hub")
        self._write_jobs()
        open_store(url).close()
        self.cables = {f"ex-{number}": Cable(self.local_fleet.port) for number in range(members)}
        for cable in self.cables.values():
            stack.callback(cable.close)
        for name, cable in self.cables.items():
            self.local_fleet.join(name, url=cable.url, lease_us=LEASE_SECONDS * 1_000_000)
        self.nodes = [Served(self, f"node-{number}") for number in range(nodes)]
        for node in self.nodes:
            stack.callback(node.close)
            node.start()
        wait_for(lambda: len(self.lines("ended")) > 3, "the first runs")

    def _hub_listens(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.local_fleet.port), 1).close()
        except OSError:
            return False
        return True

    def _write_jobs(self) -> None:
        self.jobs.mkdir()
        hall = self.folder / "hall"
        hall.mkdir()
        (self.folder / "act.sh").write_text(SCRIPT)
        paths: dict[str, object] = {"HALL": hall, "MET": self.folder / "met", "BEGAN": self.folder / "began"}
        paths |= {"ENDED": self.folder / "ended", "LIMIT": QUEUE_LIMIT}
        env = "".join(f"  {name}: '{value}'\n" for name, value in paths.items())
        for name, text in JOBS.items():
            work = f"env:\n{env}command: sh {self.folder}/act.sh\n"
            if name == "calling":
                work = "steps:\n  - {name: call, job: asked}\n"
            (self.jobs / f"{name}.yaml").write_text(text + work)
        (self.jobs / "evertick.toml").write_text(
            f'[loop]\nlease = "3s"\n[local]\nlease = "{LEASE_SECONDS}s"\nkill_after = "1s"\n'
            f'[stop]\npatience = "1s"\nreturn = "30s"\n[queues]\nnarrow = {QUEUE_LIMIT}\n'
            f'[fleet]\nurl = "{self.local_fleet.url}"\nlease = "{LEASE_SECONDS}s"\n'
        )

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    # What befalls them: each begins and ends one trouble

    def strike(self) -> None:
        act = self._random.choice(self.troubles())
        self.happened[act.__name__] += 1
        act()
        self._revive()

    def _revive(self) -> None:
        """As a service manager does it: a node that did not reach its ledger when it was started is started again."""
        for node in self.nodes:
            if not node.is_running:
                self.happened["started_again"] += 1
                node.start()

    def troubles(self) -> Sequence[Callable[[], None]]:
        return (
            *(self.kill_a_node, self.stop_a_node, self.freeze_a_node, self.cut_off_a_node),
            *(self.freeze_a_member, self.cut_off_a_member, self.kill_a_worker, self.kill_the_hub),
            self.ask_twice,
        )

    def kill_a_node(self) -> None:
        node = self._random.choice(self.nodes)
        node.kill()
        self._wait()
        node.start()

    def stop_a_node(self) -> None:
        node = self._random.choice(self.nodes)
        node.stop()
        self._wait()
        node.start()

    def freeze_a_node(self) -> None:
        self._freeze(self._random.choice(self.nodes).pid)

    def cut_off_a_node(self) -> None:
        self._cut(self._random.choice(self.nodes).cable)

    def freeze_a_member(self) -> None:
        member = self.local_fleet.members[self._random.choice(sorted(self.cables))]
        self._freeze(member.pid, *children_of(member.pid))

    def cut_off_a_member(self) -> None:
        self._cut(self.cables[self._random.choice(sorted(self.cables))])

    def kill_a_worker(self) -> None:
        os.kill(self.local_fleet.members[self._random.choice(sorted(self.cables))].child(), signal.SIGKILL)

    def kill_the_hub(self) -> None:
        assert self.local_fleet.scheduler is not None
        os.kill(self.local_fleet.scheduler.child(), signal.SIGKILL)

    def ask_twice(self) -> None:
        """The same request, delivered again and again while it is carried out."""
        request_id = f"twice-{len(self.asked)}"
        now = time.time_ns() // 1_000
        request = trigger_request(request_id, "asked", now, by="storm")
        with closing(open_store(self.url)) as store:
            for number in range(3):
                store.commit(Batch(by=f"storm/{request_id}/{number}", requests=[request]))
        self.asked.append(request_id)

    def _freeze(self, *pids: int) -> None:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        self._wait()
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)

    def _cut(self, cable: Cable) -> None:
        cable.cut(*self._random.choice(((), ("there",), ("back",))))
        self._wait()
        cable.mend()

    def _wait(self) -> None:
        time.sleep(self._random.uniform(0.5, self.trouble_seconds))

    # What must hold

    def rows(self) -> list[LedgerRow]:
        return proof.rows_of(self.url)

    def settle(self) -> None:
        """Wait until all that was due when the last trouble was over has ended."""
        calm_since = time.time_ns() // 1_000
        deadline = time.monotonic() + SETTLED_SECONDS
        while not all(node.is_serving for node in self.nodes):
            self._revive()
            assert time.monotonic() < deadline, "some nodes do not start"
            time.sleep(0.5)
        while open_rows := [row for row in self.rows() if row.state in OPEN and row.key.scheduled_for <= calm_since]:
            if time.monotonic() > deadline:
                some = "; ".join(f"{row.key.run_id} {row.state} on {row.executor}" for row in open_rows[:5])
                raise AssertionError(f"{len(open_rows)} runs are left: {some}")
            time.sleep(0.5)
        for node in self.nodes:
            node.stop()

    def check(self) -> str:
        """What was counted; raises when something does not hold."""
        report = proof.verified(self.url)
        rows = self.rows()
        assert self.lines("met") == []
        known = {row.key.run_id for row in rows}
        lines = Counter(self.lines("began"))
        assert [one for one, times in lines.items() if times > 1] == [], "a machine started an attempt twice"
        began, ended = Counter(one.split()[0] for one in lines), Counter(self.lines("ended"))
        assert [one for one in began if one.rpartition("/")[0] not in known] == []
        again = {one for one, times in began.items() if times > 1}
        assert [one for one in again if one.partition("@")[0] in WRITTEN_FIRST] == [], "an attempt was started twice"
        unproved = [row.key.run_id for row in rows if row.state is SUCCEEDED and row.key.job_id != "calling"]
        heard = {one.rpartition("/")[0] for one in ended}
        assert [run for run in unproved if run not in heard] == [], "a run that never ended is said to have succeeded"
        self._check_chains(rows)
        for request_id in self.asked:
            assert sum(row.key.origin == request_id for row in rows) == 1, f"{request_id} was not carried out once"
        states = ", ".join(f"{count} {state}" for state, count in sorted(Counter(row.state for row in rows).items()))
        troubles = ", ".join(f"{name} {count}" for name, count in sorted(self.happened.items()))
        counted = f"{report.occurrences:,} occurrences, {report.runs:,} runs ({states}), {len(began):,} attempts"
        counted += f", {len(again)} of them on two machines one after the other"
        return f"{counted}; {sum(self.happened.values())} troubles: {troubles}"

    def _check_chains(self, rows: Sequence[LedgerRow]) -> None:
        """Each success has led to one run of the job behind it, and nothing else has."""
        states = {row.key.run_id: row.state for row in rows}
        downs = [row for row in rows if row.key.job_id.startswith("down")]
        led = Counter(parent.run for row in downs for parent in read_facts(row.facts).parents)
        assert [run for run, times in led.items() if times > 1] == [], "a success led to two runs"
        with closing(open_store(self.url)) as store:
            # A success just before the end may still be on its way to the job behind it.
            coming = [request for request in store.claim(None, 10_000) if request.kind is RequestKind.CHAIN]
        unled = [run for run, state in states.items() if run.startswith("up") and state is SUCCEEDED and run not in led]
        assert [run for run in unled if not any(run in request.payload for request in coming)] == []
        others = {run: states[run] for run in led if states[run] is not SUCCEEDED}
        assert others == {}, "runs that did not succeed led to others"


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.processes.storm_nodes", description=__doc__)
    parser.add_argument("--store", choices=SERVERS, default="postgres", help="which database they share")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=300.0, help="how long things go wrong")
    parser.add_argument("--seed", type=int, default=0, help="which troubles, in which order")
    parser.add_argument("--keep", type=Path, help="a folder in which everything is left to be read")
    chosen = parser.parse_args(words)
    with ExitStack() as stack:
        server = stack.enter_context(SERVERS[chosen.store]())
        folder = chosen.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        storm = Storm(folder, server.fresh(), chosen.nodes, chosen.members, chosen.seed, stack)
        end = time.monotonic() + chosen.seconds
        while time.monotonic() < end:
            storm.strike()
            time.sleep(1.0)
        storm.settle()
        print(storm.check(), flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
