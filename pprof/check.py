"""The one validity check, and the bounds every builder and decoder keeps to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pprof.model import Profile

INT64_MAX = 2**63 - 1
_UINT64_MAX = 2**64 - 1


class ProfileInvalid(ValueError):  # noqa: N818 - a statement about the profile, in the words of the faults
    """The bytes or values are no profile; the message says what is wrong and is safe to show."""


class ProfileTooLarge(ProfileInvalid):
    """A bound was passed.

    Args:
        limit: the field of :class:`Bounds` that was passed.
        allowed: its value.
    """

    def __init__(self, limit: str, allowed: int) -> None:
        super().__init__(f"profile too large: more than {limit} = {allowed}")
        self.limit = limit
        self.allowed = allowed


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """How much is read.

    Args:
        max_bytes: of a capture or a profile, after decompression.
        max_nodes: call-tree nodes of a capture; locations, functions and mappings of a profile.
        max_samples: distinct stacks.
        max_frames: locations named by all samples together, which is what memory follows.
        max_depth: frames of a stack; builders cut deeper ones and say so, decoders refuse them.
        max_string_bytes: of one string; builders cut longer ones and say so, decoders refuse them.
    """

    max_bytes: int = 64 * 1024 * 1024
    max_nodes: int = 1_000_000
    max_samples: int = 200_000
    max_frames: int = 10_000_000
    max_depth: int = 2_000
    max_string_bytes: int = 64 * 1024


DEFAULT_BOUNDS = Bounds()


def within(count: int, limit: str, allowed: int) -> None:
    """Raise ProfileTooLarge when a count passes the named limit."""
    if count > allowed:
        raise ProfileTooLarge(limit, allowed)


def check(profile: Profile, bounds: Bounds = DEFAULT_BOUNDS) -> None:
    """Refuse a profile that a reader could trip over. Run before a profile is stored or encoded.

    Raises:
        ProfileInvalid: an id that does not resolve, a wrong number of values, a string that is no
            UTF-8, a number or a sum that leaves its range.
        ProfileTooLarge: a bound was passed.
    """
    _check_sizes(profile, bounds)
    _check_ids(profile)
    _check_header(profile)
    _check_samples(profile, bounds)
    for text in set(_texts(profile)):
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise ProfileInvalid("a string is not valid UTF-8") from None
        within(size, "max_string_bytes", bounds.max_string_bytes)


def _check_sizes(profile: Profile, bounds: Bounds) -> None:
    within(len(profile.samples), "max_samples", bounds.max_samples)
    for part in (profile.locations, profile.functions, profile.mappings, profile.comments):
        within(len(part), "max_nodes", bounds.max_nodes)


def _check_ids(profile: Profile) -> None:
    mappings = _ids("mapping", (mapping.id for mapping in profile.mappings))
    functions = _ids("function", (function.id for function in profile.functions))
    _ids("location", (location.id for location in profile.locations))
    for mapping in profile.mappings:
        for address in (mapping.memory_start, mapping.memory_limit, mapping.file_offset):
            _in_range("mapping address", address, _UINT64_MAX)
    for function in profile.functions:
        _in_range("start line", function.start_line, INT64_MAX)
    for location in profile.locations:
        if location.mapping_id and location.mapping_id not in mappings:
            raise ProfileInvalid(
                f"location {location.id} names mapping {location.mapping_id}, which is missing"
            )
        _in_range("address", location.address, _UINT64_MAX)
        for line in location.lines:
            if line.function_id not in functions:
                raise ProfileInvalid(
                    f"location {location.id} names function {line.function_id}, which is missing"
                )
            _in_range("line", line.line, INT64_MAX)
            _in_range("column", line.column, INT64_MAX)


def _check_header(profile: Profile) -> None:
    if not profile.sample_types:
        raise ProfileInvalid("no sample types")
    names = [value_type.type for value_type in profile.sample_types]
    if len(set(names)) != len(names):
        raise ProfileInvalid("two sample types have the same name")
    if profile.default_sample_type and profile.default_sample_type not in names:
        raise ProfileInvalid("the default sample type is none of the sample types")
    _in_range("time", profile.time_ns, INT64_MAX)
    _in_range("duration", profile.duration_ns, INT64_MAX)
    _in_range("period", profile.period, INT64_MAX)


def _check_samples(profile: Profile, bounds: Bounds) -> None:
    known = {location.id for location in profile.locations}
    width = len(profile.sample_types)
    sums = [0] * width
    frames = 0
    for sample in profile.samples:
        if len(sample.values) != width:
            raise ProfileInvalid(
                f"a sample has {len(sample.values)} values for {width} sample types"
            )
        if not known.issuperset(sample.location_ids):
            raise ProfileInvalid("a sample names a location that is missing")
        depth = len(sample.location_ids)
        within(depth, "max_depth", bounds.max_depth)
        frames += depth
        for index, value in enumerate(sample.values):
            if value < 0:
                raise ProfileInvalid("a sample has a negative value")
            sums[index] += value
        for label in sample.labels:
            if not -INT64_MAX - 1 <= label.number <= INT64_MAX:
                raise ProfileInvalid("a label number is out of range")
    within(frames, "max_frames", bounds.max_frames)
    if any(value > INT64_MAX for value in sums):
        raise ProfileInvalid("the sum of a value overflows 64 bits")


def _ids(what: str, ids: Iterable[int]) -> set[int]:
    seen: set[int] = set()
    for id_ in ids:
        if not 1 <= id_ <= _UINT64_MAX:
            raise ProfileInvalid(f"{what} id {id_} is out of range")
        if id_ in seen:
            raise ProfileInvalid(f"two {what}s have the id {id_}")
        seen.add(id_)
    return seen


def _in_range(what: str, value: int, most: int) -> None:
    if not 0 <= value <= most:
        raise ProfileInvalid(f"{what} {value} is out of range")


def _texts(profile: Profile) -> Iterator[str]:
    yield from profile.comments
    yield from (
        profile.default_sample_type,
        profile.drop_frames,
        profile.keep_frames,
        profile.doc_url,
    )
    for value_type in (*profile.sample_types, profile.period_type):
        yield from (value_type.type, value_type.unit)
    for mapping in profile.mappings:
        yield from (mapping.filename, mapping.build_id)
    for function in profile.functions:
        yield from (function.name, function.system_name, function.filename)
    for sample in profile.samples:
        for label in sample.labels:
            yield from (label.key, label.text, label.unit)
