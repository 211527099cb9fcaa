"""How long a profile stalls an isolate: our sampler beside a bare script, in alternating pairs.

Starts its own workerd processes with a tiny, a deep and a wide Worker, drives bounded requests at
them on loopback and measures their latency before, during start, sampling and stop, and every hold
of the isolate's lock.

    python -m bench.lock_brief --pairs 10 --workers tiny,deep --durations 5
    python -m bench.lock_brief --pairs 1 --workers wide --durations 50 --json lock.json

Exit status 1 when a goal is missed. Goals: at 5 s, tiny and deep: ratio of medians <= 1.05. At 50
s, wide: no hold over 1.1 times the budget, and at most 2 % of the window lost between slices.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp

from bench import lock_measure, one_workerd
from bench.lock_workers import MODULES
from edge_agent.runtime import IsolateConfig
from edge_agent.runtimes.clock import SystemClock
from edge_agent.runtimes.workerd.runtime import WorkerdRuntime

if TYPE_CHECKING:
    from bench.lock_measure import Latency, Load, Measured

WARM_S = 3.0
SETTLE_S = 0.2
JITTER_S = 0.1
MAX_RATIO = 1.05
MAX_LOST = 0.02
OVER_BUDGET = 1.1
SHORT_S, LONG_S = 5.0, 50.0


@dataclass(frozen=True, kw_only=True)
class Case:
    """One Worker at one duration: every pair taken."""

    worker: str
    duration_s: float
    max_hold_ms: int
    pairs: tuple[tuple[Measured, Measured], ...]

    @property
    def ratios(self) -> dict[str, float]:
        """Median of ours over median of bare."""

        def ratio(bare: list[float], ours: list[float]) -> float:
            return statistics.median(ours) / max(1e-9, statistics.median(bare))

        found = {
            "held": ratio([b.held_ms for b, _ in self.pairs], [o.held_ms for _, o in self.pairs]),
            "longest_hold": ratio(
                [longest(b) for b, _ in self.pairs], [longest(o) for _, o in self.pairs]
            ),
        }
        for what in ("p50", "p99", "max"):
            found[f"request_{what}"] = ratio(
                [getattr(b.phases["all"], what) for b, _ in self.pairs],
                [getattr(o.phases["all"], what) for _, o in self.pairs],
            )
        return found

    @property
    def goals(self) -> dict[str, bool]:
        """What the issue asks of this case; empty when it asks nothing."""
        if self.worker in {"tiny", "deep"} and self.duration_s == SHORT_S:
            return {
                f"{name} <= {MAX_RATIO}": ratio <= MAX_RATIO for name, ratio in self.ratios.items()
            }
        if self.worker == "wide" and self.duration_s == LONG_S:
            budget_ms = OVER_BUDGET * self.max_hold_ms
            return {
                f"no hold over {budget_ms:.0f} ms": max(longest(o) for _, o in self.pairs)
                <= budget_ms,
                f"lost <= {MAX_LOST:.0%}": max(o.lost_ratio for _, o in self.pairs) <= MAX_LOST,
            }
        return {}


def longest(measured: Measured) -> float:
    """The longest single hold."""
    return max(*measured.start_ms, *measured.stop_ms)


async def case(
    http: aiohttp.ClientSession,
    folder: Path,
    worker: str,
    duration_s: float,
    pairs: int,
    max_hold_ms: int,
) -> Case:
    """Measure one Worker at one duration: each capture in a process of its own.

    A start walks the heap with the garbage in it, and captures leave garbage: in a process that
    both sides share, its cost rises from capture to capture until V8 collects.
    """
    rng = random.Random(1)
    taken: list[tuple[Measured, Measured]] = []
    for number in range(pairs):
        found: dict[str, Measured] = {}
        for which in ("bare", "ours") if number % 2 == 0 else ("ours", "bare"):
            place = folder / f"{number}-{which}"
            async with one_workerd.running(place, {worker: MODULES[worker]}) as process:
                load = lock_measure.Load(http, process.workers[worker])
                async with load.running():
                    # The first profile of an isolate differs from all others: code loses its
                    # optimised form.
                    await lock_measure.bare(http, process.inspector, worker, load, WARM_S)
                    await asyncio.sleep(SETTLE_S)
                    load.requests.clear()
                    # The traffic keeps step with the start: stopped after the same time to the
                    # millisecond, a side would always meet the same phase of it.
                    for_s = duration_s + rng.uniform(0, JITTER_S)
                    if which == "bare":
                        found[which] = await lock_measure.bare(
                            http, process.inspector, worker, load, for_s
                        )
                    else:
                        found[which] = await _ours(process, worker, load, for_s, max_hold_ms)
        taken.append((found["bare"], found["ours"]))
        print(_line(worker, duration_s, number, *taken[-1]), file=sys.stderr, flush=True)
    return Case(worker=worker, duration_s=duration_s, max_hold_ms=max_hold_ms, pairs=tuple(taken))


async def _ours(
    process: one_workerd.OneWorkerd, worker: str, load: Load, duration_s: float, max_hold_ms: int
) -> Measured:
    isolate = IsolateConfig(
        service=worker,
        account_id="a" * 32,
        worker_id="b" * 32,
        worker_name=worker,
        version_id="bench",
    )
    runtime = WorkerdRuntime("bench", process.inspector, [isolate], "heap", None, SystemClock())
    try:
        return await lock_measure.ours(runtime, load, duration_s, max_hold_ms)
    finally:
        await runtime.close()


def _line(worker: str, duration_s: float, number: int, bare: Measured, ours: Measured) -> str:
    def told(one: Measured) -> str:
        stops = "+".join(f"{hold:.0f}" for hold in one.stop_ms)
        starts = "+".join(f"{hold:.0f}" for hold in one.start_ms)
        return f"start {starts} stop {stops} ms, requests max {one.phases['all'].max:.0f} ms"

    lost = f", lost {ours.lost_ratio:.2%}" if len(ours.stop_ms) > 1 else ""
    slower = f", intervals {ours.intervals_us}" if len(set(ours.intervals_us)) > 1 else ""
    return f"{worker} {duration_s:g} s, pair {number + 1}: bare {told(bare)}; ours {told(ours)}{lost}{slower}"


def table(one: Case) -> str:
    """The case for people: medians over the pairs."""
    lines = [
        f"\n{one.worker}, {one.duration_s:g} s, {len(one.pairs)} pairs; milliseconds, medians over the pairs",
        f"{'':10}{'bare p50':>10}{'p99':>9}{'max':>9}   {'ours p50':>10}{'p99':>9}{'max':>9}",
    ]
    for phase in (*lock_measure.PHASES, "all"):
        cells = []
        for side in (0, 1):
            latencies: list[Latency] = [pair[side].phases[phase] for pair in one.pairs]
            cells += [
                statistics.median(getattr(found, what) for found in latencies)
                for what in ("p50", "p99", "max")
            ]
        lines.append(
            f"{phase:10}{cells[0]:10.1f}{cells[1]:9.1f}{cells[2]:9.1f}   {cells[3]:10.1f}{cells[4]:9.1f}{cells[5]:9.1f}"
        )
    for name, side in (("bare", 0), ("ours", 1)):
        taken = [pair[side] for pair in one.pairs]
        lines.append(
            f"{name}: held {statistics.median(m.held_ms for m in taken):.1f} in all, longest hold median "
            f"{statistics.median(map(longest, taken)):.1f}, worst {max(map(longest, taken)):.1f}; "
            f"{statistics.median(len(m.stop_ms) for m in taken):.0f} slice(s), "
            f"{statistics.median(sum(m.samples) for m in taken):.0f} samples, "
            f"at most {max(max(m.nodes) for m in taken)} nodes, lost {max(m.lost_ratio for m in taken):.2%} "
            f"({min(m.lost_held_ratio for m in taken):.0%} of it held)"
        )
    lines.append(
        "ratios: " + ", ".join(f"{name} {ratio:.3f}" for name, ratio in one.ratios.items())
    )
    lines += [f"goal {name}: {'met' if met else 'MISSED'}" for name, met in one.goals.items()]
    return "\n".join(lines)


async def main(argv: list[str] | None = None) -> int:
    """Run what is asked for; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--durations", default="5,50")
    parser.add_argument("--workers", default="tiny,deep,wide")
    parser.add_argument("--max-hold-ms", type=int, default=250)
    parser.add_argument(
        "--json",
        type=Path,
        help="write everything measured there; default: stdout, after the tables",
    )
    asked = parser.parse_args(argv)
    cases: list[Case] = []
    with tempfile.TemporaryDirectory() as folder:
        async with aiohttp.ClientSession() as http:
            for worker in asked.workers.split(","):
                for duration in asked.durations.split(","):
                    place = Path(folder) / f"{worker}-{duration}"
                    cases.append(
                        await case(
                            http,
                            place,
                            worker,
                            float(duration),
                            asked.pairs,
                            asked.max_hold_ms,
                        )
                    )
                    print(table(cases[-1]), flush=True)
    told = json.dumps(
        [{**asdict(one), "ratios": one.ratios, "goals": one.goals} for one in cases], indent=1
    )
    if asked.json:
        asked.json.write_text(told)
    else:
        print(told)
    return 0 if all(met for one in cases for met in one.goals.values()) else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
