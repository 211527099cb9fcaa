"""How soon a capture ends after its runtime was killed: ours beside a script on the same socket.

Two isolates of one process are captured, one by the sampler, one by a bare session; then the process
gets SIGKILL. ``python -m bench.target_exited --kills 10``, from the repository's root.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

from bench import one_workerd
from contract.faults import Fault, Reason
from contract.messages import ProfileType
from edge_agent.runtime import IsolateConfig
from edge_agent.runtimes.clock import SystemClock
from edge_agent.runtimes.workerd.runtime import WorkerdRuntime
from edge_agent.sampler import Limits, SampleOrder, sample

GOAL_S = 2.0
SAMPLED_S = 1.0
LONG_MS = 50_000
MODULE = 'export default { fetch() { return new Response("here"); } };'


async def _ours(runtime: WorkerdRuntime) -> float:
    """When the sampler knew, on the monotonic clock."""
    target = next(one for one in await runtime.targets() if one.service == "ours")
    order = SampleOrder(profile_type=ProfileType.CPU, duration_ms=LONG_MS)
    try:
        async with runtime.probe(target) as probe:
            await sample(probe, order, Limits(), SystemClock(), asyncio.Event(), lambda _: None)
    except Fault as fault:
        if fault.reason is not Reason.TARGET_EXITED:
            raise
        return time.monotonic()
    raise AssertionError("the capture ended as if nothing had happened")


async def _bare(http: aiohttp.ClientSession, inspector: str) -> float:
    async with http.ws_connect(f"ws://{inspector}/bare") as socket:
        for number, method in enumerate(("Profiler.enable", "Profiler.start")):
            await socket.send_json({"id": number, "method": method})
            await socket.receive_str()
        await socket.receive()
        return time.monotonic()


async def one(folder: Path, http: aiohttp.ClientSession) -> tuple[float, float]:
    """Seconds from the kill until each knew: (ours, bare)."""
    async with one_workerd.running(folder, {"ours": MODULE, "bare": MODULE}) as process:
        isolate = IsolateConfig(
            service="ours",
            account_id="a" * 32,
            worker_id="b" * 32,
            worker_name="ours",
            version_id="11111111-2222-4333-8444-555555555555",
        )
        runtime = WorkerdRuntime("wd1", process.inspector, (isolate,), "heap", None, SystemClock())
        try:
            ours = asyncio.create_task(_ours(runtime))
            bare = asyncio.create_task(_bare(http, process.inspector))
            await asyncio.sleep(SAMPLED_S)
            killed = time.monotonic()
            process.child.kill()
            return await ours - killed, await bare - killed
        finally:
            await runtime.close()


async def main() -> int:
    """Print each kill and the medians; 1 when one took longer than the goal."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=10)
    asked = parser.parse_args()
    found: list[tuple[float, float]] = []
    async with aiohttp.ClientSession() as http:
        for number in range(asked.kills):
            with tempfile.TemporaryDirectory(prefix="isoprof-bench-") as folder:
                found.append(await one(Path(folder), http))
            ours, bare = found[-1]
            print(f"kill {number + 1}: ours {ours * 1000:.1f} ms, bare {bare * 1000:.1f} ms")
    every = [pair[0] for pair in found]
    ratio = statistics.median(every) / statistics.median(pair[1] for pair in found)
    print(
        f"ours median {statistics.median(every) * 1000:.1f} ms, worst {max(every) * 1000:.1f} ms; "
        f"over bare {ratio:.1f}x; goal {GOAL_S} s: {'met' if max(every) < GOAL_S else 'MISSED'}"
    )
    return 0 if max(every) < GOAL_S else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
