"""Which of a profile's numbers a view is about, and which of them counts its samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pprof.check import ProfileInvalid

if TYPE_CHECKING:
    from pprof.model import Profile, Sample

_COUNT_OF = {
    "cpu": "samples",
    "alloc_space": "alloc_objects",
    "inuse_space": "inuse_objects",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Measure:
    """One sample type.

    Args:
        index: where its value stands in a sample.
        count_index: where the number of samples or objects behind it stands; None when the profile
            does not count them.
    """

    type: str
    unit: str
    index: int
    count_index: int | None

    def value(self, sample: Sample) -> int:
        """What the sample costs."""
        return sample.values[self.index]

    def count(self, sample: Sample) -> int:
        """How many samples or objects it stands for; 0 when that is not counted."""
        return 0 if self.count_index is None else sample.values[self.count_index]


def measure(profile: Profile, sample_type: str = "") -> Measure:
    """Choose a sample type.

    Args:
        sample_type: its name; empty for the profile's default, or its last.

    Raises:
        ProfileInvalid: the profile has no such sample type.
    """
    names = [value_type.type for value_type in profile.sample_types]
    wanted = sample_type or profile.default_sample_type or names[-1]
    if wanted not in names:
        raise ProfileInvalid(f"the profile has no {wanted}, only {', '.join(names)}")
    index = names.index(wanted)
    unit = profile.sample_types[index].unit
    counter = _COUNT_OF.get(wanted)
    if counter in names:
        return Measure(type=wanted, unit=unit, index=index, count_index=names.index(counter))
    counts = [at for at, kind in enumerate(profile.sample_types) if kind.unit == "count"]
    # One counter beside one other number counts that number's samples; of several none is known to.
    alone = counts[0] if len(counts) == 1 and (unit == "count" or len(names) == 2) else None
    return Measure(
        type=wanted, unit=unit, index=index, count_index=index if unit == "count" else alone
    )
