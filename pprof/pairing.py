"""Which function of one profile is which of another, where code has moved in between."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pprof.frames import Frame

Pair = tuple["Frame | None", "Frame | None"]
"""A function before and after; None on the side where it is not."""

_ANONYMOUS = re.compile(r"^\(anonymous .*\)$", re.DOTALL)


def paired(before: Iterable[Frame], after: Iterable[Frame]) -> tuple[Pair, ...]:
    """Pair two profiles' functions.

    First those that are the same in everything; then of the same name, file and line; then those
    that moved: of the same name and file, in the order they stand in. In the last two steps only
    where both sides have equally many left: more would be a guess, so the rest is gone or new.
    """
    pairs: list[Pair] = []
    left, right = list(dict.fromkeys(before)), list(dict.fromkeys(after))
    for key in (_whole, _line, _moved):
        groups: dict[object, tuple[list[Frame], list[Frame]]] = defaultdict(lambda: ([], []))
        for side, frames in enumerate((left, right)):
            for frame in frames:
                groups[key(frame)][side].append(frame)
        left, right = [], []
        for one, other in groups.values():
            if len(one) == len(other):
                one.sort(key=_place)
                other.sort(key=_place)
                pairs.extend(zip(one, other, strict=True))
            else:
                left += one
                right += other
    return (*pairs, *((one, None) for one in left), *((None, other) for other in right))


def _whole(frame: Frame) -> object:
    return frame


def _line(frame: Frame) -> object:
    return (frame.name, frame.file, frame.line)


def _moved(frame: Frame) -> object:
    # The name of an anonymous function is its place, which is what moved.
    return ("(anonymous)" if _ANONYMOUS.match(frame.name) else frame.name, frame.file)


def _place(frame: Frame) -> tuple[int, int, str]:
    column = frame.generated.rpartition(":")[2]
    return (frame.line, int(column) if column.isascii() and column.isdecimal() else 0, frame.name)
