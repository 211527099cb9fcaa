"""What inspector commands mean to a sampler: their order, and what each cost.

Rules found by experiment (decision 0002 has the numbers):

- ``Profiler.enable`` while a profile is being taken kills the runtime. It is only ever sent behind
  a ``stop``.
- The profiler belongs to the isolate, not to the session: a cut session leaves it running.
- ``enable`` after ``stop`` makes a new profiler and so frees the old one's memory.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from contract.faults import Fault, Reason
from edge_agent.runtime import HeapUsage, RawProfile, Started
from edge_agent.runtimes.workerd.cdp import Command
from edge_agent.runtimes.workerd.reply import cpu_marks, heap_marks, holds_profile

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from edge_agent.runtimes.workerd.cdp import Cdp, Reply

STOP = Command(method="Profiler.stop")
ENABLE = Command(method="Profiler.enable")
START = Command(method="Profiler.start")
HEAP_STOP = Command(method="HeapProfiler.stopSampling")
HEAP_USAGE = Command(method="Runtime.getHeapUsage")


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long a runtime may take to answer before the capture is given up."""

    connect_s: float = 5.0
    command_s: float = 5.0
    start_s: float = 10.0
    stop_s: float = 20.0
    leave_s: float = 3.0


class Inspector:
    """A Probe over one session. ``lock`` is the process's: its isolates share one event loop."""

    def __init__(
        self,
        cdp: Cdp,
        lock: asyncio.Lock,
        patience: Patience,
        exited: Callable[[], Awaitable[bool]],
    ) -> None:
        self._cdp = cdp
        self._lock = lock
        self._patience = patience
        self._exited = exited
        self._enabled = False
        self._interval_us = 0
        self.profiling = False
        self.unclean = False

    async def heap_usage(self) -> HeapUsage:
        """Bytes in use. Takes under a millisecond of the isolate."""
        (reply,) = await self._ask(HEAP_USAGE, timeout_s=self._patience.command_s)
        try:
            told = json.loads(reply.data)["result"]
            return HeapUsage(
                used_bytes=int(told["usedSize"]),
                total_bytes=int(told["totalSize"]),
                backing_store_bytes=int(told.get("backingStorageSize", 0)),
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Fault(
                Reason.INSPECTOR_LOST, "the inspector's heap numbers are not readable"
            ) from None

    async def clear(self) -> bool:
        """Stop whatever profile is being taken. True if one was. Frees its memory."""
        (reply,) = await self._ask(STOP, timeout_s=self._patience.stop_s)
        left = holds_profile(reply.data)
        if left:
            await self._ask(STOP, ENABLE, timeout_s=self._patience.command_s)
        self.profiling = self.unclean = False
        return left

    async def start_cpu(self, sampling_interval_us: int) -> Started:
        """Start sampling. The first start of a session stops whatever ran before it."""
        if not self._enabled:
            await self._ask(STOP, timeout_s=self._patience.stop_s)
            self._interval_us = 0
        commands = [] if self._enabled else [STOP, ENABLE]
        if self._interval_us != sampling_interval_us:
            params = {"interval": sampling_interval_us}
            commands.append(Command(method="Profiler.setSamplingInterval", params=params))
        self.profiling = self.unclean = True
        replies = await self._ask(*commands, START, timeout_s=self._patience.start_s)
        self._enabled, self._interval_us = True, sampling_interval_us
        return Started(hold_us=replies[-1].received_us - replies[-1].sent_us)

    async def stop_cpu(self) -> RawProfile:
        """Stop and hand over. An isolate in which nothing was being taken gives empty data."""
        (reply,) = await self._ask(STOP, timeout_s=self._patience.stop_s)
        self.profiling = False
        waited_us = reply.received_us - reply.sent_us
        if not holds_profile(reply.data):
            self.unclean = self._enabled = False
            return _nothing(waited_us, reply)
        marks = await cpu_marks(reply.data)
        # Both clocks are the machine's monotonic one; were they not, the time waited still bounds
        # the hold.
        hold_us = reply.received_us - marks.ended_us
        return RawProfile(
            data=reply.data,
            start_hold_us=marks.first_delta_us,
            stop_hold_us=hold_us if 0 <= hold_us <= waited_us else waited_us,
            started_us=marks.started_us,
            ended_us=marks.ended_us,
            received_us=reply.received_us,
            samples=marks.samples,
            nodes=marks.nodes,
        )

    async def start_heap(self, sampling_interval_bytes: int) -> Started:
        """Start the sampling heap profiler; without flags only what outlives the window counts."""
        params = {
            "samplingInterval": sampling_interval_bytes,
            "includeObjectsCollectedByMajorGC": True,
            "includeObjectsCollectedByMinorGC": True,
        }
        start = Command(method="HeapProfiler.startSampling", params=params)
        (reply,) = await self._ask(start, timeout_s=self._patience.start_s)
        return Started(hold_us=reply.received_us - reply.sent_us)

    async def stop_heap(self) -> RawProfile:
        """Stop and hand over, once: each time the runtime collects all garbage first."""
        (reply,) = await self._ask(HEAP_STOP, timeout_s=self._patience.stop_s)
        marks = await heap_marks(reply.data)
        return RawProfile(
            data=reply.data,
            start_hold_us=0,
            stop_hold_us=reply.received_us - reply.sent_us,
            started_us=0,
            ended_us=0,
            received_us=reply.received_us,
            samples=marks.samples,
            nodes=marks.nodes,
        )

    async def lost(self) -> None:
        """Return when the session is over."""
        await self._cdp.closed()

    async def leave(self) -> None:
        """Stop what may still be running, then free what was kept.

        Raises:
            Fault: it could not be confirmed; ``unclean`` stays True when a profiler may be left.
        """
        if self.profiling:
            await self._ask(STOP, timeout_s=self._patience.leave_s)
            self.profiling = False
        if self._enabled or self.unclean:
            await self._ask(STOP, ENABLE, timeout_s=self._patience.leave_s)
            self._enabled = self.unclean = False

    async def _ask(self, *commands: Command, timeout_s: float) -> tuple[Reply, ...]:
        async with self._lock:
            try:
                return await self._cdp.command(*commands, timeout_s=timeout_s)
            except Fault as fault:
                if fault.reason is not Reason.INSPECTOR_LOST:
                    raise
                lost = fault
        if await self._exited():
            raise Fault(Reason.TARGET_EXITED, "the runtime exited, or no longer has this isolate")
        raise lost


def _nothing(waited_us: int, reply: Reply) -> RawProfile:
    return RawProfile(
        data=b"",
        start_hold_us=0,
        stop_hold_us=waited_us,
        started_us=0,
        ended_us=0,
        received_us=reply.received_us,
    )
