"""What is known of a sample beside its stack: put on all of a profile, or taken off again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from pprof.model import Function, Label, Line, Location, Profile, Sample
from pprof.places import TRUNCATED

if TYPE_CHECKING:
    from collections.abc import Mapping


def labelled(profile: Profile, told: Mapping[str, str]) -> Profile:
    """Say the same of every sample; a label of that name that was there is replaced."""
    fresh = tuple(Label(key=key, text=text) for key, text in told.items())
    return replace(
        profile,
        samples=tuple(
            replace(
                sample,
                labels=(*(label for label in sample.labels if label.key not in told), *fresh),
            )
            for sample in profile.samples
        ),
    )


def unlabelled(profile: Profile, key: str) -> Profile:
    """Take a label off every sample. Samples it told apart stay apart until they are merged."""
    return replace(
        profile,
        samples=tuple(
            replace(sample, labels=tuple(label for label in sample.labels if label.key != key))
            for sample in profile.samples
        ),
    )


def heaviest(profile: Profile, keep: int) -> Profile:
    """Keep the samples that weigh most by their last value; totals stay what they were.

    What the others came to stands in one sample per set of labels, in a function ``(truncated)``.

    Args:
        keep: at least 1; a profile of no more samples is returned as it is.
    """
    if len(profile.samples) <= keep:
        return profile
    by_weight = sorted(profile.samples, key=lambda sample: sample.values[-1], reverse=True)
    kept, rest = by_weight[:keep], by_weight[keep:]
    sums: dict[tuple[Label, ...], list[int]] = defaultdict(lambda: [0] * len(rest[0].values))
    for sample in rest:
        known = sums[tuple(sorted(sample.labels, key=_order))]
        for index, value in enumerate(sample.values):
            known[index] += value
    function_id = max((function.id for function in profile.functions), default=0) + 1
    location_id = max((location.id for location in profile.locations), default=0) + 1
    used = {id_ for sample in kept for id_ in sample.location_ids}
    locations = tuple(location for location in profile.locations if location.id in used)
    functions = {line.function_id for location in locations for line in location.lines}
    mappings = {location.mapping_id for location in locations}
    return replace(
        profile,
        samples=(
            *kept,
            *(
                Sample(location_ids=(location_id,), values=tuple(values), labels=labels)
                for labels, values in sums.items()
            ),
        ),
        locations=(
            *locations,
            Location(id=location_id, mapping_id=0, lines=(Line(function_id=function_id, line=0),)),
        ),
        functions=(
            *(function for function in profile.functions if function.id in functions),
            Function(
                id=function_id, name=TRUNCATED, system_name=TRUNCATED, filename="", start_line=0
            ),
        ),
        mappings=tuple(mapping for mapping in profile.mappings if mapping.id in mappings),
    )


def _order(label: Label) -> tuple[str, str, int, str]:
    return (label.key, label.text, label.number, label.unit)
