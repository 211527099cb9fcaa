"""Two profiles side by side, the first scaled to the second: what is new, gone, changed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING

from pprof.calltree import grown, laid
from pprof.check import ProfileInvalid
from pprof.flame import DEFAULT_MAX_NODES
from pprof.frames import Frames
from pprof.measure import measure
from pprof.pairing import paired

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pprof.calltree import Laid, Tree
    from pprof.frames import Frame
    from pprof.measure import Measure
    from pprof.model import Profile
    from pprof.pairing import Pair

_DEVIATIONS = 2


class Normalize(StrEnum):
    """What the two are made equal in before they are compared."""

    TOTAL = "total"
    WINDOW = "window"
    NONE = "none"


class Status(StrEnum):
    """What became of a function."""

    NEW = "new"
    GONE = "gone"
    CHANGED = "changed"
    SAME = "same"


@dataclass(frozen=True, kw_only=True)
class Side:
    """One profile as a whole. ``samples`` is 0 when it does not count them."""

    total: int
    samples: int
    duration_ns: int


@dataclass(frozen=True, kw_only=True)
class Change:
    """One function before and after.

    Args:
        base_line, line: where it starts on each side; 0 when it is not there, or not known.
        base_self, self_value, base_total, total_value: as they were measured, each in its profile.
        self_change, total_change: after, less before scaled.
        self_noise, total_noise: the change is within two deviations of what sampling explains; None
            when the profiles do not count samples.
    """

    name: str
    file: str
    base_line: int
    line: int
    status: Status
    base_self: int
    self_value: int
    self_change: int
    self_noise: bool | None
    base_total: int
    total_value: int
    total_change: int
    total_noise: bool | None


@dataclass(frozen=True, kw_only=True)
class Diff:
    """The comparison.

    Args:
        scale: what every value of the base was multiplied with for the changes.
        rows: greatest change of self first, then of total.
        pairs, statuses: the functions, by frame number.
        tree: columns self, samples, base self, base samples.
    """

    measure: Measure
    normalize: Normalize
    scale: float
    base: Side
    new: Side
    rows: tuple[Change, ...]
    pairs: tuple[Pair, ...]
    statuses: tuple[Status, ...]
    tree: Laid


def diff(
    base: Profile,
    new: Profile,
    normalize: Normalize = Normalize.TOTAL,
    sample_type: str = "",
    max_nodes: int = DEFAULT_MAX_NODES,
) -> Diff:
    """Compare two checked profiles. Pure and CPU-bound.

    Args:
        normalize: TOTAL: the same captured CPU time (or bytes), so changes are shifts of share.
            WINDOW: per second of window. NONE: as measured.

    Raises:
        ProfileInvalid: they count different things, or have no such sample type, or a window of no
            length was to be normalised by.
    """
    before, after = measure(base, sample_type), measure(new, sample_type)
    if (before.type, before.unit) != (after.type, after.unit):
        raise ProfileInvalid(
            f"the profiles count different things: {before.type} in {before.unit}, "
            f"{after.type} in {after.unit}"
        )
    is_counted = "samples" in {kind.type for kind in new.sample_types}
    frames = Frames(base), Frames(new)
    stacks = [
        [
            (one.stack(sample.location_ids), chosen.value(sample), chosen.count(sample))
            for sample in profile.samples
        ]
        for one, profile, chosen in zip(frames, (base, new), (before, after), strict=True)
    ]
    pairs = paired(frames[0].list, frames[1].list)
    numbers = _numbers(pairs)
    tree, sums = _laid_over(stacks, frames, numbers)
    sides = [
        Side(
            total=sum(value for _, value, _ in stacks[at]),
            samples=sum(count for _, _, count in stacks[at]),
            duration_ns=profile.duration_ns,
        )
        for at, profile in enumerate((base, new))
    ]
    scale = _scale(sides[0], sides[1], normalize)
    changes = [
        _change(pair, sums.get(number, (_Sums(), _Sums())), scale, is_counted=is_counted)
        for number, pair in enumerate(pairs)
    ]
    rows = sorted(
        (change for number, change in enumerate(changes) if number in sums),
        key=lambda row: (
            -abs(row.self_change),
            -abs(row.total_change),
            row.name,
            row.file,
            row.line,
            row.base_line,
        ),
    )
    weights = [
        own + int(was * scale) for own, was in zip(tree.columns[0], tree.columns[2], strict=True)
    ]
    return Diff(
        measure=after,
        normalize=normalize,
        scale=float(scale),
        base=sides[0],
        new=sides[1],
        rows=tuple(rows),
        pairs=pairs,
        statuses=tuple(change.status for change in changes),
        tree=laid(tree, weights, max_nodes),
    )


def _numbers(pairs: Sequence[Pair]) -> tuple[dict[Frame, int], dict[Frame, int]]:
    """The number of each side's frames."""
    sides: tuple[dict[Frame, int], dict[Frame, int]] = ({}, {})
    for number, pair in enumerate(pairs):
        for side, frame in zip(sides, pair, strict=True):
            if frame is not None:
                side[frame] = number
    return sides


