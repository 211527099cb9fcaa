"""After a start: every isolate clean, and every capture an earlier run left open told as failed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from contract.faults import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable

    from edge_agent.hold import Holds
    from edge_agent.loaded import Loaded
    from edge_agent.runtime import Clock, Target

CLEARING_MS = 2_000
FIRST_S = 5.0
AGAIN_S = 2.0

log = structlog.get_logger()


class Recovery:
    """An agent that was killed left its profilers running: the profiler belongs to the isolate.

    An isolate that can't be cleared now (it is busy, or its process is not up yet) is tried again;
    until then nothing is wrong but some CPU time, since a capture stops what runs before it starts.

    Args:
        isolate_ids: every isolate that is configured, whether or not it was journaled.
    """

    def __init__(
        self, isolate_ids: Iterable[str], *, loaded: Loaded, holds: Holds, clock: Clock
    ) -> None:
        self._unclean = set(isolate_ids)
        self._loaded = loaded
        self._holds = holds
        self._clock = clock

    async def first(self) -> None:
        """Clear what is loaded now; return when each was tried once, or after ``FIRST_S``.

        A process in a long synchronous loop must not keep the agent from serving the others.
        """
        targets = [one for one in await self._loaded.look() if one.isolate_id in self._unclean]
        tries = asyncio.gather(*(self._clear(target) for target in targets))
        patience = asyncio.ensure_future(self._clock.sleep(FIRST_S))
        try:
            await asyncio.wait((tries, patience), return_when=asyncio.FIRST_COMPLETED)
        finally:
            tries.cancel()
            patience.cancel()
            await asyncio.gather(tries, patience, return_exceptions=True)

    async def rest(self) -> None:
        """Go on until every isolate was cleared once."""
        while self._unclean:
            await self._clock.sleep(AGAIN_S)
            await self.first()

    async def _clear(self, target: Target) -> None:
        now_ms = self._clock.monotonic_ns() // 1_000_000
        try:
            # A second session on an isolate would kill the first: not while it is being captured.
            hold = self._holds.take(target.isolate_id, now_ms, CLEARING_MS, counted=False)
        except Fault:
            return
        try:
            left = await self._loaded.runtime(target).clear(target)
        except Fault as fault:
            log.warning("isolate_not_cleared", isolate=target.isolate_id, reason=fault.reason)
            return
        finally:
            self._holds.release(hold)
        self._unclean.discard(target.isolate_id)
        if left:
            log.info("profiler_was_left_running", isolate=target.isolate_id)
