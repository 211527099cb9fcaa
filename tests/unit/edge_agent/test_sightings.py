"""Reports tell what changed since the last one that was taken, and everything when asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from contract.messages import Metal as MetalName
from contract.messages import ReportReply
from edge_agent.sightings import Sightings
from tests.unit.edge_agent.metal import NAMESPACE, Metal, isolate, order

if TYPE_CHECKING:
    from pathlib import Path

    from contract.messages import Sighting


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