@dataclass(slots=True)
class _Sums:
    """One function on one side: what it cost, and how many samples say so."""

    own: int = 0
    own_count: int = 0
    total: int = 0
    total_count: int = 0
    seen: bool = False


def _laid_over(
    stacks: Sequence[Sequence[tuple[list[int], int, int]]],
    frames: tuple[Frames, Frames],
    numbers: tuple[dict[Frame, int], dict[Frame, int]],
) -> tuple[Tree, dict[int, tuple[_Sums, _Sums]]]:
    """Both sides in one tree of pairs, and each pair's sums."""
    paths: dict[tuple[int, ...], list[int]] = {}
    sums: dict[int, tuple[_Sums, _Sums]] = {}
    for side in (0, 1):
        number_of = [numbers[side][frame] for frame in frames[side].list]
        column = 2 - 2 * side
        for stack, value, count in stacks[side]:
            path = tuple([number_of[at] for at in reversed(stack)])
            node = paths.setdefault(path, [0, 0, 0, 0])
            node[column] += value
            node[column + 1] += count
            for number in set(path):
                one = sums.setdefault(number, (_Sums(), _Sums()))[side]
                one.seen = True
                one.total += value
                one.total_count += count
            leaf = sums[path[-1]][side]
            leaf.own += value
            leaf.own_count += count
    return grown(paths, 4), sums


def _scale(base: Side, new: Side, normalize: Normalize) -> Fraction:
    match normalize:
        case Normalize.NONE:
            return Fraction(1)
        case Normalize.WINDOW:
            if not base.duration_ns or not new.duration_ns:
                raise ProfileInvalid("a profile does not tell how long its window was")
            return Fraction(new.duration_ns, base.duration_ns)
        case Normalize.TOTAL:
            # With nothing on one side there is no share to compare: all is new, or gone.
            return Fraction(new.total, base.total) if new.total and base.total else Fraction(1)


def _change(pair: Pair, sums: tuple[_Sums, _Sums], scale: Fraction, *, is_counted: bool) -> Change:
    (before, after), (was, now) = pair, sums
    shown = after or before
    if shown is None:
        raise ProfileInvalid("a pair of nothing")
    self_change = now.own - round(was.own * scale)
    total_change = now.total - round(was.total * scale)
    if not was.seen:
        status = Status.NEW
    elif not now.seen:
        status = Status.GONE
    else:
        status = Status.CHANGED if self_change or total_change else Status.SAME

    def noise(change: int, old: int, old_count: int, value: int, count: int) -> bool | None:
        if not is_counted:
            return None
        # A count of n is uncertain by its root; each sample stands for the mean value.
        old_part = float(old * scale) ** 2 / old_count if old_count else 0.0
        new_part = float(value) ** 2 / count if count else 0.0
        return abs(change) <= _DEVIATIONS * math.sqrt(old_part + new_part)

    return Change(
        name=shown.name,
        file=shown.file,
        base_line=before.line if before else 0,
        line=after.line if after else 0,
        status=status,
        base_self=was.own,
        self_value=now.own,
        self_change=self_change,
        self_noise=noise(self_change, was.own, was.own_count, now.own, now.own_count),
        base_total=was.total,
        total_value=now.total,
        total_change=total_change,
        total_noise=noise(total_change, was.total, was.total_count, now.total, now.total_count),
    )
