"""Narrow a profile without moving a total: what is taken out stays, as ``(filtered)``.

Patterns come from the person at the machine. Never let one of a stranger in: a regular expression
can take for ever.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from pprof.frames import FILTERED, Kind, frame
from pprof.model import Function, Line, Location, Sample

if TYPE_CHECKING:
    import re

    from pprof.model import Label, Profile

RUNTIME_KINDS = frozenset({Kind.RUNTIME, Kind.NATIVE, Kind.PROGRAM, Kind.GC, Kind.IDLE})


@dataclass(frozen=True, kw_only=True)
class Filter:
    """What to look at. Patterns are searched for in ``name file:line`` of a function.

    Args:
        focus: only stacks with such a function count; the others become ``(filtered)``.
        ignore: stacks with such a function become ``(filtered)``.
        hide: such functions go, what they cost falls to their caller.
        prune_runtime: hide what is not the program's or a library's code. What the runtime did
            with no JavaScript above it, like ``(garbage collector)``, becomes ``(filtered)``.
    """

    focus: re.Pattern[str] | None = None
    ignore: re.Pattern[str] | None = None
    hide: re.Pattern[str] | None = None
    prune_runtime: bool = False

    @property
    def told(self) -> str:
        """The filter as the comment it leaves."""
        named = (("focus", self.focus), ("ignore", self.ignore), ("hide", self.hide))
        parts = [f"{name}={pattern.pattern}" for name, pattern in named if pattern is not None]
        return " ".join(parts + ["prune_runtime"] * self.prune_runtime)


def filtered(profile: Profile, wanted: Filter) -> Profile:
    """A checked profile narrowed down; every total stays what it was, and a comment says so."""
    if not wanted.told:
        return profile
    names = {function.id: _text(function) for function in profile.functions}
    focus = _matching(names, wanted.focus)
    ignore = _matching(names, wanted.ignore)
    hide = _matching(names, wanted.hide)
    if wanted.prune_runtime:
        hide |= {one.id for one in profile.functions if frame(one).kind in RUNTIME_KINDS}
    lines = {place.id: place.lines for place in profile.locations}
    shown = {
        place.id: replace(place, lines=kept)
        for place in profile.locations
        if (kept := tuple(line for line in place.lines if line.function_id not in hide))
    }
    out = _out(profile)
    sums: dict[tuple[tuple[int, ...], tuple[Label, ...]], Counter[int]] = {}
    for sample in profile.samples:
        called = {line.function_id for id_ in sample.location_ids for line in lines[id_]}
        stack: tuple[int, ...] = ()
        if (wanted.focus is None or called & focus) and not called & ignore:
            stack = tuple(id_ for id_ in sample.location_ids if id_ in shown)
        # A stack of nothing but hidden frames has no caller to fall to.
        values = sums.setdefault((stack or (out[1].id,), sample.labels), Counter())
        values.update(dict(enumerate(sample.values)))
    return replace(
        profile,
        samples=tuple(
            Sample(
                location_ids=stack,
                values=tuple(values[index] for index in range(len(profile.sample_types))),
                labels=labels,
            )
            for (stack, labels), values in sums.items()
        ),
        functions=(*profile.functions, out[0]),
        locations=(*shown.values(), out[1]),
        comments=(*profile.comments, f"filtered={wanted.told}"),
    )


def _out(profile: Profile) -> tuple[Function, Location]:
    """The frame that stands for what was taken out."""
    function = Function(
        id=_free({one.id for one in profile.functions}),
        name=FILTERED,
        system_name=FILTERED,
        filename="",
        start_line=0,
    )
    line = Line(function_id=function.id, line=0)
    id_ = _free({one.id for one in profile.locations})
    return function, Location(id=id_, mapping_id=0, lines=(line,))


def _free(taken: set[int]) -> int:
    return next(id_ for id_ in count(1) if id_ not in taken)


def _text(function: Function) -> str:
    one = frame(function)
    return f"{one.name} {one.place}".strip()


def _matching(names: dict[int, str], pattern: re.Pattern[str] | None) -> set[int]:
    if pattern is None:
        return set()
    return {id_ for id_, name in names.items() if pattern.search(name)}
