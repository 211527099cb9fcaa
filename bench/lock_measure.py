"""Takes one capture, bare or ours, while requests flow, and says what each phase did to them."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from bench import bare_inspector
from contract.messages import ProfileType
from edge_agent import sampler
from edge_agent.runtimes.clock import SystemClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterable

    import aiohttp

    from edge_agent.runtime import HeapUsage, Probe, RawProfile, Started
    from edge_agent.runtimes.workerd.runtime import WorkerdRuntime

PHASES = ("before", "start", "sampling", "stop")
BEFORE_S = 1.5
CONNECTIONS = 2
PAUSE_S = 0.004

Call = tuple[str, float, float]
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Latency:
    """Of requests in one phase, in milliseconds."""

    requests: int
    p50: float
    p99: float
    max: float


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One capture.

    Args:
        start_ms, stop_ms: every hold of the isolate's lock.
        lost_ratio: of the window, between slices.
        lost_held_ratio: of the time lost, how much the lock was held: then nothing ran unobserved.
        phases: latency by phase; ``all``: from the first start to the last stop.
    """

    start_ms: tuple[float, ...]
    stop_ms: tuple[float, ...]
    nodes: tuple[int, ...]
    samples: tuple[int, ...]
    intervals_us: tuple[int, ...]
    lost_ratio: float
    lost_held_ratio: float
    phases: dict[str, Latency]

    @property
    def held_ms(self) -> float:
        """All holds together."""
        return sum(self.start_ms) + sum(self.stop_ms)


class Load:
    """Bounded traffic on one Worker; knows when each request began and ended."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self._http = http
        self._url = f"http://{address}/"
        self.requests: list[tuple[float, float]] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Drive it until the block ends."""
        tasks = [asyncio.create_task(self._forever()) for _ in range(CONNECTIONS)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _forever(self) -> None:
        while True:
            began = time.monotonic()
            async with self._http.get(self._url) as answer:
                await answer.read()
            self.requests.append((began, time.monotonic()))
            await asyncio.sleep(PAUSE_S)


class Timed:
    """A Probe that notes when it was called."""

    # ruff: noqa: D102 - a Probe's methods

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self.calls: list[Call] = []

    async def _note(self, what: str, call: Awaitable[T]) -> T:
        began = time.monotonic()
        try:
            return await call
        finally:
            self.calls.append((what, began, time.monotonic()))

    async def heap_usage(self) -> HeapUsage:
        return await self._probe.heap_usage()

    async def start_cpu(self, sampling_interval_us: int) -> Started:
        return await self._note("start", self._probe.start_cpu(sampling_interval_us))

    async def stop_cpu(self) -> RawProfile:
        return await self._note("stop", self._probe.stop_cpu())

    async def start_heap(self, sampling_interval_bytes: int) -> Started:
        return await self._note("start", self._probe.start_heap(sampling_interval_bytes))

    async def stop_heap(self) -> RawProfile:
        return await self._note("stop", self._probe.stop_heap())

    async def lost(self) -> None:
        await self._probe.lost()


async def ours(
    runtime: WorkerdRuntime, load: Load, duration_s: float, max_hold_ms: int
) -> Measured:
    """A capture by the sampler."""
    (target,) = await runtime.targets()
    order = sampler.SampleOrder(profile_type=ProfileType.CPU, duration_ms=int(duration_s * 1000))
    limits = sampler.Limits(max_hold_ms=max_hold_ms)
    await asyncio.sleep(BEFORE_S)
    began = time.monotonic()
    async with runtime.probe(target) as probe:
        timed = Timed(probe)
        sampled = await sampler.sample(
            timed, order, limits, SystemClock(), asyncio.Event(), lambda _ms: None
        )
    gaps_us = sum(one.gap_us for one in sampled.holds)
    held_us = sum(
        before.stop_hold_us + after.start_hold_us
        for before, after in zip(sampled.holds, sampled.holds[1:], strict=False)
    )
    return Measured(
        start_ms=tuple(one.start_hold_us / 1000 for one in sampled.holds),
        stop_ms=tuple(one.stop_hold_us / 1000 for one in sampled.holds),
        nodes=tuple(one.nodes for one in sampled.holds),
        samples=tuple(one.samples for one in sampled.holds),
        intervals_us=sampled.intervals_us,
        lost_ratio=gaps_us * 1000 / sampled.window_ns,
        lost_held_ratio=min(1.0, held_us / gaps_us) if gaps_us else 1.0,
        phases=_phases(load, began, timed.calls),
    )


async def bare(
    http: aiohttp.ClientSession, inspector: str, service: str, load: Load, duration_s: float
) -> Measured:
    """A capture by the bare script."""
    await asyncio.sleep(BEFORE_S)
    began = time.monotonic()
    taken = await bare_inspector.capture(http, inspector, service, duration_s)
    phases = _phases(load, began, taken.calls)
    profile = (await asyncio.to_thread(json.loads, taken.reply))["result"]["profile"]
    return Measured(
        start_ms=(profile["timeDeltas"][0] / 1000,),
        stop_ms=((taken.received_us - profile["endTime"]) / 1000,),
        nodes=(len(profile["nodes"]),),
        samples=(len(profile["samples"]),),
        intervals_us=(1000,),
        lost_ratio=0.0,
        lost_held_ratio=1.0,
        phases=phases,
    )


def _phases(load: Load, began: float, calls: Iterable[Call]) -> dict[str, Latency]:
    calls = list(calls)
    first = min(start for _, start, _ in calls)
    last = max(end for _, _, end in calls)
    found: dict[str, list[float]] = {phase: [] for phase in (*PHASES, "all")}
    for start, end in load.requests:
        took_ms = (end - start) * 1000
        if began - BEFORE_S <= start and end < began:
            found["before"].append(took_ms)
        elif end >= first and start <= last:
            during = {what for what, since, until in calls if start <= until and end >= since}
            phase = "stop" if "stop" in during else "start" if "start" in during else "sampling"
            found[phase].append(took_ms)
            found["all"].append(took_ms)
    return {phase: latency(sorted(values)) for phase, values in found.items()}


def latency(values: list[float]) -> Latency:
    """Of sorted values; all 0 when there are none."""
    if not values:
        return Latency(requests=0, p50=0.0, p99=0.0, max=0.0)
    return Latency(
        requests=len(values),
        p50=statistics.median(values),
        p99=values[min(len(values) - 1, len(values) * 99 // 100)],
        max=values[-1],
    )
