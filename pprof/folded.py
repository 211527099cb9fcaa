"""Folded stacks: one line per call path and its value, as flame graph scripts read them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pprof.frames import Frames
from pprof.measure import measure

if TYPE_CHECKING:
    from pprof.frames import Frame
    from pprof.model import Profile


def folded(profile: Profile, sample_type: str = "") -> str:
    """Lines ``caller;…;leaf value``, sorted. Two functions of one name are told apart by place.

    Raises:
        ProfileInvalid: the profile has no such sample type.
    """
    chosen = measure(profile, sample_type)
    frames = Frames(profile)
    sums: Counter[tuple[int, ...]] = Counter()
    for sample in profile.samples:
        if value := chosen.value(sample):
            sums[tuple(frames.stack(sample.location_ids)[::-1])] += value
    names = [written(frame) for frame in frames.list]
    return "".join(
        sorted(
            f"{';'.join([names[number] for number in stack])} {value}\n"
            for stack, value in sums.items()
        )
    )


def written(frame: Frame) -> str:
    """A frame in one word of a line: no separator and no line break of its own."""
    text = f"{frame.name} ({frame.place})" if frame.place else frame.name
    return "".join(
        ":" if char == ";" else char if char.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )
