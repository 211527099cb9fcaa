"""The call tree of a CPU capture: slices of V8's ``Profiler.Profile`` laid over each other."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pprof.check import Bounds, ProfileInvalid, ProfileTooLarge, within
from pprof.v8 import parse, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pprof.places import Places
    from pprof.v8 import JsonObject

ROOT = 0
_NO_CODE = frozenset({"(root)", "(idle)"})


@dataclass(frozen=True, kw_only=True)
class Slice:
    """One start and stop: which node each sample hit and how long after the one before.

    Args:
        nodes: indices into the tree; ``ROOT`` for a sample in which nothing ran.
        deltas_us: as many as nodes; the first counts from the start.
        rest_us: from the last sample to the stop.
    """

    nodes: array[int]
    deltas_us: array[int]
    rest_us: int


class Tree:
    """Stacks of all slices, each once. Index 0 is the root, which is no frame.

    Args:
        places: where functions are named and numbered.
    """

    def __init__(self, places: Places, bounds: Bounds) -> None:
        self.functions = [0]
        self.parents = [ROOT]
        self.ticks: list[dict[int, int] | None] = [None]
        self._index: dict[int, int] = {}
        self._places = places
        self._bounds = bounds

    def read(self, data: bytes) -> Slice:
        """Lay one slice over the tree. Empty data is a slice in which no profiler ran.

        Raises:
            ProfileInvalid: not a CPU profile: a node id missing or twice, a cycle, samples without
                deltas.
            ProfileTooLarge: ``max_bytes`` or ``max_nodes``.
        """
        if not data:
            return Slice(nodes=array("q"), deltas_us=array("q"), rest_us=0)
        found = parse(data, _Shrink(self._places, self._bounds), self._bounds)
        nodes, samples, deltas = (found.get(key) for key in ("nodes", "samples", "timeDeltas"))
        if (
            not isinstance(nodes, list)
            or not isinstance(samples, list)
            or not isinstance(deltas, list)
        ):
            raise ProfileInvalid("a CPU profile needs nodes, samples and timeDeltas")
        if len(samples) != len(deltas):
            raise ProfileInvalid("a CPU profile needs one time delta per sample")
        window_us = whole(found.get("endTime", 0), "endTime") - whole(
            found.get("startTime", 0), "startTime"
        )
        if not all(isinstance(node, _Node) for node in nodes):
            raise ProfileInvalid("a node is not an object with a call frame")
        where = self._lay(nodes)
        try:
            hit = array("q", [where[id_] for id_ in samples])
        except (KeyError, TypeError):
            raise ProfileInvalid("a sample names a node that is missing") from None
        return _in_order(hit, _deltas(deltas), window_us)

    def _lay(self, nodes: Sequence[_Node]) -> dict[object, int]:
        """Where in the tree each node id of a slice stands."""
        children = _children(nodes)
        roots = set(range(len(nodes))).difference(*children)
        if nodes and len(roots) != 1:
            raise ProfileInvalid(f"the nodes form {len(roots)} trees instead of one")
        where = [ROOT] * len(nodes)
        reached = 0
        # One root and one parent each: what a walk from the root does not reach is a cycle.
        open_: list[tuple[int, int]] = [(index, ROOT) for index in roots]
        while open_:
            index, above = open_.pop()
            node = nodes[index]
            here = self._index.get(above << 32 | node.function)
            if here is None:
                here = self._grow(above, node.function)
            if node.ticks:
                self._tick(here, node.ticks)
            where[index] = here
            reached += 1
            open_.extend([(child, here) for child in children[index]])
        if reached != len(nodes):
            raise ProfileInvalid("the nodes form a cycle")
        return {node.id: at for node, at in zip(nodes, where, strict=True)}

    def _grow(self, above: int, function: int) -> int:
        here = len(self.parents)
        if (
            above == ROOT
            and not self._places.placed(function)
            and self._places.name(function) in _NO_CODE
        ):
            here = ROOT
        else:
            within(here, "max_nodes", self._bounds.max_nodes)
            self.parents.append(above)
            self.functions.append(function)
            self.ticks.append(None)
        self._index[above << 32 | function] = here
        return here

    def _tick(self, here: int, ticks: Sequence[tuple[int, int]]) -> None:
        known = self.ticks[here]
        if known is None:
            known = self.ticks[here] = {}
        # V8 lists a line once per code object that was hit on it.
        for line, hits in ticks:
            known[line] = known.get(line, 0) + hits


class _Node:
    __slots__ = ("children", "function", "id", "ticks")

    def __init__(self, raw: JsonObject) -> None:
        function, id_ = raw["callFrame"], raw.get("id")
        children, ticks = raw.get("children") or (), raw.get("positionTicks") or ()
        if type(function) is not int or type(id_) is not int:
            raise ProfileInvalid("a node needs an id and a call frame")
        if not isinstance(children, (list, tuple)) or not isinstance(ticks, (list, tuple)):
            raise ProfileInvalid("the children or ticks of a node are no list")
        if ticks and any(type(tick) is not tuple for tick in ticks):
            raise ProfileInvalid("a position tick needs a line and ticks")
        self.id = id_
        self.function = function
        self.children = children
        self.ticks: Sequence[tuple[int, int]] = ticks


class _Shrink:
    """Replaces frames by function ids, ticks by pairs and nodes by slotted ones once read."""

    def __init__(self, places: Places, bounds: Bounds) -> None:
        self._places = places
        self._function = places.function
        self._bounds = bounds
        self._nodes = 0

    def __call__(self, raw: JsonObject) -> object:
        if "functionName" in raw:
            return self._function(raw)
        if "ticks" in raw:
            line, ticks = raw.get("line"), raw["ticks"]
            if (
                type(line) is not int
                or type(ticks) is not int
                or not (0 <= line < 2**32 and 0 <= ticks < 2**32)
            ):
                raise ProfileInvalid("a position tick needs a line and ticks")
            return (line, ticks)
        if "callFrame" in raw:
            self._nodes += 1
            if self._nodes > self._bounds.max_nodes:
                raise ProfileTooLarge("max_nodes", self._bounds.max_nodes)
            if not self._places.known(raw["callFrame"]):
                raise ProfileInvalid("a node needs a call frame")
            return _Node(raw)
        return raw


def _children(nodes: Sequence[_Node]) -> list[list[int]]:
    """Positions of each node's children; every id known and unique, every node the child of one."""
    position = {node.id: index for index, node in enumerate(nodes)}
    if len(position) != len(nodes):
        raise ProfileInvalid("two nodes have the same id")
    try:
        found = [[position[id_] for id_ in node.children] for node in nodes]
    except (KeyError, TypeError):
        raise ProfileInvalid("a node has a child that is missing") from None
    if len(set().union(*found)) != sum(map(len, found)):
        raise ProfileInvalid("a node is the child of two nodes")
    return found


def _deltas(raw: Sequence[object]) -> array[int]:
    try:
        return array("q", raw)  # type: ignore[arg-type]
    except (TypeError, OverflowError):
        return array("q", [whole(delta, "a time delta") for delta in raw])


def _in_order(nodes: array[int], deltas: array[int], window_us: int) -> Slice:
    """Sort samples whose deltas run backwards by their time, so that none is counted twice."""
    if any(delta < 0 for delta in deltas):
        at, times = 0, []
        for delta in deltas:
            at += delta
            times.append(at)
        order = sorted(range(len(times)), key=times.__getitem__)
        before = 0
        sorted_deltas = []
        for index in order:
            sorted_deltas.append(max(-(2**53), min(2**53, times[index] - before)))
            before = times[index]
        nodes, deltas = array("q", [nodes[index] for index in order]), array("q", sorted_deltas)
    return Slice(nodes=nodes, deltas_us=deltas, rest_us=max(0, window_us - sum(deltas)))
