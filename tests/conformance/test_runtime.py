"""What any runtime must do: list, attach, sample, tell what ran, be left clean, fail by name."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import TYPE_CHECKING

import pytest

from contract.faults import Fault, Reason
from contract.messages import ProfileType
from edge_agent import sampler
from edge_agent.runtimes.clock import SystemClock
from tests.conformance.conftest import ACCOUNT, NAMESPACE, OTHER_ACCOUNT

if TYPE_CHECKING:
    from edge_agent.runtime import Execution, Probe, Target
    from tests.conformance.conftest import Subject


async def target(subject: Subject, service: str = "busy") -> Target:
    return {one.service: one for one in await subject.runtime.targets()}[service]


async def sample(
    probe: Probe, duration_ms: int, profile_type: ProfileType = ProfileType.CPU
) -> sampler.Sampled:
    order = sampler.SampleOrder(profile_type=profile_type, duration_ms=duration_ms)
    limits = sampler.Limits()
    return await sampler.sample(
        probe, order, limits, SystemClock(), asyncio.Event(), lambda _ms: None
    )


async def test_targets_are_those_configured_and_loaded(subject: Subject) -> None:
    found = await subject.runtime.targets()
    assert [one.service for one in found] == ["busy", "other"]
    busy, other = found
    assert busy.isolate_id == "rt1/busy"
    assert busy.runtime_id == "rt1"
    assert busy.accounts == (ACCOUNT,)
    assert busy.namespaces == {NAMESPACE: "Counter"}
    assert other.accounts == (ACCOUNT, OTHER_ACCOUNT)


async def test_generation_is_stable_and_grows_with_a_restart(subject: Subject) -> None:
    before = (await target(subject)).generation
    assert (await target(subject)).generation == before
    await subject.kill()
    await subject.restart()
    assert (await target(subject)).generation == before + 1


async def test_no_targets_when_the_process_is_gone(subject: Subject) -> None:
    assert await subject.runtime.targets()
    await subject.kill()
    assert await subject.runtime.targets() == ()
    await subject.restart()
    assert (await target(subject)).generation == 2


async def test_cpu_capture(subject: Subject) -> None:
    async with subject.traffic(), subject.runtime.probe(await target(subject)) as probe:
        sampled = await sample(probe, 1000)
    (holds,) = sampled.holds
    assert holds.samples > 50
    assert holds.nodes >= 3
    assert holds.start_hold_us > 0
    assert holds.stop_hold_us > 0
    assert 0.5e6 < holds.sampled_us < 3e6
    assert sampled.truncated == ""
    found = json.loads(sampled.slices[0].data)
    profile = found.get("result", found)["profile"]
    assert len(profile["samples"]) == len(profile["timeDeltas"]) == holds.samples
    assert len(profile["nodes"]) == holds.nodes
    assert profile["timeDeltas"][0] == holds.start_hold_us
    assert profile["startTime"] == sampled.slices[0].started_us
    assert profile["endTime"] == sampled.slices[0].ended_us
    assert not await subject.left_running("busy")


async def test_slices_of_one_session(subject: Subject) -> None:
    async with subject.traffic(), subject.runtime.probe(await target(subject)) as probe:
        slices = []
        for _ in range(3):
            await probe.start_cpu(1000)
            await asyncio.sleep(0.2)
            slices.append(await probe.stop_cpu())
    assert all(one.data and one.samples for one in slices)
    assert [one.started_us for one in slices] == sorted(one.started_us for one in slices)
    assert all(a.ended_us <= b.started_us for a, b in itertools.pairwise(slices))


async def test_heap_capture(subject: Subject) -> None:
    async with subject.traffic(), subject.runtime.probe(await target(subject)) as probe:
        sampled = await sample(probe, 1000, ProfileType.HEAP)
    found = json.loads(sampled.slices[0].data)
    profile = found.get("result", found)["profile"]
    assert profile["samples"]
    assert sampled.holds[0].samples == len(profile["samples"])
    assert sampled.holds[0].nodes >= 2


async def test_heap_usage(subject: Subject) -> None:
    async with subject.runtime.probe(await target(subject, "other")) as probe:
        first = await probe.heap_usage()
        assert 0 < first.used_bytes <= first.total_bytes
        assert await probe.heap_usage() == first


async def test_stop_of_nothing_is_empty(subject: Subject) -> None:
    async with subject.runtime.probe(await target(subject)) as probe:
        assert (await probe.stop_cpu()).data == b""


async def test_start_over_a_running_profile(subject: Subject) -> None:
    async with subject.runtime.probe(await target(subject)) as probe:
        await probe.start_cpu(1000)
        await probe.start_cpu(500)
        assert (await probe.stop_cpu()).data
        assert (await probe.stop_cpu()).data == b""


async def test_leaving_a_probe_stops_its_profile(subject: Subject) -> None:
    async with subject.runtime.probe(await target(subject)) as probe:
        await probe.start_cpu(1000)
    assert not await subject.left_running("busy")


async def test_cancelled_capture_leaves_nothing_running(subject: Subject) -> None:
    started = asyncio.Event()
    found = await target(subject)

    async def capture() -> None:
        async with subject.runtime.probe(found) as probe:
            await probe.start_cpu(1000)
            started.set()
            await sample(probe, 50_000)

    capturing = asyncio.create_task(capture())
    await started.wait()
    await asyncio.sleep(0.2)
    capturing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await capturing
    assert not await subject.left_running("busy")
    async with subject.runtime.probe(found) as probe:
        assert (await sample(probe, 200)).slices


async def test_kill_mid_capture_is_told(subject: Subject) -> None:
    async with asyncio.timeout(10):
        found = await target(subject)

        async def capture() -> None:
            async with subject.runtime.probe(found) as probe:
                await sample(probe, 50_000)

        capturing = asyncio.create_task(capture())
        await asyncio.sleep(0.5)
        await subject.kill()
        with pytest.raises(Fault) as caught:
            await capturing
    assert caught.value.reason is Reason.TARGET_EXITED


async def test_stolen_session_mid_capture_is_told_and_cleaned(subject: Subject) -> None:
    async with asyncio.timeout(20):
        found = await target(subject)

        async def capture() -> None:
            async with subject.runtime.probe(found) as probe:
                await sample(probe, 50_000)

        capturing = asyncio.create_task(capture())
        await asyncio.sleep(0.5)
        await subject.steal("busy")
        with pytest.raises(Fault) as caught:
            await capturing
        assert caught.value.reason is Reason.INSPECTOR_LOST
        # The isolate can be captured right after, without what was left.
        async with subject.runtime.probe(found) as probe:
            assert (await sample(probe, 200)).slices
    assert not await subject.left_running("busy")


async def test_clear(subject: Subject) -> None:
    assert await subject.runtime.clear(await target(subject)) is False


async def test_absent_process_is_a_fault(subject: Subject) -> None:
    found = await target(subject)
    await subject.kill()
    with pytest.raises(Fault) as caught:
        async with subject.runtime.probe(found):
            pass
    assert caught.value.reason is Reason.TARGET_EXITED
    with pytest.raises(Fault) as cleared:
        await subject.runtime.clear(found)
    assert cleared.value.reason is Reason.TARGET_EXITED


async def test_executions_are_told(subject: Subject) -> None:
    told: list[Execution] = []

    async def listen() -> None:
        async for execution in subject.runtime.executions():
            told.append(execution)
            if sum(one.count for one in told) >= 3:
                return

    listening = asyncio.create_task(listen())
    for _ in range(3):
        await subject.run("other")
    async with asyncio.timeout(10):
        await listening
    assert {one.isolate_id for one in told} == {"rt1/other"}
    assert sum(one.count for one in told) == 3
