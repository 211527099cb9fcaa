"""The lines of a function and what each cost, with their text where somebody has the source."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pprof.frames import frame as frame_of
from pprof.measure import measure

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pprof.frames import Frame
    from pprof.measure import Measure
    from pprof.model import Function, Profile

CONTEXT_LINES = 3
"""Lines of source shown around those that cost something."""


@dataclass(frozen=True, kw_only=True)
class SourceLine:
    """One line. ``text`` None: nobody has the source, or it is shorter than that.

    Args:
        line: 1-based; 0 for what no line is known of.
        self_value: cost of the stacks it ends.
        total_value: cost of the stacks it stands in, each once; of a caller the runtime tells only
            where the function starts, so calls count there.
    """

    line: int
    self_value: int
    total_value: int
    text: str | None


@dataclass(frozen=True, kw_only=True)
class Listing:
    """One function with every line that cost something, and the lines between and around."""

    frame: Frame
    self_value: int
    total_value: int
    lines: tuple[SourceLine, ...]


@dataclass(frozen=True, kw_only=True)
class Listings:
    """Every function that was meant, the costliest first. ``total``: of the whole profile."""

    measure: Measure
    total: int
    functions: tuple[Listing, ...]


def listings(
    profile: Profile,
    meant: Callable[[Frame], bool],
    source: Callable[[str], Sequence[str] | None],
    sample_type: str = "",
) -> Listings:
    """List the functions that are meant and that stand in some stack.

    Args:
        source: the lines of a file of the profile; None when nobody has it.

    Raises:
        ProfileInvalid: the profile has no such sample type.
    """
    chosen = measure(profile, sample_type)
    wanted: dict[int, Function] = {one.id: one for one in profile.functions if meant(frame_of(one))}
    places = {place.id: place.lines for place in profile.locations}
    own: Counter[tuple[Frame, int]] = Counter()
    total: Counter[tuple[Frame, int]] = Counter()
    per_function: Counter[Frame] = Counter()
    whole = 0
    for sample in profile.samples:
        value = chosen.value(sample)
        whole += value
        hits = [
            (frame_of(wanted[line.function_id]), line.line)
            for id_ in sample.location_ids
            for line in places[id_]
            if line.function_id in wanted
        ]
        for hit in set(hits):
            total[hit] += value
        for one in {one for one, _ in hits}:
            per_function[one] += value
        first = places[sample.location_ids[0]][:1] if sample.location_ids else ()
        if first and first[0].function_id in wanted:
            own[hits[0]] += value
    found = [
        Listing(
            frame=one,
            self_value=sum(own[hit] for hit in total if hit[0] == one),
            total_value=value,
            lines=_lines(one, own, total, source(one.file) if one.file else None),
        )
        for one, value in per_function.items()
    ]
    found.sort(key=lambda one: (-one.total_value, -one.self_value, one.frame.name, one.frame.file))
    return Listings(measure=chosen, total=whole, functions=tuple(found))


def _lines(
    one: Frame,
    own: Counter[tuple[Frame, int]],
    total: Counter[tuple[Frame, int]],
    source: Sequence[str] | None,
) -> tuple[SourceLine, ...]:
    hit = sorted(line for frame, line in total if frame == one)
    shown = set(hit)
    if source is not None:
        for line in hit:
            around = range(line - CONTEXT_LINES, line + CONTEXT_LINES + 1)
            # A line that is not in the source says that it is another version's: nothing to show.
            shown |= {near for near in around if line and 1 <= near <= len(source)}
    return tuple(
        SourceLine(
            line=line,
            self_value=own[one, line],
            total_value=total[one, line],
            text=source[line - 1] if source is not None and 1 <= line <= len(source) else None,
        )
        for line in sorted(shown)
    )
