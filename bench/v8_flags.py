"""What it takes for an isolate's first profile to be true, and what that costs its requests.

Runs the sample ``loop`` (nearly all of its time is in ``collatz``) in fresh workerd processes with
each set of V8 flags: some requests with no profiler running, then a bare capture. Prints the share
of the capture that ``collatz`` and its caller got, and how long the first request, the first twenty
and a late one took, as ratios to the runtime without flags.

    python -m bench.v8_flags --rounds 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench import bare_inspector, one_workerd
from services.devfleet.build import ROOT

SOURCE = ROOT / "services/devfleet/workers/small/loop.js"
FLAGS: tuple[tuple[str, ...], ...] = (
    (),
    ("--detailed-line-info",),
    ("--no-use-osr",),
    ("--detailed-line-info", "--no-use-osr"),
)
# Few enough that no function was called often enough to be optimised as a whole.
BEFORE, FIRST = 30, 20
CAPTURE_S = 2.0
PAUSE_S = 0.01


@dataclass(frozen=True, kw_only=True)
class Round:
    """One process: shares of the captured CPU time, and requests in milliseconds."""

    collatz: float
    fetch: float
    first_ms: float
    first_twenty_ms: float
    late_ms: float


async def one_round(http: aiohttp.ClientSession, flags: tuple[str, ...]) -> Round:
    """Take one round in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        modules = {"loop": SOURCE.read_text()}
        async with one_workerd.running(Path(folder), modules, v8_flags=flags) as process:
            url = f"http://{process.workers['loop']}/"
            took = [await _ask(http, url) for _ in range(BEFORE)]
            traffic = asyncio.create_task(_forever(http, url))
            try:
                taken = await bare_inspector.capture(http, process.inspector, "loop", CAPTURE_S)
            finally:
                traffic.cancel()
                await asyncio.gather(traffic, return_exceptions=True)
    shares = _shares(json.loads(taken.reply)["result"]["profile"])
    return Round(
        collatz=shares["collatz"],
        fetch=shares["fetch"],
        first_ms=took[0],
        first_twenty_ms=sum(took[:FIRST]),
        late_ms=statistics.median(took[FIRST:]),
    )


async def _ask(http: aiohttp.ClientSession, url: str) -> float:
    began = time.perf_counter()
    async with http.get(url) as answer:
        await answer.read()
    return (time.perf_counter() - began) * 1000


async def _forever(http: aiohttp.ClientSession, url: str) -> None:
    while True:
        await _ask(http, url)
        await asyncio.sleep(PAUSE_S)


def _shares(profile: dict[str, Any]) -> dict[str, float]:
    names = {node["id"]: node["callFrame"]["functionName"] for node in profile["nodes"]}
    found = Counter(names[sample] for sample in profile["samples"])
    del found["(idle)"]
    whole = found.total() or 1
    return {name: found[name] / whole for name in ("collatz", "fetch")}


async def main() -> None:
    """Print one line per set of flags."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    taken: dict[tuple[str, ...], list[Round]] = {flags: [] for flags in FLAGS}
    async with aiohttp.ClientSession() as http:
        for _ in range(rounds):
            for flags in FLAGS:
                taken[flags].append(await one_round(http, flags))
    base = taken[()]
    for flags, found in taken.items():
        ratios = ", ".join(
            f"{what} {_median(found, what) / _median(base, what):.2f}x"
            for what in ("first_ms", "first_twenty_ms", "late_ms")
        )
        shares = " ".join(f"{one.collatz:.0%}/{one.fetch:.0%}" for one in found)
        print(f"{' '.join(flags) or 'no flags'}: collatz/fetch {shares}; {ratios}")


def _median(found: list[Round], what: str) -> float:
    return float(statistics.median(getattr(one, what) for one in found))


if __name__ == "__main__":
    asyncio.run(main())
