"""A short, coarse profile of every isolate that appears, so that the first real one is true.

What V8 optimised while no profiler ran has lost its inlined callees, and a loop replaced on the
stack shows as ``(program)``. Profiled once early, code is logged as it is optimised. Nobody reads
the warm-up's result. Decision 0003 has what was measured.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from contract.faults import Fault
from contract.messages import ProfileType
from edge_agent.sampler import Limits, SampleOrder, sample

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edge_agent.activity import Activity
    from edge_agent.hold import Holds
    from edge_agent.loaded import Loaded
    from edge_agent.runtime import Clock, Target

INTERVAL_US = 10_000
LOOK_S = 0.5
# Each has a sampling thread of its own in the runtime.
AT_ONCE = 8
# Of the two seconds an order may take.
MAKE_WAY_S = 0.7
# As short as a warm-up is, it is one start and one stop.
LIMITS = Limits()

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class _Running:
    task: asyncio.Task[None]
    stop: asyncio.Event


class WarmUps:
    """Warms each life of an isolate up once, and leaves at once when a capture wants it.

    Args:
        length_ms: of one warm-up.
    """

    def __init__(
        self, *, loaded: Loaded, activity: Activity, holds: Holds, clock: Clock, length_ms: int
    ) -> None:
        self._loaded = loaded
        self._activity = activity
        self._holds = holds
        self._clock = clock
        self._length_ms = length_ms
        # isolate id -> the generation that was warmed up, or need not be; and the one that was
        # profiled while nothing ran in it, which does no good once something does.
        self._warmed: dict[str, int] = {}
        self._idle: dict[str, int] = {}
        self._running: dict[str, _Running] = {}

    async def run(self) -> None:
        """Warm up for ever; cancelled, it leaves no profiler running."""
        try:
            while True:
                self.begin()
                await self._clock.sleep(LOOK_S)
        finally:
            running = [one.task for one in self._running.values()]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    def begin(self) -> None:
        """Begin with those that are new and free, as many as may run at once.

        A new one is profiled before it is known to have run: most appear because of a request, and
        hot code is optimised within its first few.
        """
        now_ms = self._now_ms()
        targets = self._loaded.targets
        self._warmed = _alive(self._warmed, targets)
        self._idle = _alive(self._idle, targets)
        for target in targets:
            if len(self._running) >= AT_ONCE:
                return
            isolate_id = target.isolate_id
            if isolate_id in self._warmed or isolate_id in self._running:
                continue
            if isolate_id in self._idle and not self._ran(target, now_ms):
                continue
            if not self._holds.held_ms(isolate_id, now_ms):
                self._begin(target, now_ms)

    async def make_way(self, targets: Iterable[Target]) -> None:
        """End the warm-ups of these isolates, and begin none: a capture does the same good."""
        running = []
        for target in targets:
            self._warmed[target.isolate_id] = target.generation
            if target.isolate_id in self._running:
                running.append(self._running[target.isolate_id])
        for one in running:
            one.stop.set()
        if running:
            # One that takes longer ends on its own; the capture then finds its isolate busy.
            await asyncio.wait([one.task for one in running], timeout=MAKE_WAY_S)

    def _ran(self, target: Target, now_ms: int) -> bool:
        return self._activity.idle_ms(target.isolate_id, now_ms) is not None

    def _begin(self, target: Target, now_ms: int) -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(self._warm(target, now_ms, stop))
        self._running[target.isolate_id] = _Running(task=task, stop=stop)
        task.add_done_callback(lambda _: self._running.pop(target.isolate_id, None))

    async def _warm(self, target: Target, now_ms: int, stop: asyncio.Event) -> None:
        try:
            hold = self._holds.take(
                target.isolate_id, now_ms, self._length_ms, counted=False, yields=True
            )
        except Fault:
            return
        try:
            order = SampleOrder(
                profile_type=ProfileType.CPU,
                duration_ms=self._length_ms,
                sampling_interval_us=INTERVAL_US,
            )
            log.info("isolate_warming_up", isolate=target.isolate_id)
            async with self._loaded.runtime(target).probe(target) as probe:
                sampled = await sample(probe, order, LIMITS, self._clock, stop, lambda _: None)
            log.info(
                "isolate_warmed_up",
                isolate=target.isolate_id,
                holds=[(one.start_hold_us, one.stop_hold_us) for one in sampled.holds],
                made_way=stop.is_set(),
            )
        except Fault as fault:
            log.warning("isolate_not_warmed_up", isolate=target.isolate_id, reason=fault.reason)
        finally:
            self._holds.release(hold)
            ran = self._ran(target, self._now_ms())
            (self._warmed if ran else self._idle)[target.isolate_id] = target.generation

    def _now_ms(self) -> int:
        return self._clock.monotonic_ns() // 1_000_000


def _alive(known: dict[str, int], targets: Iterable[Target]) -> dict[str, int]:
    return {
        one.isolate_id: one.generation
        for one in targets
        if known.get(one.isolate_id) == one.generation
    }
