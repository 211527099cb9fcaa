from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from contract.faults import Fault, Reason
from contract.messages import ProfileType
from edge_agent import sampler
from edge_agent.runtime import IsolateConfig
from edge_agent.runtimes.simulated import SimulatedIsolate, SimulatedRuntime
from edge_agent.runtimes.workload import Workload
from tests.unit.edge_agent.virtual_clock import VirtualClock

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = IsolateConfig(
    service="main",
    account_id="a" * 32,
    worker_id="b" * 32,
    worker_name="main",
    version_id="00000000-0000-4000-8000-000000000001",
)
WIDE = Workload(wide=15_000, node_us=25.0)


class Case:
    def __init__(self, workload: Workload | None = None, **more: float) -> None:
        self.clock = VirtualClock()
        workloads = {"main": workload or Workload()}
        self.runtime = SimulatedRuntime("sim", [CONFIG], self.clock, workloads, **more)
        self.stop = asyncio.Event()
        self.told: list[int] = []

    @property
    def isolate(self) -> SimulatedIsolate:
        return self.runtime.isolate("main")

    async def take(
        self,
        duration_ms: int,
        profile_type: ProfileType = ProfileType.CPU,
        limits: sampler.Limits | None = None,
    ) -> sampler.Sampled:
        (target,) = await self.runtime.targets()
        order = sampler.SampleOrder(profile_type=profile_type, duration_ms=duration_ms)
        async with self.runtime.probe(target) as probe:
            try:
                return await sampler.sample(
                    probe,
                    order,
                    limits or sampler.Limits(),
                    self.clock,
                    self.stop,
                    self.told.append,
                )
            finally:
                # Before the probe's own exit: the sampler itself must have cleaned up.
                self.profiling_after = self.isolate.profiling

    async def at(self, seconds: float, event: Callable[[], None]) -> None:
        await self.clock.sleep(seconds)
        event()

    async def take_while(
        self, seconds: float, event: Callable[[], None], duration_ms: int = 5000
    ) -> sampler.Sampled:
        sooner = asyncio.create_task(self.at(seconds, event))
        try:
            return await self.take(duration_ms)
        finally:
            await sooner


async def test_short_cpu_capture_is_one_slice() -> None:
    case = Case()
    sampled = await case.take(5000)
    assert len(sampled.slices) == len(sampled.holds) == 1
    assert sampled.window_ns == pytest.approx(5e9, rel=1e-6)
    assert sampled.holds[0].gap_us == 0
    assert sampled.holds[0].start_hold_us == case.isolate.workload.start_us
    assert sampled.holds[0].sampled_us == pytest.approx(5_000_000, rel=1e-3)
    assert sampled.truncated == ""
    assert sampled.sampling_interval_us == 1000
    profile = json.loads(sampled.slices[0].data)["profile"]
    assert sampled.holds[0].samples == len(profile["samples"])
    assert sampled.holds[0].nodes == len(profile["nodes"])


async def test_long_wide_capture_is_sliced_within_its_budget() -> None:
    case = Case(WIDE)
    sampled = await case.take(50_000)
    assert 2 < len(sampled.slices) < 15
    assert max(one.stop_hold_us for one in sampled.holds) <= 275_000
    lost_us = sum(one.gap_us for one in sampled.holds)
    assert 0 < lost_us <= 0.02 * 50_000_000
    assert sampled.window_ns == pytest.approx(50e9, rel=1e-3)
    # The gap is what stop and start held: nothing ran unobserved.
    for before, after in zip(sampled.holds, sampled.holds[1:], strict=False):
        assert after.gap_us == pytest.approx(before.stop_hold_us + after.start_hold_us, abs=10)


async def test_lowered_rate_is_told() -> None:
    case = Case(Workload(wide=1_000_000, node_us=150.0, busy=1.0))
    sampled = await case.take(50_000)
    assert sampled.sampling_interval_us > 1000
    assert sampled.intervals_us[-1] == sampled.sampling_interval_us
    assert sampled.truncated == f"sampling_interval_us={sampled.sampling_interval_us}"


async def test_progress_never_falls_and_reaches_the_end() -> None:
    case = Case()
    await case.take(5000)
    assert case.told == sorted(case.told)
    assert case.told[-1] == 5000
    assert len(case.told) >= 10


async def test_stop_keeps_what_was_taken() -> None:
    case = Case()
    sampled = await case.take_while(2.0, case.stop.set)
    assert sampled.window_ns == pytest.approx(2e9, rel=0.01)
    assert sampled.truncated == "stopped"
    assert sampled.holds[0].samples > 500


async def test_stop_before_the_start_still_gives_a_profile() -> None:
    case = Case()
    case.stop.set()
    sampled = await case.take(5000)
    assert len(sampled.slices) == 1
    assert sampled.truncated == "stopped"


async def test_heap() -> None:
    case = Case()
    case.isolate.backing_store_bytes = 7 << 20
    sampled = await case.take(10_000, ProfileType.HEAP)
    assert sampled.backing_store_bytes == 7 << 20
    assert sampled.window_ns == pytest.approx(10e9, rel=0.001)
    profile = json.loads(sampled.slices[0].data)["profile"]
    assert sum(one["size"] for one in profile["samples"]) == pytest.approx(10 * (4 << 20), rel=0.01)
    assert sampled.holds[0].stop_hold_us == 50_000


@pytest.mark.parametrize(
    ("event", "reason"), [("exit", Reason.TARGET_EXITED), ("cut", Reason.INSPECTOR_LOST)]
)
async def test_loss_while_sampling_is_told_at_once(event: str, reason: Reason) -> None:
    case = Case()
    events = {"exit": case.runtime.exit, "cut": case.isolate.cut}
    began_ns = case.clock.monotonic_ns()
    with pytest.raises(Fault) as caught:
        await case.take_while(1.0, events[event], duration_ms=50_000)
    assert caught.value.reason is reason
    assert case.clock.monotonic_ns() - began_ns < 3e9


async def test_a_profile_stopped_by_somebody_else_is_a_fault() -> None:
    case = Case()

    def steal() -> None:
        case.isolate.cpu = None

    with pytest.raises(Fault) as caught:
        await case.take_while(1.0, steal)
    assert caught.value.reason is Reason.INSPECTOR_LOST


async def test_slow_stop_is_a_timeout_and_its_clean_up_bounded() -> None:
    case = Case(stop_timeout_s=20.0)
    case.isolate.stop_takes_s = 60.0
    began_ns = case.clock.monotonic_ns()
    with pytest.raises(Fault) as caught:
        await case.take(1000)
    assert caught.value.reason is Reason.RUNTIME_TIMEOUT
    assert case.clock.monotonic_ns() - began_ns < 26e9
    assert not case.isolate.profiling


async def test_cancellation_leaves_nothing_running() -> None:
    case = Case()
    taking = asyncio.create_task(case.take(50_000))
    await case.clock.sleep(1.0)
    assert case.isolate.profiling
    taking.cancel()
    with suppress(asyncio.CancelledError):
        await taking
    assert taking.cancelled()
    assert not case.profiling_after
    assert case.isolate.session is None


async def test_size_bound_ends_the_capture() -> None:
    case = Case(WIDE)
    sampled = await case.take(50_000, limits=sampler.Limits(max_bytes=300_000))
    assert sampled.truncated == "max_bytes=300000"
    assert sampled.window_ns < 20e9


async def test_no_task_is_left() -> None:
    case = Case()
    before = asyncio.all_tasks()
    await case.take(1000)
    assert asyncio.all_tasks() == before
