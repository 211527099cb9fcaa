"""One function and its neighbours: who called it, and what it called, with what that cost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pprof.frames import Frames
from pprof.measure import measure

if TYPE_CHECKING:
    from collections.abc import Callable

    from pprof.frames import Frame
    from pprof.measure import Measure
    from pprof.model import Profile


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A caller or a callee. ``frame`` None: nothing called it, it is the root of the stack.

    Args:
        value: cost of all stacks in which the one stands directly by the other, each once.
    """

    frame: Frame | None
    value: int


@dataclass(frozen=True, kw_only=True)
class Peek:
    """One function.

    Args:
        self_value: what it cost as the leaf.
        total_value: cost of every stack it stands in, each once.
        callers, callees: heaviest first; a recursive function is its own caller and callee.
    """

    frame: Frame
    self_value: int
    total_value: int
    callers: tuple[Neighbour, ...]
    callees: tuple[Neighbour, ...]


@dataclass(frozen=True, kw_only=True)
class Peeks:
    """Every function that was meant, the costliest first. ``total``: of the whole profile."""

    measure: Measure
    total: int
    functions: tuple[Peek, ...]


def peek(profile: Profile, meant: Callable[[Frame], bool], sample_type: str = "") -> Peeks:
    """Look at the functions that are meant and that stand in some stack.

    Args:
        meant: which functions.

    Raises:
        ProfileInvalid: the profile has no such sample type.
    """
    chosen = measure(profile, sample_type)
    frames = Frames(profile)
    wanted = {number for number, frame in enumerate(frames.list) if meant(frame)}
    found = {number: _Sums() for number in wanted}
    whole = 0
    for sample in profile.samples:
        value = chosen.value(sample)
        whole += value
        stack = frames.stack(sample.location_ids)
        if not wanted.isdisjoint(stack):
            _add(found, stack, value)
    looked = [
        Peek(
            frame=frames.list[number],
            self_value=sums.own,
            total_value=sums.total,
            callers=_ordered(sums.callers, frames),
            callees=_ordered(sums.callees, frames),
        )
        for number, sums in found.items()
        if sums.seen
    ]
    looked.sort(key=lambda one: (-one.total_value, -one.self_value, one.frame.name, one.frame.file))
    return Peeks(measure=chosen, total=whole, functions=tuple(looked))


class _Sums:
    def __init__(self) -> None:
        self.seen = False
        self.own = self.total = 0
        self.callers: Counter[int | None] = Counter()
        self.callees: Counter[int | None] = Counter()


def _add(found: dict[int, _Sums], stack: list[int], value: int) -> None:
    edges = {(caller, callee) for callee, caller in zip(stack, (*stack[1:], None), strict=True)}
    for number in found.keys() & set(stack):
        sums = found[number]
        sums.seen = True
        sums.total += value
        sums.own += value if stack[0] == number else 0
    for caller, callee in edges:
        if callee in found:
            found[callee].callers[caller] += value
        if caller in found:
            found[caller].callees[callee] += value


def _ordered(sums: Counter[int | None], frames: Frames) -> tuple[Neighbour, ...]:
    known = [
        Neighbour(frame=None if number is None else frames.list[number], value=value)
        for number, value in sums.items()
    ]
    known.sort(key=lambda one: (-one.value, one.frame.name if one.frame else ""))
    return tuple(known)
