"""Call paths laid over each other: nodes in preorder with columns of values, cut when too many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Stack = tuple[int, ...]
"""Frame numbers, the outermost caller first."""

CUT_OFF = -1
"""Frame number of what did not fit below its caller."""


@dataclass(frozen=True, kw_only=True)
class Tree:
    """Nodes in preorder of their frames' numbers.

    Args:
        parents: index of each node's caller, -1 for what nothing called.
        at: each node's frame number.
        columns: what each node has itself, one list per value.
    """

    parents: list[int]
    at: list[int]
    columns: tuple[list[int], ...]


@dataclass(frozen=True, kw_only=True)
class Laid:
    """A tree as views draw it: in preorder, siblings from heavy to light.

    Args:
        levels: depth of each node, 0 for what nothing called.
        at: frame numbers, ``CUT_OFF`` among them.
        cut_nodes: how many nodes became part of a ``CUT_OFF``; 0 when all fitted.
        cut: their sums, one per column.
    """

    levels: tuple[int, ...]
    at: tuple[int, ...]
    columns: tuple[tuple[int, ...], ...]
    cut_nodes: int
    cut: tuple[int, ...]


def grown(sums: Mapping[Stack, Sequence[int]], width: int) -> Tree:
    """Lay stacks over each other; ``width`` values each."""
    parents: list[int] = []
    at: list[int] = []
    columns: tuple[list[int], ...] = tuple([] for _ in range(width))
    before: Stack = ()
    path = [-1]
    for stack, values in sorted(sums.items()):
        shared = 0
        for one, other in zip(before, stack, strict=False):
            if one != other:
                break
            shared += 1
        del path[shared + 1 :]
        for frame in stack[shared:]:
            parents.append(path[-1])
            path.append(len(at))
            at.append(frame)
            for column in columns:
                column.append(0)
        for column, value in zip(columns, values, strict=True):
            column[path[-1]] += value
        before = stack
    return Tree(parents=parents, at=at, columns=columns)


def summed(own: Sequence[int], parents: Sequence[int]) -> list[int]:
    """Each node's value with all below it."""
    sums = list(own)
    for index in range(len(sums) - 1, -1, -1):
        if parents[index] >= 0:
            sums[parents[index]] += sums[index]
    return sums


def laid(tree: Tree, weights: Sequence[int], max_nodes: int) -> Laid:
    """Order a tree for drawing, and cut it down to a number of nodes.

    Args:
        weights: what each node weighs itself; heavy subtrees come first and are kept longest.
        max_nodes: at least 1. Above it the lightest subtrees become one ``CUT_OFF`` per caller.
    """
    totals = summed(weights, tree.parents)
    kept = _kept(totals, max_nodes)
    folded = _folded(tree, kept) if kept is not None else {}
    below: dict[int, list[int]] = {}
    for index in range(len(totals)) if kept is None else sorted(kept):
        below.setdefault(tree.parents[index], []).append(index)
    rows: list[tuple[int, ...]] = []
    open_: list[tuple[int, int, bool]] = []

    def open_below(parent: int, level: int) -> None:
        # Heaviest last, because nodes are taken from the end; what was cut off comes after them.
        if parent in folded:
            open_.append((level, parent, True))
        order = sorted(below.get(parent, ()), key=lambda index: (totals[index], -tree.at[index]))
        open_.extend((level, index, False) for index in order)

    open_below(-1, 0)
    while open_:
        level, index, is_cut = open_.pop()
        if is_cut:
            rows.append((level, CUT_OFF, *folded[index]))
        else:
            rows.append((level, tree.at[index], *(column[index] for column in tree.columns)))
            if index in below or index in folded:
                open_below(index, level + 1)
    empty = ((),) * (2 + len(tree.columns))
    levels, at, *columns = zip(*rows, strict=True) if rows else empty
    return Laid(
        levels=levels,
        at=at,
        columns=tuple(columns),
        cut_nodes=0 if kept is None else len(totals) - len(kept),
        cut=tuple(map(sum, zip(*folded.values(), strict=True)))
        if folded
        else (0,) * len(tree.columns),
    )


def _kept(totals: Sequence[int], max_nodes: int) -> set[int] | None:
    """Which nodes fit; None for all."""
    if len(totals) <= max_nodes:
        return None
    # No node comes before its caller in this order, so what is kept is a tree. Each kept node, and
    # the top, may get a CUT_OFF.
    order = sorted(range(len(totals)), key=lambda index: (-totals[index], index))
    return set(order[: (max_nodes - 1) // 2])


def _folded(tree: Tree, kept: set[int]) -> dict[int, tuple[int, ...]]:
    """What each caller that is kept lost of its callees."""
    columns = [summed(column, tree.parents) for column in tree.columns]
    lost: dict[int, tuple[int, ...]] = {}
    for index, parent in enumerate(tree.parents):
        if index not in kept and (parent in kept or parent == -1):
            known = lost.get(parent, (0,) * len(columns))
            lost[parent] = tuple(
                have + column[index] for have, column in zip(known, columns, strict=True)
            )
    return lost
