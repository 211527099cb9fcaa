"""The flame tree: every distinct call path once, in preorder, as columns of numbers.

``docs/flamegraph-format.md`` is the contract of ``document``; the dashboard reads nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pprof import comments
from pprof.calltree import CUT_OFF, grown, laid
from pprof.frames import CUT, KINDS, Frame, Frames
from pprof.measure import measure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pprof.calltree import Stack
    from pprof.measure import Measure
    from pprof.model import Profile

VERSION = 1
DEFAULT_MAX_NODES = 200_000
CUT_FRAME = Frame(CUT, "", 0, "")


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
    sums: dict[Stack, list[int]] = {}
    for sample in profile.samples:
        value, count = chosen.value(sample), chosen.count(sample)
        if value or count:
            known = sums.setdefault(tuple(frames.stack(sample.location_ids)[::-1]), [0, 0])
            known[0] += value
            known[1] += count
    tree = grown(sums, 2)
    drawn = laid(tree, tree.columns[0], max_nodes)
    numbers: dict[Frame, int] = {}
    at = tuple(
        numbers.setdefault(frames.list[number] if number != CUT_OFF else CUT_FRAME, len(numbers))
        for number in drawn.at
    )
    return Flame(
        measure=chosen,
        frames=tuple(numbers),
        levels=drawn.levels,
        at=at,
        selfs=drawn.columns[0],
        samples=drawn.columns[1],
        total=sum(tree.columns[0]),
        total_samples=sum(tree.columns[1]),
        cut=Cut(
            nodes=drawn.cut_nodes, value=drawn.cut[0], samples=drawn.cut[1], max_nodes=max_nodes
        )
        if drawn.cut_nodes
        else None,
    )


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
