"""The anchor: a script that starts V8's profiler, waits, and stops it.

python -m bench.bare_inspector 127.0.0.1:9229 main 5 > profile.cpuprofile
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass

import aiohttp

COLLECT_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Bare:
    """One capture.

    Args:
        calls: (what, from, to) in seconds of the monotonic clock.
        took_s: all of it, from connect to close.
    """

    reply: str
    received_us: int
    calls: tuple[tuple[str, float, float], ...]
    took_s: float


async def capture(
    http: aiohttp.ClientSession,
    inspector: str,
    service: str,
    duration_s: float,
    sampling_interval_us: int = 1000,
) -> Bare:
    """Take one CPU profile with one start and one stop."""
    began = time.monotonic()
    calls: list[tuple[str, float, float]] = []
    number = 0
    async with http.ws_connect(f"ws://{inspector}/{service}", max_msg_size=0) as socket:

        async def ask(what: str, method: str, **params: int) -> str:
            nonlocal number
            number += 1
            asked = time.monotonic()
            await socket.send_json({"id": number, "method": method, "params": params})
            reply = await socket.receive_str()
            calls.append((what, asked, time.monotonic()))
            return reply

        await ask("start", "Profiler.enable")
        await ask("start", "Profiler.setSamplingInterval", interval=sampling_interval_us)
        await ask("start", "Profiler.start")
        await asyncio.sleep(duration_s)
        reply = await ask("stop", "Profiler.stop")
        received_us = time.monotonic_ns() // 1000
    return Bare(
        reply=reply, received_us=received_us, calls=tuple(calls), took_s=time.monotonic() - began
    )


async def collect(http: aiohttp.ClientSession, inspector: str, service: str) -> None:
    """Have the isolate collect all its garbage. Answered only while requests come in."""
    async with http.ws_connect(f"ws://{inspector}/{service}") as socket:
        await socket.send_json({"id": 1, "method": "HeapProfiler.collectGarbage"})
        async with asyncio.timeout(COLLECT_S):
            await socket.receive_str()


async def _main() -> None:
    parser = argparse.ArgumentParser(description="one CPU profile through the inspector")
    parser.add_argument("inspector")
    parser.add_argument("service")
    parser.add_argument("seconds", type=float)
    asked = parser.parse_args()
    async with aiohttp.ClientSession() as http:
        taken = await capture(http, asked.inspector, asked.service, asked.seconds)
    json.dump(json.loads(taken.reply)["result"]["profile"], sys.stdout)


if __name__ == "__main__":
    asyncio.run(_main())
