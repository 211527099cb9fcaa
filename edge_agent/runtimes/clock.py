"""The machine's clock, for the process that composes an agent."""

from __future__ import annotations

import asyncio
import time


class SystemClock:
    """Real time. ``monotonic_ns`` is CLOCK_MONOTONIC, which V8 stamps its profiles with too."""

    def monotonic_ns(self) -> int:
        """The monotonic clock."""
        return time.monotonic_ns()

    def time_ns(self) -> int:
        """Since 1970."""
        return time.time_ns()

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        await asyncio.sleep(seconds)
