"""From V8's sampling heap profile to ours: what was allocated in the window, freed since or not.

V8's sizes are unsampled estimates already and are taken as they are; objects are worked out in
``pprof.objects``. Of a frame V8 tells only where its function starts, so that is the line.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pprof import comments, model
from pprof.check import DEFAULT_BOUNDS, Bounds, ProfileInvalid, within
from pprof.objects import Objects
from pprof.places import TRUNCATED, Places
from pprof.v8 import parse, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pprof.v8 import JsonObject


def profile(
    data: bytes,
    context: comments.Context,
    started_at_ns: int,
    window_ns: int,
    interval_bytes: int,
    backing_store_bytes: int | None,
    bounds: Bounds = DEFAULT_BOUNDS,
) -> model.BuiltProfile:
    """Build a profile of allocations from one ``HeapProfiler.SamplingHeapProfile``.

    Pure and CPU-bound: run it off the event loop.

    Args:
        data: the JSON, bare or inside the protocol reply; empty bytes when no profiler ran.
        backing_store_bytes: what ArrayBuffers held outside the heap at the end, which V8 doesn't
            sample; None when the runtime did not tell.

    Raises:
        ProfileInvalid: no heap profile.
        ProfileTooLarge: a bound was passed that can't be met by cutting.
    """
    if interval_bytes <= 0:
        raise ProfileInvalid("the sampling interval must be above 0")
    places = Places(context.version, bounds)
    head, sizes, taken = _read(data, places, bounds)
    stacks = _Stacks(places, bounds)
    objects = Objects(interval_bytes)
    samples = []
    for node, stack in stacks.walk(head):
        sampled = sizes.get(node.id, [])
        if node.self_bytes or sampled:
            values = (objects.count(node.self_bytes, sampled), node.self_bytes)
            samples.append(model.Sample(location_ids=stack, values=values))
            within(len(samples), "max_samples", bounds.max_samples)
    truncated = comments.truncations(
        context.truncated, f"max_depth={bounds.max_depth}" if stacks.cut else ""
    )
    mappings, functions, locations = places.tables()
    told = _told(taken, len(samples), truncated, backing_store_bytes, places.repaired)
    return model.BuiltProfile(
        profile=model.Profile(
            sample_types=model.ALLOC_TYPES,
            samples=tuple(samples),
            locations=locations,
            functions=functions,
            mappings=mappings,
            time_ns=started_at_ns,
            duration_ns=window_ns,
            period_type=model.SPACE_PERIOD,
            period=interval_bytes,
            comments=comments.write(context, told),
            default_sample_type="alloc_space",
        ),
        samples=taken,
        idle_ns=0,
        truncated=truncated,
    )


def _told(
    taken: int, stacks: int, truncated: str, backing_store_bytes: int | None, repaired: int
) -> dict[str, object]:
    told: dict[str, object] = {
        "samples": taken,
        "alloc_objects": "estimated from sampled sizes",
        "not_covered": "array buffer contents",
    }
    if backing_store_bytes is not None:
        told["backing_store_bytes"] = backing_store_bytes
    if not stacks:
        told["note"] = (
            "nothing was sampled in the window: less was allocated than lies between samples"
        )
    if truncated:
        told["truncated"] = truncated
    if repaired:
        told["repaired_strings"] = repaired
    return told


@dataclass(slots=True)
class _Node:
    id: int
    function: int
    self_bytes: int
    children: list[_Node]


def _read(
    data: bytes, places: Places, bounds: Bounds
) -> tuple[_Node | None, dict[int, list[int]], int]:
    """The root of the tree, the reported sizes per node id, and how many samples there were."""
    if not data:
        return None, {}, 0
    nodes = 0

    def shrink(raw: JsonObject) -> object:
        nonlocal nodes
        if "functionName" in raw:
            return places.function(raw)
        if "callFrame" in raw:
            nodes += 1
            within(nodes, "max_nodes", bounds.max_nodes)
            if not places.known(raw["callFrame"]):
                raise ProfileInvalid("a heap node needs a call frame")
            return _node(raw)
        if "nodeId" in raw and "size" in raw:
            return _sample(raw)
        return raw

    found = parse(data, shrink, bounds)
    head, samples = found.get("head"), found.get("samples", [])
    if not isinstance(head, _Node) or not isinstance(samples, list):
        raise ProfileInvalid("a heap profile needs a head and a list of samples")
    sizes: defaultdict[int, list[int]] = defaultdict(list)
    for sample in samples:
        if type(sample) is not tuple:
            raise ProfileInvalid("a heap sample needs a size and a node")
        sizes[sample[0]].append(sample[1])
    return head, sizes, len(samples)


def _sample(raw: JsonObject) -> tuple[int, int]:
    node_id, size = (
        whole(raw["nodeId"], "the node of a sample"),
        whole(raw["size"], "the size of a sample"),
    )
    if size < 0:
        raise ProfileInvalid("the size of a sample is negative")
    return node_id, size


def _node(raw: JsonObject) -> _Node:
    function, children = raw["callFrame"], raw.get("children") or []
    id_, self_bytes = whole(raw.get("id", 0), "a node id"), whole(raw.get("selfSize"), "selfSize")
    if type(function) is not int or self_bytes < 0:
        raise ProfileInvalid("a heap node needs a call frame and a selfSize of at least 0")
    if not isinstance(children, list) or not all(isinstance(child, _Node) for child in children):
        raise ProfileInvalid("the children of a heap node are no nodes")
    return _Node(id=id_, function=function, self_bytes=self_bytes, children=children)


class _Stacks:
    """Walks the tree, giving each node its stack; remembers whether any had to be cut."""

    def __init__(self, places: Places, bounds: Bounds) -> None:
        self.cut = False
        self._places = places
        self._bounds = bounds

    def walk(self, head: _Node | None) -> Iterator[tuple[_Node, tuple[int, ...]]]:
        """Every node below the root, and the root itself when it allocated outside any frame."""
        if head is None:
            return
        frames = 0
        open_: list[tuple[_Node, tuple[int, ...]]] = [
            (child, ()) for child in reversed(head.children)
        ]
        if head.self_bytes:
            yield head, (self._places.location(head.function),)
        while open_:
            node, callers = open_.pop()
            stack = (self._places.location(node.function), *callers)
            frames += min(len(stack), self._bounds.max_depth)
            within(frames, "max_frames", self._bounds.max_frames)
            yield node, self._within_depth(stack)
            open_ += [(child, stack) for child in reversed(node.children)]

    def _within_depth(self, stack: tuple[int, ...]) -> tuple[int, ...]:
        deepest = self._bounds.max_depth
        if len(stack) <= deepest:
            return stack
        self.cut = True
        return (*stack[: deepest - 1], self._places.location(self._places.named(TRUNCATED)))
