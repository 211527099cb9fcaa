"""The flame tree: every distinct call path once, in preorder, as columns of numbers.

``docs/flamegraph-format.md`` is the contract of ``document``; the dashboard reads nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pprof import comments
from pprof.frames import CUT, KINDS, Frame, Frames
from pprof.measure import measure

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pprof.measure import Measure
    from pprof.model import Profile

VERSION = 1
DEFAULT_MAX_NODES = 200_000


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What was folded into ``(cut)`` frames: the smallest subtrees.

    Args:
        nodes: how many nodes were left out.
        value: what they cost, in the flame's unit; still part of the total.
        samples: how many samples they stand for.
        max_nodes: the limit that made it necessary.
    """

    nodes: int
    value: int
    samples: int
    max_nodes: int


@dataclass(frozen=True, kw_only=True)
class Flame:
    """A forest in preorder, callers before callees, siblings from heavy to light.

    Args:
        frames: each once.
        levels: depth of each node, 0 for what nothing called.
        at: each node's index into ``frames``.
        selfs: each node's own value; the sum of a node and all below it is its total.
        samples: samples in which it was the leaf, or objects it allocated.
        total: sum of all ``selfs``, the whole profile's value.
        total_samples: sum of all ``samples``.
        cut: None when every node is there.
    """

    measure: Measure
    frames: tuple[Frame, ...]
    levels: tuple[int, ...]
    at: tuple[int, ...]
    selfs: tuple[int, ...]
    samples: tuple[int, ...]
    total: int
    total_samples: int
    cut: Cut | None


def flame(profile: Profile, sample_type: str = "", max_nodes: int = DEFAULT_MAX_NODES) -> Flame:
    """Fold a checked profile's stacks into a tree. Pure and CPU-bound.

    Lines and labels are laid together: a node is a function called along one path.

    Args:
        sample_type: which value; empty for the profile's default.
        max_nodes: above it the smallest subtrees become one ``(cut)`` frame per caller; at least 1.

    Raises:
        ProfileInvalid: the profile has no such sample type.
    """
    chosen = measure(profile, sample_type)
    frames = Frames(profile)
    sums: dict[tuple[int, ...], list[int]] = {}
    for sample in profile.samples:
        value, count = chosen.value(sample), chosen.count(sample)
        if value or count:
            known = sums.setdefault(tuple(frames.stack(sample.location_ids)[::-1]), [0, 0])
            known[0] += value
            known[1] += count
    tree = Tree.of((stack, pair) for stack, pair in sorted(sums.items()))
    totals = tree.totals()
    kept, cut = _kept(tree, totals, max_nodes)
    return _flame(chosen, frames.list, tree, totals, kept, cut)


def document(profile: Profile, drawn: Flame) -> dict[str, object]:
    """Lay a flame out as JSON values, with what the profile says of itself.

    Returns:
        The shape of ``docs/flamegraph-format.md``; every number exact.
    """
    strings: dict[str, int] = {"": 0}
    return {
        "v": VERSION,
        "type": drawn.measure.type,
        "unit": drawn.measure.unit,
        "samples_type": sample_name(profile, drawn.measure),
        "total": drawn.total,
        "total_samples": drawn.total_samples,
        "period": profile.period,
        "time_ns": profile.time_ns,
        "duration_ns": profile.duration_ns,
        "about": {key: list(all_) for key, all_ in comments.read(profile.comments).items()},
        "kinds": KINDS,
        "functions": columns(drawn.frames, strings),
        "nodes": {
            "level": drawn.levels,
            "fn": drawn.at,
            "self": drawn.selfs,
            "samples": drawn.samples,
        },
        "cut": cut_of(drawn.cut),
        # Last, because the columns above fill it.
        "strings": list(strings),
    }


def columns(frames: Iterable[Frame], strings: dict[str, int]) -> dict[str, list[int]]:
    """Frames as columns; texts are numbered in ``strings``, which grows."""
    name: list[int] = []
    file: list[int] = []
    line: list[int] = []
    generated: list[int] = []
    kind: list[int] = []
    for frame in frames:
        name.append(strings.setdefault(frame.name, len(strings)))
        file.append(strings.setdefault(frame.file, len(strings)))
        line.append(frame.line)
        generated.append(strings.setdefault(frame.generated, len(strings)))
        kind.append(frame.kind)
    return {"name": name, "file": file, "line": line, "generated": generated, "kind": kind}


def sample_name(profile: Profile, chosen: Measure) -> str:
    """What the sample counts count: ``samples``, ``alloc_objects``; empty when nothing does."""
    return "" if chosen.count_index is None else profile.sample_types[chosen.count_index].type


