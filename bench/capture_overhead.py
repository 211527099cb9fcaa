"""What the whole system adds to a capture: REST to file in hand, over a bare start, wait and stop.

Pairs alternate which of the two goes first, on the same isolate under the same traffic. Run from
the repository's root: ``python -m bench.capture_overhead --pairs 10``.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import aiohttp

from bench.bare_inspector import capture
from services.devfleet import fleet as plan
from services.devfleet.system import Fleet, running

GOAL_RATIO = 1.03
WORKER, TAG, METAL, RUNTIME = plan.LOOP, "live", "iad1-m1", "wd1"
SERVICE = f"{WORKER.name}-{TAG}"
# The one metal concerned: what the other samples cost the machine is no part of a capture.
PLAN = replace(plan.PLAN, metals=tuple(m for m in plan.PLAN.metals if m.metal_id == METAL))
# The runtime kills both sessions when one opens while another is on its way out.
SETTLE_S = 0.5
ANSWER_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Wall seconds of the same capture, both ways."""

    bare_s: float
    system_s: float

    @property
    def ratio(self) -> float:
        """How much longer the system took; 1 is not at all."""
        return self.system_s / self.bare_s


async def system_s(fleet: Fleet, http: aiohttp.ClientSession, duration_s: float) -> float:
    """Time one capture as a caller of the REST endpoint has it."""
    version = WORKER.version(TAG).version_id
    url = (
        f"{fleet.api_url}/accounts/{WORKER.account.account_id}/workers/workers/{WORKER.worker_id}"
        f"/versions/{version}/profile"
    )
    began = time.monotonic()
    async with http.post(
        url,
        json={"duration_ms": round(duration_s * 1000)},
        headers={"Authorization": f"Bearer {fleet.token(WORKER.account)}"},
        timeout=aiohttp.ClientTimeout(total=duration_s + ANSWER_S),
    ) as answer:
        data = await answer.read()
        if answer.status != 200:
            raise SystemExit(f"the capture failed: {answer.status} {data.decode()}")
    return time.monotonic() - began


async def pairs(fleet: Fleet, count: int, duration_s: float) -> list[Pair]:
    """Take the pairs, telling each as it is had."""
    inspector = fleet.addresses.metals[METAL].processes[RUNTIME].inspector
    taken = []
    async with aiohttp.ClientSession() as http:
        for number in range(count):
            bare = system = 0.0
            for which in ("bare", "system") if number % 2 == 0 else ("system", "bare"):
                await asyncio.sleep(SETTLE_S)
                if which == "bare":
                    bare = (await capture(http, inspector, SERVICE, duration_s)).took_s
                else:
                    system = await system_s(fleet, http, duration_s)
            pair = Pair(bare_s=bare, system_s=system)
            taken.append(pair)
            print(
                f"pair {number + 1:2d}: bare {bare:.3f} s, system {system:.3f} s, "
                f"ratio {pair.ratio:.4f}",
                file=sys.stderr,
                flush=True,
            )
    return taken


def say(elapsed_s: float, what: str) -> None:
    """Tell a step of the start."""
    print(f"  {elapsed_s:5.1f} s  {what}", file=sys.stderr, flush=True)


async def measure(arguments: argparse.Namespace) -> float:
    """Start the fleet, take the pairs, print the figures as JSON; returns the median ratio."""
    with tempfile.TemporaryDirectory(prefix="isoprof-bench-") as made:
        data_dir = arguments.data_dir or Path(made)
        async with running(data_dir, plan=PLAN, say=say) as fleet:
            taken = await pairs(fleet, arguments.pairs, arguments.duration_s)
    ratio = statistics.median(pair.ratio for pair in taken)
    figures = {
        "bench": "capture_overhead",
        "duration_s": arguments.duration_s,
        "pairs": [asdict(pair) for pair in taken],
        "median_bare_s": statistics.median(pair.bare_s for pair in taken),
        "median_system_s": statistics.median(pair.system_s for pair in taken),
        "median_ratio": ratio,
        "goal_ratio": GOAL_RATIO,
    }
    print(json.dumps(figures, indent=2))
    return ratio


def main() -> int:
    """Exit 0 when the goal is met, 1 when it is not."""
    parser = argparse.ArgumentParser(prog="python -m bench.capture_overhead", description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--duration-s", type=float, default=5.0)
    parser.add_argument("--data-dir", type=Path, help="keep the fleet's data here")
    return 0 if asyncio.run(measure(parser.parse_args())) <= GOAL_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
