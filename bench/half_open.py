"""How soon each end notices that a connection died without a word, in keepalive intervals.

The anchor is the interval itself. A call is under way through a TCP proxy that begins to drop all
that comes; the client is done when its call fails, the server when its handler is cancelled.

    python -m bench.half_open [ROUNDS]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from contract import rpc
from tests.integration.half_open import half_open
from tests.integration.tls_scene import Halves, halves

LIMIT = 2.0


async def round_of(scene: Halves) -> tuple[float, float]:
    async with half_open(scene) as ends, asyncio.timeout(120):
        # Somewhere within an interval, as it comes.
        began_s = time.monotonic()
        ends.proxy.silent = True

        async def client() -> float:
            await ends.client_saw()
            return time.monotonic() - began_s

        async def server() -> float:
            await ends.server_saw.wait()
            return time.monotonic() - began_s

        client_s, server_s = await asyncio.gather(client(), server())
    return client_s, server_s


async def main(rounds: int) -> int:
    interval_s = rpc.KEEPALIVE_MS / 1000
    with tempfile.TemporaryDirectory() as directory:
        async with halves(Path(directory)) as scene:
            seen = await asyncio.gather(*(round_of(scene) for _ in range(rounds)))
    print(f"keepalive interval {interval_s:.0f} s, {rounds} connections, limit {LIMIT} intervals")
    worst = 0.0
    for end, times in zip(("client", "server"), zip(*seen, strict=True), strict=True):
        in_intervals = sorted(one / interval_s for one in times)
        worst = max(worst, in_intervals[-1])
        middle = in_intervals[len(in_intervals) // 2]
        print(f"{end}: median {middle:.2f} intervals, worst {in_intervals[-1]:.2f}")
    return 0 if worst <= LIMIT else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)))
