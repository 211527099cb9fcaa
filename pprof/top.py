"""The table people read first: functions by what they cost themselves."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pprof.measure import measure
from pprof.model import total

if TYPE_CHECKING:
    from pprof.model import Function, Location, Profile, Sample

_TIMES = (("s", 10**9), ("ms", 10**6), ("µs", 10**3), ("ns", 1))
_SIZES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))


@dataclass(frozen=True, kw_only=True)
class Row:
    """One function.

    Args:
        line: its costliest line, or where it starts when it cost nothing itself; 0 when not known.
        self_value: cost while it was the leaf.
        total_value: cost of every stack it stands in, each counted once however often it recurs.
        self_percent, total_percent: of the whole profile.
        samples: samples in which it was the leaf, or objects it allocated; 0 when not counted.
    """

    name: str
    file: str
    line: int
    start_line: int
    self_value: int
    total_value: int
    self_percent: float
    total_percent: float
    samples: int

    @property
    def place(self) -> str:
        """``file:line``, what is known of it."""
        return f"{self.file}:{self.line}" if self.file and self.line else self.file


@dataclass(frozen=True, kw_only=True)
class Top:
    """The table. ``total`` is the whole profile's value in ``unit``, rows left out included."""

    sample_type: str
    unit: str
    total: int
    rows: tuple[Row, ...]


def top(profile: Profile, sample_type: str = "", limit: int | None = None) -> Top:
    """Rows sorted by self, then total, then name.

    Args:
        profile: a checked one.
        sample_type: which value to rank by; empty for the profile's default, or its last.
        limit: how many rows to keep; all when None.

    Raises:
        ProfileInvalid: the profile has no such sample type.
    """
    chosen = measure(profile, sample_type)
    sums = _Sums(profile)
    for sample in profile.samples:
        sums.add(sample, chosen.value(sample), chosen.count(sample))
    whole = total(profile, chosen.index)
    rows = sorted(
        (sums.row(function, whole) for function in profile.functions if function.id in sums.totals),
        key=lambda row: (-row.self_value, -row.total_value, row.name, row.file, row.start_line),
    )
    return Top(
        sample_type=chosen.type,
        unit=chosen.unit,
        total=whole,
        rows=tuple(rows[:limit]),
    )


def shown(value: int, unit: str) -> str:
    """A value for people: ``1.23s``, ``4.56MiB``, ``789``."""
    steps = {"nanoseconds": _TIMES, "bytes": _SIZES}.get(unit)
    if steps is None:
        return str(value)
    name, size = next((step for step in steps if abs(value) >= step[1]), steps[-1])
    return f"{value}{name}" if size == 1 else f"{value / size:.2f}{name}"


class _Sums:
    """Adds samples up by function."""

    def __init__(self, profile: Profile) -> None:
        self.totals: Counter[int] = Counter()
        self._own: Counter[int] = Counter()
        self._samples: Counter[int] = Counter()
        self._lines: dict[int, Counter[int]] = {}
        self._locations: dict[int, Location] = {
            location.id: location for location in profile.locations
        }

    def add(self, sample: Sample, value: int, count: int) -> None:
        lines = [line for id_ in sample.location_ids for line in self._locations[id_].lines]
        for function_id in {line.function_id for line in lines}:
            self.totals[function_id] += value
        if lines:
            leaf = lines[0]
            self._own[leaf.function_id] += value
            self._samples[leaf.function_id] += count
            self._lines.setdefault(leaf.function_id, Counter())[leaf.line] += value

    def row(self, function: Function, whole: int) -> Row:
        lines = self._lines.get(function.id)
        own, everything = self._own[function.id], self.totals[function.id]
        return Row(
            name=function.name,
            file=function.filename,
            line=max(lines, key=lambda line: (lines[line], -line))
            if lines
            else function.start_line,
            start_line=function.start_line,
            self_value=own,
            total_value=everything,
            self_percent=100 * own / whole if whole else 0.0,
            total_percent=100 * everything / whole if whole else 0.0,
            samples=self._samples[function.id],
        )
