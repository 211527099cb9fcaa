"""A clock that never waits: time passes when nothing else can happen."""

from __future__ import annotations

import asyncio
import heapq

# Turns of the event loop without a new sleeper after which everybody is taken to be asleep.
QUIET_TURNS = 50


class VirtualClock:
    def __init__(self) -> None:
        self._now_ns = 1_000_000_000_000
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []
        self._count = 0
        self._turns = 0
        self._running = False

    def monotonic_ns(self) -> int:
        return self._now_ns

    def time_ns(self) -> int:
        return self._now_ns + 1_700_000_000_000_000_000

    async def sleep(self, seconds: float) -> None:
        self._count += 1
        self._turns = QUIET_TURNS
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wake_ns = self._now_ns + max(0, round(seconds * 1e9))
        heapq.heappush(self._sleepers, (wake_ns, self._count, future))
        if not self._running:
            self._running = True
            asyncio.get_running_loop().call_soon(self._turn)
        await future

    def _turn(self) -> None:
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        if not self._sleepers:
            self._running = False
            return
        self._turns -= 1
        if self._turns <= 0:
            self._turns = QUIET_TURNS
            wake_ns, _, future = heapq.heappop(self._sleepers)
            self._now_ns = max(self._now_ns, wake_ns)
            future.set_result(None)
        asyncio.get_running_loop().call_soon(self._turn)