def cut_of(cut: Cut | None) -> dict[str, int] | None:
    """A cut as JSON values."""
    if cut is None:
        return None
    return {
        "nodes": cut.nodes,
        "value": cut.value,
        "samples": cut.samples,
        "max_nodes": cut.max_nodes,
    }


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Nodes in preorder of their frames' numbers; ``parents`` is -1 for what nothing called."""

    parents: list[int]
    at: list[int]
    selfs: list[int]
    samples: list[int]

    @classmethod
    def of(cls, sums: Iterable[tuple[tuple[int, ...], Sequence[int]]]) -> Tree:
        """Lay sorted stacks, root first, over each other."""
        tree = cls(parents=[], at=[], selfs=[], samples=[])
        before: tuple[int, ...] = ()
        path: list[int] = [-1]
        for stack, (value, count) in sums:
            shared = 0
            for one, other in zip(before, stack, strict=False):
                if one != other:
                    break
                shared += 1
            del path[shared + 1 :]
            for frame in stack[shared:]:
                tree.parents.append(path[-1])
                tree.at.append(frame)
                tree.selfs.append(0)
                tree.samples.append(0)
                path.append(len(tree.at) - 1)
            tree.selfs[path[-1]] += value
            tree.samples[path[-1]] += count
            before = stack
        return tree

    def totals(self) -> list[int]:
        """Each node's value with all below it."""
        return _summed(self.selfs, self.parents)

    def sample_totals(self) -> list[int]:
        """Each node's samples with all below it."""
        return _summed(self.samples, self.parents)


def _summed(own: list[int], parents: list[int]) -> list[int]:
    sums = own[:]
    for index in range(len(sums) - 1, -1, -1):
        if parents[index] >= 0:
            sums[parents[index]] += sums[index]
    return sums


def _kept(tree: Tree, totals: list[int], max_nodes: int) -> tuple[list[int], Cut | None]:
    """Indices of the nodes that fit, in preorder, and what does not."""
    count = len(totals)
    if count <= max_nodes:
        return list(range(count)), None
    # No node comes before its caller in this order, so what is kept is a tree. Each kept node, and
    # the top, may get a ``(cut)`` frame.
    order = sorted(range(count), key=lambda index: (-totals[index], index))
    kept = order[: (max_nodes - 1) // 2]
    left_out = set(range(count)).difference(kept)
    return sorted(kept), Cut(
        nodes=len(left_out),
        value=sum(tree.selfs[index] for index in left_out),
        samples=sum(tree.samples[index] for index in left_out),
        max_nodes=max_nodes,
    )


def _flame(
    chosen: Measure,
    frames: list[Frame],
    tree: Tree,
    totals: list[int],
    kept: list[int],
    cut: Cut | None,
) -> Flame:
    below: dict[int, list[int]] = {}
    for index in kept:
        below.setdefault(tree.parents[index], []).append(index)
    folded = _folded(tree, totals, kept) if cut is not None else {}
    numbers: dict[Frame, int] = {}
    rows: list[tuple[int, int, int, int]] = []

    def open_below(parent: int, level: int) -> None:
        # Heaviest last, because nodes are taken from the end; what was cut off comes after them.
        if parent in folded:
            open_.append((level, parent, True))
        order = sorted(below.get(parent, ()), key=lambda index: (totals[index], -tree.at[index]))
        open_.extend((level, index, False) for index in order)

    open_: list[tuple[int, int, bool]] = []
    open_below(-1, 0)
    while open_:
        level, index, is_cut = open_.pop()
        if is_cut:
            frame, (value, count) = Frame(CUT, "", 0, ""), folded[index]
        else:
            frame, value, count = frames[tree.at[index]], tree.selfs[index], tree.samples[index]
            open_below(index, level + 1)
        rows.append((level, numbers.setdefault(frame, len(numbers)), value, count))
    levels, at, selfs, samples = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Flame(
        measure=chosen,
        frames=tuple(numbers),
        levels=levels,
        at=at,
        selfs=selfs,
        samples=samples,
        total=sum(tree.selfs),
        total_samples=sum(tree.samples),
        cut=cut,
    )


def _folded(tree: Tree, totals: list[int], kept: list[int]) -> dict[int, tuple[int, int]]:
    """What each caller that is kept lost of its callees: value and samples."""
    counts = tree.sample_totals()
    there = {-1, *kept}
    lost: dict[int, tuple[int, int]] = {}
    for index, parent in enumerate(tree.parents):
        if parent in there and index not in there:
            value, count = lost.get(parent, (0, 0))
            lost[parent] = (value + totals[index], count + counts[index])
    return lost
