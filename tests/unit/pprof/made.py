"""Captures written by hand, a context, and a way to read stacks back as names and lines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pprof.build_cpu import profile as build
from pprof.comments import Context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pprof.model import Profile

MAIN = "main.js"
GOLDENS = Path(__file__).parent / "goldens"
CONTEXT = Context(
    isoprof="1.2.3",
    session="ses",
    capture=1,
    worker="replacer",
    version="v-1",
    datacenter="ams1",
    metal="ams1-m1",
    isolate="wd1/replacer",
)


def golden(name: str) -> bytes:
    return (GOLDENS / f"{name}.json").read_bytes()


def frame(name: str, line: int = -1, column: int = -1, url: str = "") -> dict[str, Any]:
    """A V8 call frame; line and column count from 0 as V8's do."""
    return {
        "functionName": name,
        "scriptId": "8" if url else "0",
        "url": url,
        "lineNumber": line,
        "columnNumber": column,
    }


def node(
    id_: int,
    call_frame: dict[str, Any],
    children: Sequence[int] = (),
    ticks: Sequence[tuple[int, int]] = (),
) -> dict[str, Any]:
    return {
        "id": id_,
        "callFrame": call_frame,
        "hitCount": 0,
        "children": list(children),
        "positionTicks": [{"line": line, "ticks": count} for line, count in ticks],
    }


def cpu(
    nodes: Sequence[dict[str, Any]],
    samples: Sequence[int],
    deltas: Sequence[int],
    rest_us: int = 0,
) -> bytes:
    return json.dumps(
        {
            "nodes": list(nodes),
            "startTime": 1_000_000,
            "endTime": 1_000_000 + sum(deltas) + rest_us,
            "samples": list(samples),
            "timeDeltas": list(deltas),
        }
    ).encode()


def stacks(profile: Profile) -> dict[tuple[str, ...], tuple[int, ...]]:
    """Values by stack, leaf first, each frame as ``name:line``."""
    functions = {function.id: function for function in profile.functions}
    locations = {location.id: location for location in profile.locations}
    found: dict[tuple[str, ...], tuple[int, ...]] = {}
    for sample in profile.samples:
        key = tuple(
            f"{functions[line.function_id].name}:{line.line}"
            for id_ in sample.location_ids
            for line in locations[id_].lines
        )
        assert key not in found
        found[key] = sample.values
    return found


def called() -> Profile:
    """Main (1 ms) calls walk on two lines (4 ms, calling itself) and node_modules' pad (2 ms)."""
    nodes = [
        node(1, frame("(root)"), [2, 6]),
        node(2, frame("main", 0, 0, MAIN), [3, 5], [(5, 1)]),
        node(3, frame("walk", 9, 0, MAIN), [4], [(12, 1), (14, 1)]),
        node(4, frame("walk", 9, 0, MAIN), [], [(12, 2)]),
        node(5, frame("pad", 1, 0, "node_modules/pad/index.js"), [], [(2, 2)]),
        node(6, frame("(garbage collector)")),
    ]
    hits = [2, 2, 3, 3, 4, 4, 5, 5, 6]
    return build([cpu(nodes, hits, [0] + [1000] * 8)], CONTEXT, 7, 9_000_000, 1000).profile
