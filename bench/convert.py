"""What converting a capture costs the agent: CPU time and peak memory, V8 JSON to pprof bytes.

``python -m bench.convert [--samples 50000] [--stacks 6000] [--slices 1] [--rounds 5]``

The capture is synthetic and always the same; ``json.loads`` alone is measured beside it. As in the
process that builds an agent's profiles, no garbage collector runs meanwhile.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

from pprof import build_cpu, codec, comments

if TYPE_CHECKING:
    from collections.abc import Callable

CONTEXT = comments.Context(
    isoprof="bench",
    session="s",
    capture=1,
    worker="w",
    version="v",
    datacenter="d",
    metal="m",
    isolate="i",
)


def capture(samples: int, stacks: int, seed: int) -> bytes:
    """One V8 CPU profile: up to 40 frames, one or two hot lines each, gaps between requests."""
    rng = random.Random(seed)
    frame = {"scriptId": "8", "url": "file:///worker/dist/index.js"}
    root = {
        "id": 1,
        "callFrame": frame
        | {"url": "", "functionName": "(root)", "lineNumber": -1, "columnNumber": -1},
        "hitCount": 0,
        "children": [],
        "positionTicks": [],
    }
    nodes: list[dict[str, Any]] = [root]
    kids: list[list[int]] = [[]]
    depths = [0]
    leaves: list[int] = []
    # A leaf has one hot line or two, each a stack of its own.
    while len(leaves) < stacks * 2 // 3:
        # Branch off anywhere shallow, then go down a little: long shared prefixes, as in life.
        above = rng.randrange(len(nodes))
        for _ in range(rng.randint(1, 4)):
            if depths[above] >= 40:
                break
            number = rng.randrange(3000)
            nodes.append(
                {
                    "id": len(nodes) + 1,
                    "callFrame": frame
                    | {
                        "functionName": f"function{number}",
                        "lineNumber": number * 7,
                        "columnNumber": number % 80,
                    },
                    "hitCount": 0,
                    "positionTicks": [],
                }
            )
            kids[above].append(len(nodes))
            kids.append([])
            depths.append(depths[above] + 1)
            above = len(nodes) - 1
        leaves.append(above)
    for node, children in zip(nodes, kids, strict=True):
        node["children"] = children
    hit = [nodes[leaf]["id"] for leaf in leaves] + [
        nodes[rng.choice(leaves)]["id"] for _ in range(max(0, samples - len(leaves)))
    ]
    rng.shuffle(hit)
    deltas = [
        rng.randint(900, 1300) if rng.random() < 0.9 else rng.randint(3000, 90000) for _ in hit
    ]
    for leaf in set(leaves):
        # The same function is hot on the same lines wherever it is called from.
        line = nodes[leaf]["callFrame"]["lineNumber"]
        nodes[leaf]["positionTicks"] = [
            {"line": line + 2 + step, "ticks": rng.randint(1, 4)} for step in range(1 + leaf % 2)
        ]
    profile = {
        "nodes": nodes,
        "startTime": 0,
        "endTime": sum(deltas),
        "samples": hit,
        "timeDeltas": deltas,
    }
    return json.dumps(
        {"id": 5, "method": "Profiler.stop", "result": {"profile": profile}}, separators=(",", ":")
    ).encode()


def cpu_ms(rounds: int, run: Callable[[], object]) -> float:
    """Median CPU time of a call."""
    taken = []
    for _ in range(rounds):
        gc.collect()
        gc.disable()
        started = time.process_time()
        run()
        taken.append((time.process_time() - started) * 1000)
        gc.enable()
    return statistics.median(taken)


def peak_bytes(run: Callable[[], object]) -> int:
    """Most memory held at once by a call, beyond what was held before."""
    gc.collect()
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main() -> None:
    """Measure and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--stacks", type=int, default=6_000)
    parser.add_argument("--slices", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    wanted = parser.parse_args()
    slices = [
        capture(wanted.samples // wanted.slices, wanted.stacks, seed=index)
        for index in range(wanted.slices)
    ]
    size = sum(map(len, slices))

    def build() -> object:
        return build_cpu.profile(slices, CONTEXT, 0, 50_000_000_000, 1000)

    built = build_cpu.profile(slices, CONTEXT, 0, 50_000_000_000, 1000)

    def encode() -> bytes:
        return codec.encode(built.profile)

    def both() -> bytes:
        return codec.encode(build_cpu.profile(slices, CONTEXT, 0, 50_000_000_000, 1000).profile)

    build_ms, encode_ms = cpu_ms(wanted.rounds, build), cpu_ms(wanted.rounds, encode)
    peak = peak_bytes(both)
    print(
        json.dumps(
            {
                "json_bytes": size,
                "pprof_bytes": len(encode()),
                "samples": built.samples,
                "stacks": len(built.profile.samples),
                "locations": len(built.profile.locations),
                "json_loads_cpu_ms": round(
                    cpu_ms(wanted.rounds, lambda: [json.loads(data) for data in slices]), 1
                ),
                "build_cpu_ms": round(build_ms, 1),
                "encode_cpu_ms": round(encode_ms, 1),
                "convert_cpu_ms": round(build_ms + encode_ms, 1),
                "peak_bytes": peak,
                "peak_over_json": round(peak / size, 2),
            }
        )
    )


if __name__ == "__main__":
    main()
