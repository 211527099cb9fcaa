"""After a start: no profiler of an earlier run goes on, and nobody's capture is disturbed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from edge_agent.recovery import FIRST_S, Recovery
from tests.unit.edge_agent.metal import Metal, isolate

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from edge_agent.runtime import Target


def _recovery(metal: Metal, *services: str) -> Recovery:
    return Recovery(
        [f"wd1/{service}" for service in services],
        loaded=metal.loaded,
        holds=metal.holds,
        clock=metal.clock,
    )


async def _left_running(metal: Metal, *services: str) -> None:
    """What a killed agent leaves: the profiler goes on, the session is gone."""
    for target in await metal.loaded.look():
        if target.service in services:
            simulated = metal.runtime.isolate(target.service)
            async with metal.runtime.probe(target) as probe:
                await probe.start_cpu(1_000)
                running = simulated.cpu
            simulated.cpu = running
            assert simulated.profiling


async def test_every_configured_isolate_is_cleared(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("one"), isolate("two"))
    await _left_running(metal, "one", "two")
    await _recovery(metal, "one", "two").first()
    assert not metal.runtime.isolate("one").profiling
    assert not metal.runtime.isolate("two").profiling
    assert metal.holds.held_ms("wd1/one", metal.now_ms) == 0


async def test_an_isolate_being_captured_is_left_alone_and_tried_again(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("one"))
    await _left_running(metal, "one")
    hold = metal.holds.take("wd1/one", metal.now_ms, 10_000)
    recovery = _recovery(metal, "one")
    await recovery.first()
    assert metal.runtime.isolate("one").profiling
    metal.holds.release(hold)
    await recovery.rest()
    assert not metal.runtime.isolate("one").profiling


async def test_a_process_that_is_not_up_yet_is_tried_when_it_is(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("one"))
    metal.runtime.exit()
    recovery = _recovery(metal, "one")
    await recovery.first()
    rest = asyncio.create_task(recovery.rest())
    metal.runtime.restart()
    await rest


async def test_a_fault_while_clearing_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metal = Metal(tmp_path, isolate("one"))
    faults = [Fault(Reason.RUNTIME_TIMEOUT, "busy"), Fault(Reason.INSPECTOR_LOST, "cut")]

    async def clear(_target: Target) -> bool:
        if faults:
            raise faults.pop()
        return True

    monkeypatch.setattr(metal.runtime, "clear", clear)
    await _recovery(metal, "one").rest()
    assert faults == []
    assert metal.holds.held_ms("wd1/one", metal.now_ms) == 0


async def test_a_process_that_never_answers_keeps_nobody_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metal = Metal(tmp_path, isolate("one"))

    async def clear(_target: Target) -> bool:
        await asyncio.Event().wait()
        return True

    monkeypatch.setattr(metal.runtime, "clear", clear)
    began_ms = metal.now_ms
    await _recovery(metal, "one").first()
    assert metal.now_ms - began_ms == FIRST_S * 1_000
    assert metal.holds.held_ms("wd1/one", metal.now_ms) == 0
