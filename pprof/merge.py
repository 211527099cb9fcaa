"""Several profiles as one: values summed per stack and labels, exactly, whatever the order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pprof import comments
from pprof.check import DEFAULT_BOUNDS, Bounds, ProfileInvalid, within
from pprof.model import Function, Label, Line, Location, Mapping, Profile, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

_MappingKey = tuple[str, str, int, int, int, bool, bool, bool, bool]
_FunctionKey = tuple[str, str, str, int]
_LineKey = tuple[int, int, int]
_LocationKey = tuple[int, int, tuple[_LineKey, ...], bool]
_LabelKey = tuple[str, str, int, str]
_SampleKey = tuple[tuple[int, ...], tuple[_LabelKey, ...]]


def merge(profiles: Sequence[Profile], bounds: Bounds = DEFAULT_BOUNDS) -> Profile:
    """Merge checked profiles; ids are given anew in a fixed order, so merging commutes.

    Args:
        profiles: at least one.

    Returns:
        The sums, over a window from the earliest start to the latest end; the longest period.

    Raises:
        ProfileInvalid: the profiles count different things, or there are none.
        ProfileTooLarge: ``max_samples`` or ``max_nodes``.
    """
    if not profiles:
        raise ProfileInvalid("nothing to merge")
    first = profiles[0]
    for other in profiles[1:]:
        if (other.sample_types, other.period_type) != (first.sample_types, first.period_type):
            raise ProfileInvalid("the profiles count different things")
    tables = _Tables.of(profiles)
    within(len(tables.locations), "max_nodes", bounds.max_nodes)
    sums: dict[_SampleKey, list[int]] = {}
    for profile, ids in zip(profiles, tables.ids, strict=True):
        for sample in profile.samples:
            labels = sorted(
                (label.key, label.text, label.number, label.unit) for label in sample.labels
            )
            key = (tuple(ids[id_] for id_ in sample.location_ids), tuple(labels))
            known = sums.get(key)
            if known is None:
                sums[key] = list(sample.values)
            else:
                for index, value in enumerate(sample.values):
                    known[index] += value
    within(len(sums), "max_samples", bounds.max_samples)
    time_ns = min(profile.time_ns for profile in profiles)
    return Profile(
        sample_types=first.sample_types,
        samples=tuple(
            Sample(
                location_ids=location_ids,
                values=tuple(values),
                labels=tuple(Label(key=k, text=t, number=n, unit=u) for k, t, n, u in labels),
            )
            for (location_ids, labels), values in sorted(sums.items())
        ),
        locations=tables.locations,
        functions=tables.functions,
        mappings=tables.mappings,
        time_ns=time_ns,
        duration_ns=max(profile.time_ns + profile.duration_ns for profile in profiles) - time_ns,
        period_type=first.period_type,
        period=max(profile.period for profile in profiles),
        comments=comments.merged(profile.comments for profile in profiles),
        default_sample_type=max(profile.default_sample_type for profile in profiles),
        drop_frames=max(profile.drop_frames for profile in profiles),
        keep_frames=max(profile.keep_frames for profile in profiles),
        doc_url=max(profile.doc_url for profile in profiles),
    )


@dataclass(frozen=True, kw_only=True)
class _Tables:
    """The joined tables, and for each profile the new id of each of its locations."""

    mappings: tuple[Mapping, ...]
    functions: tuple[Function, ...]
    locations: tuple[Location, ...]
    ids: tuple[dict[int, int], ...]

    @classmethod
    def of(cls, profiles: Sequence[Profile]) -> _Tables:
        mappings = {
            _mapping(mapping): mapping for profile in profiles for mapping in profile.mappings
        }
        mapping_ids = {key: id_ for id_, key in enumerate(sorted(mappings), 1)}
        functions = {
            _function(function): function for profile in profiles for function in profile.functions
        }
        function_ids = {key: id_ for id_, key in enumerate(sorted(functions), 1)}
        keys = [_location_keys(profile, mapping_ids, function_ids) for profile in profiles]
        location_ids = {
            key: id_
            for id_, key in enumerate(sorted({key for one in keys for key in one.values()}), 1)
        }
        return cls(
            mappings=tuple(replace(mappings[key], id=id_) for key, id_ in mapping_ids.items()),
            functions=tuple(replace(functions[key], id=id_) for key, id_ in function_ids.items()),
            locations=tuple(_location(id_, key) for key, id_ in location_ids.items()),
            ids=tuple({old: location_ids[key] for old, key in one.items()} for one in keys),
        )


def _location_keys(
    profile: Profile, mapping_ids: dict[_MappingKey, int], function_ids: dict[_FunctionKey, int]
) -> dict[int, _LocationKey]:
    mapping_of = {mapping.id: mapping_ids[_mapping(mapping)] for mapping in profile.mappings}
    function_of = {function.id: function_ids[_function(function)] for function in profile.functions}
    return {
        location.id: (
            mapping_of[location.mapping_id] if location.mapping_id else 0,
            location.address,
            tuple(
                (function_of[line.function_id], line.line, line.column) for line in location.lines
            ),
            location.is_folded,
        )
        for location in profile.locations
    }


def _location(id_: int, key: _LocationKey) -> Location:
    mapping_id, address, lines, is_folded = key
    return Location(
        id=id_,
        mapping_id=mapping_id,
        lines=tuple(Line(function_id=f, line=line, column=column) for f, line, column in lines),
        address=address,
        is_folded=is_folded,
    )


def _mapping(mapping: Mapping) -> _MappingKey:
    return (
        mapping.filename,
        mapping.build_id,
        mapping.memory_start,
        mapping.memory_limit,
        mapping.file_offset,
        mapping.has_functions,
        mapping.has_filenames,
        mapping.has_line_numbers,
        mapping.has_inline_frames,
    )


def _function(function: Function) -> _FunctionKey:
    return (function.filename, function.system_name, function.name, function.start_line)
