"""The neutral profile: what a pprof file says, as frozen values; all else is a function over it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueType:
    """What a number counts: ``cpu`` in ``nanoseconds``, ``alloc_space`` in ``bytes``."""

    type: str
    unit: str


CPU_TYPES = (
    ValueType(type="samples", unit="count"),
    ValueType(type="cpu", unit="nanoseconds"),
)
ALLOC_TYPES = (
    ValueType(type="alloc_objects", unit="count"),
    ValueType(type="alloc_space", unit="bytes"),
)
CPU_PERIOD = ValueType(type="cpu", unit="nanoseconds")
SPACE_PERIOD = ValueType(type="space", unit="bytes")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mapping:
    """One script of one version. ``build_id`` is the version; addresses stay 0 for JavaScript."""

    id: int
    filename: str
    build_id: str = ""
    memory_start: int = 0
    memory_limit: int = 0
    file_offset: int = 0
    has_functions: bool = True
    has_filenames: bool = True
    has_line_numbers: bool = True
    has_inline_frames: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Function:
    """One function by where it starts, never by its name alone.

    Args:
        system_name: where the running code has it, ``url:line:column`` (1-based), kept when a
            source map gives the function another file and name; the bare name for code without a
            place.
        start_line: 1-based; 0 when not known.
    """

    id: int
    name: str
    system_name: str
    filename: str
    start_line: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A line of a function. ``line`` and ``column`` are 1-based; 0 when not known."""

    function_id: int
    line: int
    column: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Location:
    """One line of one function, what was inlined into it first. ``mapping_id`` 0: in no script."""

    id: int
    mapping_id: int
    lines: tuple[Line, ...]
    address: int = 0
    is_folded: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Label:
    """Something known about a sample: a text, or a number with its unit."""

    key: str
    text: str = ""
    number: int = 0
    unit: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """One distinct stack, leaf first, with one value per sample type."""

    location_ids: tuple[int, ...]
    values: tuple[int, ...]
    labels: tuple[Label, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """A whole profile.

    Args:
        time_ns: start of the window, since the epoch.
        duration_ns: length of the window, whether or not anything ran.
        period: distance of two samples, in ``period_type``.
        comments: for people and for ``pprof.comments.read``, in order.
        default_sample_type: the type a viewer shows first; empty means the last one.
    """

    sample_types: tuple[ValueType, ...]
    samples: tuple[Sample, ...]
    locations: tuple[Location, ...]
    functions: tuple[Function, ...]
    mappings: tuple[Mapping, ...]
    time_ns: int
    duration_ns: int
    period_type: ValueType
    period: int
    comments: tuple[str, ...] = ()
    default_sample_type: str = ""
    drop_frames: str = ""
    keep_frames: str = ""
    doc_url: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class BuiltProfile:
    """What a builder made of a runtime's capture.

    Args:
        samples: how many samples of the runtime stand behind the values.
        idle_ns: time of the window in which nothing ran, for CPU; never part of a value.
        truncated: which bounds cut something off, comma-separated; empty when none did.
    """

    profile: Profile
    samples: int
    idle_ns: int
    truncated: str


def total(profile: Profile, index: int) -> int:
    """Sum of one value over all samples."""
    return sum(sample.values[index] for sample in profile.samples)
