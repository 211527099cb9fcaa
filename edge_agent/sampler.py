"""Take one capture of one isolate while holding its lock only to start and to stop.

Knows a Probe, a clock and nothing else. Whatever ends it, a fault or a cancellation, it tries for a
bounded time to leave no profiler running.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, assert_never

from contract.faults import Fault, Reason
from contract.messages import ProfileType, SliceHolds
from edge_agent import pacer

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from edge_agent.runtime import Clock, Probe, RawProfile

HEAP_INTERVAL_BYTES = 524_288
# What is left of a window when another slice would only cost time.
NOT_WORTH_US = 250_000

Ended = Literal["time", "asked"]


@dataclass(frozen=True, kw_only=True)
class SampleOrder:
    """What to take. ``sampling_interval_us`` is for CPU."""

    profile_type: ProfileType
    duration_ms: int
    sampling_interval_us: int = 1000


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a capture may cost the isolate and the agent.

    Args:
        max_hold_ms: the longest the isolate's lock may be held at a time, as far as it can be
            foreseen.
        max_lost_ratio: of the window, between slices.
        max_bytes: all slices together; reaching it ends the capture early.
        clean_up_s: how long to try to stop a profiler after a failure.
        progress_ms: how often progress is told.
    """

    max_hold_ms: int = 250
    max_lost_ratio: float = 0.02
    max_bytes: int = 64 << 20
    clean_up_s: float = 3.0
    progress_ms: int = 500


@dataclass(frozen=True, kw_only=True)
class Sampled:
    """What was taken: one raw profile per slice, in order, and what each cost.

    Args:
        started_at_ns: since 1970, when the first start was accepted.
        window_ns: from there to the last stop, gaps included. CPU: by the runtime's own stamps, so
            that what ran, what idled and the gaps add up to it however late an answer came.
        sampling_interval_us: CPU: the longest used, which is the one asked for unless ``truncated``
            says otherwise.
        intervals_us: CPU: the interval of each slice.
        truncated: comma-separated reasons why this is less than was asked for; empty when it is
            all.
        backing_store_bytes: heap: what ArrayBuffers held outside the heap at the end; not part of
            the profile.
    """

    slices: tuple[RawProfile, ...]
    holds: tuple[SliceHolds, ...]
    started_at_ns: int
    window_ns: int
    sampling_interval_us: int
    intervals_us: tuple[int, ...]
    truncated: str
    backing_store_bytes: int


async def sample(
    probe: Probe,
    order: SampleOrder,
    limits: Limits,
    clock: Clock,
    stop: asyncio.Event,
    progress: Callable[[int], None],
) -> Sampled:
    """Sample until the duration is over or ``stop`` is set; what was taken until then is kept.

    Args:
        progress: told how many milliseconds of the window are over, now and then.

    Raises:
        Fault: as the Probe does, ``target_exited`` and ``inspector_lost`` as soon as the session is
            gone.
    """
    watch = _Watch(probe, clock, stop, progress, limits.progress_ms)
    try:
        match order.profile_type:
            case ProfileType.CPU:
                return await _cpu(probe, order, limits, clock, watch)
            case ProfileType.HEAP:
                return await _heap(probe, order, clock, watch)
            case _:
                assert_never(order.profile_type)
    except BaseException:
        await _clean(probe, order.profile_type, limits, clock)
        raise
    finally:
        await watch.close()


