"""What a simulated isolate does, and the profiles V8 would hand over of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOT = 1
SCRIPT = "1"


@dataclass(frozen=True, kw_only=True)
class Frame:
    """One function as V8 tells it; ``line`` and ``column`` are 0-based and where it starts."""

    function: str
    line: int
    column: int = 0
    url: str = "worker.js"


@dataclass(frozen=True, kw_only=True)
class Workload:
    """How an isolate spends its time.

    Args:
        stacks: outermost frame first, each with its share of the samples.
        busy: share of the time it runs at all; the rest leaves no samples.
        executions_per_s: requests told by ``executions``.
        bytes_per_s: allocated, by the same stacks.
        wide: distinct leaves under each stack, drawn in a fixed order; makes nodes grow with the
            samples.
        start_us, stop_us: hold of the isolate's lock to start, and to stop anything at all.
        node_us, sample_us: added to a stop for each.
    """

    stacks: tuple[tuple[tuple[Frame, ...], int], ...] = (
        ((Frame(function="fetch", line=0), Frame(function="work", line=4)), 3),
        ((Frame(function="fetch", line=0), Frame(function="answer", line=9)), 1),
    )
    busy: float = 0.5
    executions_per_s: float = 2.0
    bytes_per_s: int = 4 << 20
    wide: int = 0
    start_us: int = 8_000
    stop_us: int = 4_000
    node_us: float = 25.0
    sample_us: float = 1.5


class Tree:
    """The nodes of one profile: a child per frame under its parent, numbered from 1 as V8 does."""

    def __init__(self) -> None:
        self.frames: list[Frame] = [Frame(function="(root)", line=-1, column=-1, url="")]
        self.children: list[list[int]] = [[]]
        self.hits: list[int] = [0]
        self._found: dict[tuple[int, Frame], int] = {}

    def leaf(self, stack: Iterable[Frame]) -> int:
        """The node a stack ends in."""
        at = ROOT
        for frame in stack:
            known = self._found.get((at, frame))
            if known is None:
                self.frames.append(frame)
                self.children.append([])
                self.hits.append(0)
                known = self._found[at, frame] = len(self.frames)
                self.children[at - 1].append(known)
            at = known
        return at


def cpu(
    workload: Workload, *, started_us: int, first_us: int, ended_us: int, interval_us: int
) -> tuple[bytes, int, int]:
    """A CPU profile of this window as V8's JSON, with how many samples and nodes it has.

    Each second the isolate runs for its busy share and is then idle: nothing is sampled until it
        runs again.
    """
    tree = Tree()
    samples, deltas = [tree.leaf(())], [first_us - started_us]
    order = [stack for stack, share in workload.stacks for _ in range(share)]
    at_us, last_us, number = first_us, first_us, 0
    while True:
        at_us += interval_us
        if at_us > ended_us:
            break
        if (at_us % 1_000_000) >= workload.busy * 1_000_000:
            continue
        stack = order[number % len(order)]
        if workload.wide:
            # A full cycle through all leaves in an order that looks like none.
            leaf = number * number * 31 % workload.wide
            stack = (*stack, Frame(function=f"leaf{leaf}", line=100 + leaf))
        node = tree.leaf(stack)
        tree.hits[node - 1] += 1
        samples.append(node)
        deltas.append(at_us - last_us)
        last_us, number = at_us, number + 1
    nodes = [
        {
            "id": index + 1,
            "callFrame": _call_frame(frame),
            "hitCount": tree.hits[index],
            "children": tree.children[index],
            "positionTicks": [{"line": frame.line + 2, "ticks": tree.hits[index]}]
            if tree.hits[index]
            else [],
        }
        for index, frame in enumerate(tree.frames)
    ]
    profile = {
        "nodes": nodes,
        "startTime": started_us,
        "endTime": ended_us,
        "samples": samples,
        "timeDeltas": deltas,
    }
    return json.dumps({"profile": profile}).encode(), len(samples), len(nodes)


def heap(workload: Workload, *, sampled_us: int, interval_bytes: int) -> tuple[bytes, int, int]:
    """A sampling-heap profile of this window as V8's JSON, and its numbers of samples and nodes."""
    total = workload.bytes_per_s * sampled_us // 1_000_000
    shares = sum(share for _, share in workload.stacks)
    tree = Tree()
    sizes: dict[int, int] = {}
    for stack, share in workload.stacks:
        size = total * share // shares
        if size >= interval_bytes:
            sizes[tree.leaf(stack)] = size

    def told(number: int) -> dict[str, object]:
        return {
            "callFrame": _call_frame(tree.frames[number - 1]),
            "selfSize": sizes.get(number, 0),
            "id": number,
            "children": [told(child) for child in tree.children[number - 1]],
        }

    samples = [
        {"size": size, "nodeId": number, "ordinal": ordinal}
        for ordinal, (number, size) in enumerate(sizes.items(), start=1)
    ]
    profile = {"head": told(ROOT), "samples": samples}
    return json.dumps({"profile": profile}).encode(), len(samples), len(tree.frames)


def _call_frame(frame: Frame) -> dict[str, object]:
    return {
        "functionName": frame.function,
        "scriptId": SCRIPT if frame.url else "0",
        "url": frame.url,
        "lineNumber": frame.line,
        "columnNumber": frame.column,
    }
