"""Reads a pprof file with the generated schema alone: the product's codec does not judge itself."""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import dataclass

from protos.pprof.v1 import profile_pb2


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one function cost, in the profile's default unit: itself, and with all it called."""

    self_value: int
    total_value: int


@dataclass(frozen=True, kw_only=True)
class Function:
    """One function as the file has it."""

    name: str
    file: str
    start_line: int


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A profile, read.

    Args:
        types: (type, unit) of each value.
        default: which of them is shown without flags.
        total: sum over samples of the default value.
        functions: cost of each function; recursion counts once per sample.
        files: per source file, the default value of all samples with a frame in it.
        lines: per function, the default value that fell on each line of it as a leaf.
        comments: the ``key=value`` comments.
    """

    types: tuple[tuple[str, str], ...]
    default: str
    period: int
    duration_ns: int
    samples: int
    total: int
    functions: dict[Function, Cost]
    files: dict[str, int]
    lines: dict[Function, dict[int, int]]
    comments: dict[str, str]

    def named(self, *names: str) -> Cost:
        """The cost of all functions of these names together (self), and the largest total."""
        found = [cost for function, cost in self.functions.items() if function.name in names]
        return Cost(
            self_value=sum(cost.self_value for cost in found),
            total_value=max((cost.total_value for cost in found), default=0),
        )

    def top(self, count: int) -> list[Function]:
        """The costliest functions by self + total, frames that are no function left out."""

        def weight(function: Function) -> int:
            cost = self.functions[function]
            return cost.self_value + cost.total_value

        real = [function for function in self.functions if not function.name.startswith("(")]
        return sorted(real, key=weight, reverse=True)[:count]


def read(data: bytes) -> Reading:
    """Decode a profile; every id must resolve and every sample must have a value per type."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    raw = profile_pb2.Profile.FromString(data)
    text = raw.string_table
    types = tuple((text[one.type], text[one.unit]) for one in raw.sample_type)
    default = text[raw.default_sample_type] or types[-1][0]
    at = [name for name, _unit in types].index(default)
    functions = {
        one.id: Function(name=text[one.name], file=text[one.filename], start_line=one.start_line)
        for one in raw.function
    }
    locations = {one.id: one for one in raw.location}
    own: dict[Function, int] = defaultdict(int)
    whole: dict[Function, int] = defaultdict(int)
    lines: dict[Function, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    files: dict[str, int] = defaultdict(int)
    total = 0
    for sample in raw.sample:
        assert len(sample.value) == len(types)
        value = sample.value[at]
        total += value
        stack = [line for one in sample.location_id for line in locations[one].line]
        leaf = functions[stack[0].function_id]
        own[leaf] += value
        lines[leaf][stack[0].line] += value
        there = {functions[line.function_id] for line in stack}
        for function in there:
            whole[function] += value
        for file in {function.file for function in there}:
            files[file] += value
    return Reading(
        types=types,
        default=default,
        period=raw.period,
        duration_ns=raw.duration_nanos,
        samples=sum(sample.value[0] for sample in raw.sample),
        total=total,
        functions={one: Cost(self_value=own[one], total_value=whole[one]) for one in whole},
        files=dict(files),
        lines={one: dict(hits) for one, hits in lines.items()},
        comments=dict(text[one].split("=", 1) for one in raw.comment if "=" in text[one]),
    )


def labels(data: bytes) -> dict[str, dict[str, int]]:
    """Sum the default value per text of each label."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    raw = profile_pb2.Profile.FromString(data)
    text = raw.string_table
    default = text[raw.default_sample_type]
    at = [text[one.type] for one in raw.sample_type].index(default)
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for sample in raw.sample:
        for label in sample.label:
            found[text[label.key]][text[label.str]] += sample.value[at]
    return {key: dict(sums) for key, sums in found.items()}