class _Watch:
    """Waits for the end of a slice: its time, a wish to stop, or the loss of the session."""

    def __init__(
        self,
        probe: Probe,
        clock: Clock,
        stop: asyncio.Event,
        progress: Callable[[int], None],
        progress_ms: int,
    ) -> None:
        self._clock = clock
        self._progress = progress
        self._tick_ns = progress_ms * 1_000_000
        self._asked = asyncio.create_task(stop.wait())
        self._lost = asyncio.create_task(probe.lost())
        self.began_ns = 0

    async def until(self, end_ns: int) -> Ended:
        """Wait until then, or until asked to stop or lost (the next command says how)."""
        while True:
            now_ns = self._clock.monotonic_ns()
            self._progress(max(0, now_ns - self.began_ns) // 1_000_000)
            if self._asked.done():
                return "asked"
            if now_ns >= end_ns or self._lost.done():
                return "time"
            wait_s = min(end_ns - now_ns, self._tick_ns) / 1e9
            sleep = asyncio.create_task(self._clock.sleep(wait_s))
            try:
                await asyncio.wait(
                    (sleep, self._asked, self._lost), return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                await _ended(sleep)

    async def close(self) -> None:
        await _ended(self._asked, self._lost)


async def _cpu(
    probe: Probe, order: SampleOrder, limits: Limits, clock: Clock, watch: _Watch
) -> Sampled:
    duration_us = order.duration_ms * 1000
    budget = pacer.Budget(
        max_hold_us=limits.max_hold_ms * 1000, max_lost_ratio=limits.max_lost_ratio
    )
    taken: list[RawProfile] = []
    holds: list[SliceHolds] = []
    costs: list[pacer.Observed] = []
    truncated: list[str] = []
    started_at_ns = 0
    end_ns = 0
    plan = pacer.first(duration_us, order.sampling_interval_us)
    while True:
        await probe.start_cpu(plan.interval_us)
        now_ns = clock.monotonic_ns()
        if not taken:
            started_at_ns, watch.began_ns = clock.time_ns(), now_ns
            end_ns = now_ns + duration_us * 1000
        ended = await watch.until(min(end_ns, now_ns + plan.length_us * 1000))
        asked_ns = clock.monotonic_ns()
        raw = await probe.stop_cpu()
        if not raw.data:
            raise Fault(
                Reason.INSPECTOR_LOST, "another inspector client stopped the profile being taken"
            )
        holds.append(_holds(raw, taken[-1] if taken else None))
        taken.append(raw)
        costs.append(_observed(holds[-1], plan.interval_us))
        remaining_us = (end_ns - clock.monotonic_ns()) // 1000
        if ended == "asked":
            truncated.append("stopped")
        elif sum(len(one.data) for one in taken) >= limits.max_bytes:
            truncated.append(f"max_bytes={limits.max_bytes}")
        elif remaining_us > NOT_WORTH_US:
            plan = pacer.following(costs, remaining_us, duration_us, budget)
            continue
        break
    began_us, ended_us = taken[0].started_us + taken[0].start_hold_us, raw.ended_us
    window_ns = (ended_us - began_us) * 1000 if ended_us else asked_ns - watch.began_ns
    if plan.interval_us != order.sampling_interval_us:
        truncated.append(f"sampling_interval_us={plan.interval_us}")
    return Sampled(
        slices=tuple(taken),
        holds=tuple(holds),
        started_at_ns=started_at_ns,
        window_ns=max(0, window_ns),
        sampling_interval_us=plan.interval_us,
        intervals_us=tuple(one.interval_us for one in costs),
        truncated=",".join(truncated),
        backing_store_bytes=0,
    )


async def _heap(probe: Probe, order: SampleOrder, clock: Clock, watch: _Watch) -> Sampled:
    started = await probe.start_heap(HEAP_INTERVAL_BYTES)
    started_at_ns, watch.began_ns = clock.time_ns(), clock.monotonic_ns()
    ended = await watch.until(watch.began_ns + order.duration_ms * 1_000_000)
    usage = await probe.heap_usage()
    window_ns = clock.monotonic_ns() - watch.began_ns
    raw = await probe.stop_heap()
    holds = SliceHolds(
        start_hold_us=started.hold_us,
        stop_hold_us=raw.stop_hold_us,
        gap_us=0,
        sampled_us=window_ns // 1000,
        samples=raw.samples,
        nodes=raw.nodes,
    )
    return Sampled(
        slices=(raw,),
        holds=(holds,),
        started_at_ns=started_at_ns,
        window_ns=window_ns,
        sampling_interval_us=order.sampling_interval_us,
        intervals_us=(),
        truncated="stopped" if ended == "asked" else "",
        backing_store_bytes=usage.backing_store_bytes,
    )


def _holds(raw: RawProfile, before: RawProfile | None) -> SliceHolds:
    """What a slice cost. The gap runs from one slice's end to the next's first possible sample."""
    first_us = raw.started_us + raw.start_hold_us
    return SliceHolds(
        start_hold_us=raw.start_hold_us,
        stop_hold_us=raw.stop_hold_us,
        gap_us=max(0, first_us - before.ended_us) if before else 0,
        sampled_us=max(0, raw.ended_us - first_us),
        samples=raw.samples,
        nodes=raw.nodes,
    )


def _observed(holds: SliceHolds, interval_us: int) -> pacer.Observed:
    return pacer.Observed(
        interval_us=interval_us,
        sampled_us=holds.sampled_us,
        samples=holds.samples,
        nodes=holds.nodes,
        start_hold_us=holds.start_hold_us,
        stop_hold_us=holds.stop_hold_us,
        lost_us=holds.gap_us,
    )


async def _clean(probe: Probe, profile_type: ProfileType, limits: Limits, clock: Clock) -> None:
    """Stop what may be running. The Probe's own exit does the rest when this can't."""
    stop = asyncio.create_task(
        _quietly(probe.stop_cpu() if profile_type is ProfileType.CPU else probe.stop_heap())
    )
    patience = asyncio.create_task(clock.sleep(limits.clean_up_s))
    try:
        await asyncio.wait((stop, patience), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _ended(stop, patience)


async def _quietly(call: Coroutine[object, object, RawProfile]) -> None:
    # The fault that led here is the one to tell.
    with suppress(Fault):
        await call


async def _ended(*tasks: asyncio.Task[None] | asyncio.Task[Literal[True]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
