"""Several profiles as one: values summed per stack and labels, exactly, whatever the order."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from pprof import comments
from pprof.check import DEFAULT_BOUNDS, Bounds, ProfileInvalid, within
from pprof.model import Function, Label, Line, Location, Mapping, Profile, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Mapping as MappingOf

_MappingKey = tuple[str, str, int, int, int, bool, bool, bool, bool]
_FunctionKey = tuple[str, str, str, int]
_LineKey = tuple[int, int, int]
_LocationKey = tuple[int, int, tuple[_LineKey, ...], bool]
_LabelKey = tuple[str, str, int, str]
_Key = TypeVar("_Key", bound=tuple[object, ...])
_SampleKey = tuple[tuple[int, ...], tuple[_LabelKey, ...]]


def merge(profiles: Iterable[Profile], bounds: Bounds = DEFAULT_BOUNDS) -> Profile:
    """Merge checked profiles; ids are given anew in a fixed order, so merging commutes.

    Args:
        profiles: at least one. Each is let go before the next is taken: memory follows the whole.

    Returns:
        The sums, over a window from the earliest start to the latest end; the longest period.

    Raises:
        ProfileInvalid: the profiles count different things, or there are none.
        ProfileTooLarge: ``max_samples`` or ``max_nodes``.
    """
    sums = _Sums(bounds)
    for profile in profiles:
        sums.add(profile)
    return sums.profile()


class _Sums:
    """What was added so far, under ids in the order things were met."""

    def __init__(self, bounds: Bounds) -> None:
        self._bounds = bounds
        self._heads: list[Profile] = []
        self._mappings: dict[_MappingKey, int] = {}
        self._functions: dict[_FunctionKey, int] = {}
        self._locations: dict[_LocationKey, int] = {}
        self._sums: dict[_SampleKey, list[int]] = {}

    def add(self, profile: Profile) -> None:
        """Add one profile."""
        if self._heads:
            first = self._heads[0]
            if (profile.sample_types, profile.period_type) != (
                first.sample_types,
                first.period_type,
            ):
                raise ProfileInvalid("the profiles count different things")
        self._heads.append(replace(profile, samples=(), locations=(), functions=(), mappings=()))
        ids = self._ids(profile)
        within(len(self._locations), "max_nodes", self._bounds.max_nodes)
        sums, id_of = self._sums, ids.__getitem__
        for sample in profile.samples:
            key = (tuple(map(id_of, sample.location_ids)), _labels(sample.labels))
            known = sums.get(key)
            if known is None:
                sums[key] = list(sample.values)
            else:
                for index, value in enumerate(sample.values):
                    known[index] += value
        within(len(sums), "max_samples", self._bounds.max_samples)

    def _ids(self, profile: Profile) -> dict[int, int]:
        """The id here of each of a profile's locations, new ones added."""
        mapping_of = {
            one.id: self._mappings.setdefault(_mapping(one), len(self._mappings) + 1)
            for one in profile.mappings
        }
        mapping_of[0] = 0
        function_of = {
            one.id: self._functions.setdefault(_function(one), len(self._functions) + 1)
            for one in profile.functions
        }
        known = self._locations
        return {
            one.id: known.setdefault(
                (
                    mapping_of[one.mapping_id],
                    one.address,
                    tuple(
                        [
                            (function_of[line.function_id], line.line, line.column)
                            for line in one.lines
                        ]
                    ),
                    one.is_folded,
                ),
                len(known) + 1,
            )
            for one in profile.locations
        }

    def profile(self) -> Profile:
        """The whole, its ids in an order that does not tell what was added first."""
        if not self._heads:
            raise ProfileInvalid("nothing to merge")
        heads = self._heads
        mapping_ids, mappings = _ranked(self._mappings)
        function_ids, functions = _ranked(self._functions)
        location_ids, locations = _ranked(
            {
                (
                    mapping_ids[mapping],
                    address,
                    tuple([(function_ids[at], line, column) for at, line, column in lines]),
                    is_folded,
                ): id_
                for (mapping, address, lines, is_folded), id_ in self._locations.items()
            }
        )
        id_of = location_ids.__getitem__
        samples = sorted(
            [
                ((tuple(map(id_of, stack)), labels), sums)
                for (stack, labels), sums in self._sums.items()
            ]
        )
        time_ns = min(head.time_ns for head in heads)
        return Profile(
            sample_types=heads[0].sample_types,
            samples=tuple(
                Sample(
                    location_ids=stack,
                    values=tuple(sums),
                    labels=tuple(Label(key=k, text=t, number=n, unit=u) for k, t, n, u in labels),
                )
                for (stack, labels), sums in samples
            ),
            locations=tuple(_location(id_, key) for id_, key in enumerate(locations, 1)),
            functions=tuple(
                Function(id=id_, filename=file, system_name=system, name=name, start_line=line)
                for id_, (file, system, name, line) in enumerate(functions, 1)
            ),
            mappings=tuple(_mapping_of(id_, key) for id_, key in enumerate(mappings, 1)),
            time_ns=time_ns,
            duration_ns=max(head.time_ns + head.duration_ns for head in heads) - time_ns,
            period_type=heads[0].period_type,
            period=max(head.period for head in heads),
            comments=comments.merged(head.comments for head in heads),
            default_sample_type=max(head.default_sample_type for head in heads),
            drop_frames=max(head.drop_frames for head in heads),
            keep_frames=max(head.keep_frames for head in heads),
            doc_url=max(head.doc_url for head in heads),
        )


def _ranked(known: MappingOf[_Key, int]) -> tuple[dict[int, int], list[_Key]]:
    """Ids by their place among the sorted keys, from 1; 0 stays 0. And the keys in that order."""
    order = sorted(known)
    return {0: 0} | {known[key]: rank for rank, key in enumerate(order, 1)}, order


def _labels(labels: Sequence[Label]) -> tuple[_LabelKey, ...]:
    if not labels:
        return ()
    return tuple(sorted((label.key, label.text, label.number, label.unit) for label in labels))


def _location(id_: int, key: _LocationKey) -> Location:
    mapping_id, address, lines, is_folded = key
    return Location(
        id=id_,
        mapping_id=mapping_id,
        lines=tuple(Line(function_id=f, line=line, column=column) for f, line, column in lines),
        address=address,
        is_folded=is_folded,
    )


def _mapping_of(id_: int, key: _MappingKey) -> Mapping:
    filename, build_id, start, limit, offset, functions, filenames, lines, inline = key
    return Mapping(
        id=id_,
        filename=filename,
        build_id=build_id,
        memory_start=start,
        memory_limit=limit,
        file_offset=offset,
        has_functions=functions,
        has_filenames=filenames,
        has_line_numbers=lines,
        has_inline_frames=inline,
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
