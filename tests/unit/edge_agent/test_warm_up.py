"""An isolate that appears is profiled shortly, and never in a capture's way."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from structlog.testing import capture_logs

from contract.faults import Fault
from contract.messages import CaptureState
from tests.unit.edge_agent.metal import Metal, isolate, order

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path


@asynccontextmanager
async def _warming(metal: Metal) -> AsyncIterator[None]:
    await metal.looked()
    task = asyncio.create_task(metal.warm_ups.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110 - the simulated profiler has no event
            await asyncio.sleep(0)


def _profiling(metal: Metal, service: str) -> bool:
    return metal.runtime.isolate(service).profiling


def _free(metal: Metal, service: str) -> bool:
    with suppress(Fault):
        metal.holds.release(metal.holds.take(f"wd1/{service}", metal.now_ms, 1))
        return True
    return False


async def test_an_isolate_is_warmed_up_when_it_appears_and_when_it_first_runs(
    tmp_path: Path,
) -> None:
    metal = Metal(tmp_path, isolate("busy"), isolate("unused"))
    async with _warming(metal):
        for executions in (0, 1):
            metal.ran("busy", executions)
            await _until(lambda: _profiling(metal, "busy"))
            # It counts as free: a capture would have it at once.
            assert metal.holds.held_ms("wd1/busy", metal.now_ms) == 0
            began_ms = metal.now_ms
            await _until(lambda: not _profiling(metal, "busy"))
            assert 2_900 <= metal.now_ms - began_ms <= 3_600
            await _until(lambda: not _profiling(metal, "unused"))
        for _ in range(20):
            await metal.clock.sleep(0.5)
            assert not _profiling(metal, "busy")
            assert not _profiling(metal, "unused")


async def test_one_that_runs_from_the_start_is_warmed_up_once(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("busy"))
    metal.ran("busy")
    async with _warming(metal):
        await _until(lambda: _profiling(metal, "busy"))
        await _until(lambda: not _profiling(metal, "busy"))
        for _ in range(20):
            await metal.clock.sleep(0.5)
            metal.ran("busy")
            assert not _profiling(metal, "busy")


async def test_an_isolate_that_went_and_came_back_is_warmed_up_again(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("busy"))
    async with _warming(metal):
        metal.ran("busy")
        await _until(lambda: _profiling(metal, "busy"))
        await _until(lambda: not _profiling(metal, "busy"))
        metal.runtime.exit()
        await metal.looked()
        metal.runtime.restart()
        await metal.looked()
        metal.ran("busy")
        await _until(lambda: _profiling(metal, "busy"))


async def test_a_capture_has_the_isolate_at_once(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("checkout"))
    metal.ran("checkout")
    async with _warming(metal):
        await _until(lambda: _profiling(metal, "checkout"))
        with capture_logs() as logs:
            accepted = await metal.captures.start(order())
        assert accepted.isolate_id == "wd1/checkout"
        assert [one["made_way"] for one in logs if one["event"] == "isolate_warmed_up"] == [True]
        await metal.until(order().key, CaptureState.UPLOADED)
        assert not _profiling(metal, "checkout")
    await metal.captures.close()


async def test_so_many_at_once_and_no_more(tmp_path: Path) -> None:
    services = [f"copy{number}" for number in range(20)]
    metal = Metal(tmp_path, *(isolate(service) for service in services))
    for service in services:
        metal.ran(service)
    most, seen = 0, set[str]()
    async with _warming(metal):
        while len(seen) < len(services):
            now = {service for service in services if _profiling(metal, service)}
            most, seen = max(most, len(now)), seen | now
            await asyncio.sleep(0)
    assert most == 8


async def test_a_process_that_dies_and_an_agent_that_ends_leave_nothing(tmp_path: Path) -> None:
    metal = Metal(tmp_path, isolate("dies"), isolate("ends"))
    metal.ran("dies")
    async with _warming(metal):
        await _until(lambda: _profiling(metal, "dies"))
        metal.runtime.exit()
        await _until(lambda: _free(metal, "dies"))
        metal.runtime.restart()
        await metal.looked()
        metal.ran("ends")
        await _until(lambda: _profiling(metal, "ends"))
    assert not _profiling(metal, "ends")
    assert _free(metal, "ends")
