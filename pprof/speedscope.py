"""The file format of speedscope: one profile per sample type over one table of frames.

Source: https://www.speedscope.app/file-format-schema.json
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pprof.frames import Frames

if TYPE_CHECKING:
    from pprof.frames import Frame
    from pprof.model import Profile

SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_UNITS = {
    name: name for name in ("nanoseconds", "microseconds", "milliseconds", "seconds", "bytes")
}


def speedscope(profile: Profile, title: str) -> dict[str, object]:
    """A checked profile as speedscope reads it, its default sample type first to be seen.

    Args:
        title: name of the whole.
    """
    frames = Frames(profile)
    stacks = [frames.stack(sample.location_ids)[::-1] for sample in profile.samples]
    types = profile.sample_types
    default = profile.default_sample_type or types[-1].type
    shown = []
    for index, kind in enumerate(types):
        hits = [at for at, sample in enumerate(profile.samples) if sample.values[index]]
        weights = [profile.samples[at].values[index] for at in hits]
        shown.append(
            {
                "type": "sampled",
                "name": f"{title}: {kind.type}",
                "unit": _UNITS.get(kind.unit, "none"),
                "startValue": 0,
                "endValue": sum(weights),
                "samples": [stacks[at] for at in hits],
                "weights": weights,
            }
        )
    return {
        "$schema": SCHEMA,
        "exporter": "isoprof",
        "name": title,
        "activeProfileIndex": next(at for at, kind in enumerate(types) if kind.type == default),
        "shared": {"frames": [_frame(frame) for frame in frames.list]},
        "profiles": shown,
    }


def _frame(frame: Frame) -> dict[str, object]:
    told: dict[str, object] = {"name": frame.name or "(anonymous)"}
    if frame.file:
        told["file"] = frame.file
    if frame.line:
        told["line"] = frame.line
    return told
