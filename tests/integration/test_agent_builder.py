"""The process that builds a profile: what it answers, and that it never outlives its capture."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from contract.faults import Fault, Reason
from contract.messages import ProfileType
from edge_agent import builder as building
from edge_agent.builder import BuildOrder, builder
from edge_agent.runtimes import workload
from pprof import check, codec
from pprof.comments import Context

if TYPE_CHECKING:
    from asyncio.subprocess import Process

CONTEXT = Context(
    isoprof="test",
    session="0b9d7f6e-1d2c-4a3b-9c4d-5e6f70819203",
    capture=1,
    worker="checkout",
    version="11111111-2222-4333-8444-555555555555",
    datacenter="ams1",
    metal="ams1-m1",
    isolate="wd1/checkout",
    lock_start_ns=1,
    lock_stop_ns=1,
    gaps_ns=0,
    truncated="",
)


def _order(*slices: bytes) -> BuildOrder:
    return BuildOrder(
        profile_type=ProfileType.CPU,
        slices=slices,
        intervals=(1_000,) * len(slices),
        started_at_ns=1_700_000_000_000_000_000,
        window_ns=1_000_000_000,
        backing_store_bytes=0,
        context=CONTEXT,
    )


def _slice(started_us: int) -> bytes:
    data, _, _ = workload.cpu(
        workload.Workload(),
        started_us=started_us,
        first_us=started_us + 8_000,
        ended_us=started_us + 500_000,
        interval_us=1_000,
    )
    return data


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Process]:
    """Every process that was started."""
    processes: list[Process] = []
    start = building._start

    async def kept() -> Process:
        processes.append(await start())
        return processes[-1]

    monkeypatch.setattr(building, "_start", kept)
    return processes


async def test_slices_become_one_profile(started: list[Process]) -> None:
    async with builder() as build:
        built = await build(_order(_slice(1_000_000), _slice(2_000_000)))
    profile = codec.decode(built.data)
    check.check(profile)
    assert built.samples > 0
    assert profile.samples
    assert [one.returncode is None for one in started] == [False]


@pytest.mark.parametrize("data", [b"not JSON", b"{}", b'{"nodes": 7}'])
async def test_what_is_no_profile_is_refused_by_name(data: bytes) -> None:
    async with builder() as build:
        with pytest.raises(Fault) as refused:
            await build(_order(data))
    assert refused.value.reason is Reason.PROFILE_INVALID


async def test_a_process_that_dies_is_a_fault(started: list[Process]) -> None:
    async with builder() as build:
        # More than a pipe holds, so that it is still being sent when the process goes.
        building_it = asyncio.ensure_future(build(_order(b"[" * (1 << 24))))
        while not started:  # noqa: ASYNC110 - the start has no event
            await asyncio.sleep(0)
        started[0].kill()
        with pytest.raises(Fault) as failed:
            await building_it
    assert failed.value.reason is Reason.INTERNAL
    assert started[0].returncode is not None


async def test_a_capture_that_is_given_up_leaves_no_process(started: list[Process]) -> None:
    begun = asyncio.Event()

    async def given_up() -> None:
        async with builder() as build:
            begun.set()
            await build(_order(b"[" * (1 << 24)))

    task = asyncio.create_task(given_up())
    await begun.wait()
    while not started:  # noqa: ASYNC110 - the start has no event
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [one.returncode is None for one in started] == [False]
