"""Reports tell what changed since the last one that was taken, and everything when asked."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from contract.messages import Metal as MetalName
from contract.messages import ReportReply
from edge_agent.sightings import Sightings
from tests.unit.edge_agent.metal import NAMESPACE, Metal, isolate, order

if TYPE_CHECKING:
    from pathlib import Path

    from contract.messages import CaptureReport, Receipt, Report, Sighting, UploadManifest
    from tests.unit.edge_agent.virtual_clock import VirtualClock

AGENTS = 200


def _sightings(metal: Metal) -> Sightings:
    return Sightings(
        MetalName(
            metal_id="ams1-m1", datacenter="ams1", address="127.0.0.1:1", epoch=1, max_captures=4
        ),
        loaded=metal.loaded,
        activity=metal.activity,
        holds=metal.holds,
        uplink=metal.control,
        clock=metal.clock,
        interval_ms=5_000,
        captures=metal.captures.keys,
        stop=lambda key: metal.captures.stop(key, discard=True),
        rng=random.Random(1),
    )


def _only(metal: Metal) -> Sighting:
    (sighting,) = metal.control.reports[-1].sightings
    return sighting


async def test_the_first_report_is_everything(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    await _sightings(metal).tell()
    assert metal.control.reports[-1].snapshot
    seen = _only(metal)
    assert (seen.isolates, seen.free_isolates, seen.executions, seen.idle_ms) == (1, 1, 0, None)


async def test_the_next_tells_only_what_changed(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    sightings = _sightings(metal)
    await sightings.tell()
    await sightings.tell()
    assert metal.control.reports[-1].sightings == ()
    metal.ran("checkout", 3)
    await sightings.tell()
    assert not metal.control.reports[-1].snapshot
    assert _only(metal).executions == 3


async def test_executions_of_a_report_nobody_took_are_told_again(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    sightings = _sightings(metal)
    await sightings.tell()
    metal.ran("checkout", 3)
    metal.control.refuse = Fault(Reason.STORE_UNAVAILABLE, "no gateway")
    await sightings.tell()
    metal.control.refuse = None
    metal.ran("checkout", 2)
    await sightings.tell()
    assert _only(metal).executions == 5


async def test_a_gateway_that_asks_gets_everything_at_once(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    sightings = _sightings(metal)
    await sightings.tell()
    metal.control.replies.append(ReportReply(snapshot_wanted=True))
    await sightings.tell()
    assert metal.control.reports[-1].snapshot
    assert _only(metal).isolates == 1


async def test_a_version_that_is_gone_is_told_once(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    sightings = _sightings(metal)
    await sightings.tell()
    metal.runtime.exit()
    await sightings.tell()
    assert _only(metal).isolates == 0
    await sightings.tell()
    assert metal.control.reports[-1].sightings == ()


async def test_a_captured_isolate_is_not_free(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    sightings = _sightings(metal)
    await metal.captures.start(order(duration_ms=50_000))
    await sightings.tell()
    assert _only(metal).free_isolates == 0
    assert _only(metal).held_ms > 0
    assert metal.control.reports[-1].captures == (order().key,)
    await metal.captures.close()


async def test_a_capture_nobody_wants_any_more_is_stopped(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    sightings = _sightings(metal)
    await metal.captures.start(order(duration_ms=50_000))
    metal.control.replies.append(ReportReply(snapshot_wanted=False, stop=(order().key,)))
    await sightings.tell()
    assert metal.holds.held_ms("wd1/checkout", metal.now_ms) == 0
    await metal.captures.close()
    assert metal.control.uploads == []


async def test_an_isolate_of_two_accounts_is_told_as_shared(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("commons", also_accounts=("f" * 32,)))
    metal.ran("commons")
    await _sightings(metal).tell()
    assert _only(metal).shared
    assert _only(metal).free_isolates == 0


async def test_an_actor_is_told_with_its_namespace(tmp_path: Path) -> None:
    serves = {"namespaces": {NAMESPACE: "Counter"}, "unique_keys": {NAMESPACE: "counter-Counter"}}
    metal = Metal(tmp_path, isolate("counter", **serves))
    metal.ran("counter", actor_id="d" * 64, entrypoint="Counter")
    await _sightings(metal).tell()
    (namespace,) = _only(metal).namespaces
    assert (namespace.class_name, namespace.unique_key) == ("Counter", "counter-Counter")
    (seen,) = metal.control.reports[-1].actors
    assert (seen.actor.namespace_id, seen.actor.actor_id) == (NAMESPACE, "d" * 64)


@dataclass
class Replicas:
    """Two replicas of the control plane, as one agent reaches them: the first may be dead."""

    clock: VirtualClock
    heard: list[tuple[int, str]]
    dead: set[str]
    agent: str
    using: int = 0
    names: tuple[str, str] = ("a", "b")
    tried: list[int] = field(default_factory=list)

    @property
    def replica(self) -> str:
        return self.names[self.using]

    async def report(self, _report: Report) -> ReportReply:
        self.tried.append(self.clock.monotonic_ns())
        if self.replica in self.dead:
            self.using = 1 - self.using
            raise Fault(Reason.STORE_UNAVAILABLE, "no answer")
        self.heard.append((self.clock.monotonic_ns(), self.agent))
        return ReportReply(snapshot_wanted=False)

    async def report_capture(self, report: CaptureReport, *, for_s: float) -> None:
        raise NotImplementedError

    async def upload(self, manifest: UploadManifest, data: bytes, *, for_s: float) -> Receipt:
        raise NotImplementedError


async def test_agents_move_to_the_next_replica_within_seconds_and_not_at_once(
    tmp_path: Path,
) -> None:
    """In the time of a clock that never waits; five seconds from one report to the next."""
    metal = Metal(tmp_path, isolate("checkout"))
    clock, rng = metal.clock, random.Random(2)
    heard: list[tuple[int, str]] = []
    dead: set[str] = set()

    async def agent(number: int) -> None:
        # Agents have started at some time or other.
        await clock.sleep(rng.uniform(0, 5))
        sightings = _sightings(metal)
        sightings._rng = random.Random(number)
        sightings._uplink = Replicas(clock, heard, dead, f"m{number}")
        await sightings.run()

    agents = [asyncio.create_task(agent(number)) for number in range(AGENTS)]
    await clock.sleep(20)
    died_ns = clock.monotonic_ns()
    dead.add("a")
    heard.clear()
    await clock.sleep(12)
    for task in agents:
        task.cancel()
    await asyncio.gather(*agents, return_exceptions=True)
    first: dict[str, float] = {}
    for at_ns, name in heard:
        first.setdefault(name, (at_ns - died_ns) / 1e9)
    assert len(first) == AGENTS
    assert max(first.values()) < 10
    # In no tenth of a second do more than one in ten come.
    assert max(Counter(int(at_s * 10) for at_s in first.values()).values()) < AGENTS / 10


async def test_one_gateway_alone_is_tried_again_at_the_next_interval(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    sightings = _sightings(metal)
    heard: list[tuple[int, str]] = []
    alone = Replicas(metal.clock, heard, {"a"}, "m1", names=("a", "a"))
    sightings._uplink = alone
    running = asyncio.create_task(sightings.run())
    await metal.clock.sleep(12)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(alone.tried) == 3
