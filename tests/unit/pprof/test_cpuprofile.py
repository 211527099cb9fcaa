""".cpuprofile in and out: case 19 of the field, and sums that survive both ways."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pprof.build_cpu import profile as build
from pprof.check import Bounds, ProfileInvalid, ProfileTooLarge
from pprof.comments import read as said
from pprof.cpuprofile import read, written
from pprof.model import total
from tests.unit.pprof.made import CONTEXT, called, cpu, frame, golden, node, stacks

if TYPE_CHECKING:
    from pprof.model import Profile

NODES = (
    node(1, frame("(root)"), [2, 3, 4]),
    node(2, frame("f", 0, 0, "a.js"), [], [(3, 1)]),
    node(3, frame("g", 9, 0, "a.js"), [], [(12, 1)]),
    node(4, frame("(idle)")),
)


def test_a_first_delta_of_seconds_is_not_billed() -> None:
    profile = read(cpu(NODES, [2, 2, 3, 3], [7_000_000, 1000, 1000, 1000], rest_us=500))
    assert stacks(profile) == {("f:3",): (1, 1_000_000), ("g:12",): (2, 2_000_000)}
    assert profile.duration_ns == 7_003_500_000
    assert profile.period == 1_000_000


def test_deltas_that_run_backwards_are_put_in_order() -> None:
    # At 0, 1000, 3000, 2000 and 4000 us: g stands before the second f.
    profile = read(cpu(NODES, [2, 2, 2, 3, 3], [0, 1000, 2000, -1000, 2000]))
    assert stacks(profile) == {("f:3",): (2, 2_000_000), ("g:12",): (2, 2_000_000)}
    assert all(value >= 0 for sample in profile.samples for value in sample.values)


def test_a_pause_is_idle_time() -> None:
    profile = read(cpu(NODES, [2, 2, 2, 4, 2, 2], [0, 1000, 1000, 1000, 900_000, 1000]))
    assert total(profile, 1) == 4_000_000
    assert int(said(profile.comments)["idle_ns"][0]) == 900_000_000
    assert "metal" not in said(profile.comments)


def test_the_interval_is_found_in_the_deltas() -> None:
    assert read(cpu(NODES, [2] * 9, [0] + [10_000] * 8)).period == 10_000_000
    assert read(cpu(NODES, [2], [5])).period == 1_000_000


@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=20),
    st.integers(-(2**62), 2**62),
)
def test_no_delta_makes_a_negative_total(deltas: list[int], end: int) -> None:
    told = json.loads(cpu(NODES, [2 + at % 3 for at in range(len(deltas))], [0] * len(deltas)))
    told |= {"timeDeltas": deltas, "endTime": end}
    profile = read(json.dumps(told).encode())
    assert total(profile, 1) >= 0
    assert all(value >= 0 for sample in profile.samples for value in sample.values)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "not readable JSON"),
        (b"{", "not readable JSON"),
        (b"[]", "holds no profile"),
        (b"{}", "needs nodes, samples and timeDeltas"),
        (b'{"head": {}, "timestamps": []}', "needs nodes, samples and timeDeltas"),
        (b'{"nodes": [], "samples": [1], "timeDeltas": [0]}', "names a node that is missing"),
        (b'{"nodes": [], "samples": [], "timeDeltas": [0]}', "one time delta per sample"),
        (b"\x1f\x8b\x00", "not readable JSON"),
        (b"[" * 100_000, "not readable JSON: RecursionError"),
    ],
)
def test_what_is_no_cpuprofile_is_told(data: bytes, told: str) -> None:
    with pytest.raises(ProfileInvalid, match=told):
        read(data)


def test_bounds_are_named() -> None:
    with pytest.raises(ProfileTooLarge, match="max_bytes = 10"):
        read(cpu(NODES, [2], [0]), Bounds(max_bytes=10))
    with pytest.raises(ProfileTooLarge, match="max_nodes = 2"):
        read(cpu(NODES, [2], [0]), Bounds(max_nodes=2))


def after(told: dict[str, Any]) -> dict[int, int]:
    """Microseconds per node as DevTools and speedscope bill: from a sample to the next."""
    sums: dict[int, int] = {}
    for id_, delta in zip(told["samples"], told["timeDeltas"][1:], strict=False):
        sums[id_] = sums.get(id_, 0) + delta
    return {id_: us for id_, us in sums.items() if us}


def before(told: dict[str, Any]) -> dict[int, int]:
    """Microseconds per node as V8 means them: from the sample before."""
    sums: dict[int, int] = {}
    for id_, delta in zip(told["samples"], told["timeDeltas"], strict=True):
        sums[id_] = sums.get(id_, 0) + delta
    return {id_: us for id_, us in sums.items() if us}


def test_what_is_written_is_the_same_to_readers_of_either_kind() -> None:
    told = written(called())
    names = {one["id"]: one["callFrame"]["functionName"] for one in told["nodes"]}
    assert after(told) == before(told)
    by_name: dict[str, int] = {}
    for id_, us in after(told).items():
        by_name[names[id_]] = by_name.get(names[id_], 0) + us
    assert by_name == {"main": 1000, "walk": 4000, "pad": 2000, "(garbage collector)": 1000}
    assert sum(one["hitCount"] for one in told["nodes"]) == 8
    assert told["endTime"] - told["startTime"] == 9000
    assert len(told["samples"]) == len(told["timeDeltas"])
    walk = next(one for one in told["nodes"] if one["callFrame"]["functionName"] == "walk")
    assert walk["callFrame"] | {"scriptId": "1"} == {
        "functionName": "walk",
        "scriptId": "1",
        "url": "main.js",
        "lineNumber": 9,
        "columnNumber": 0,
    }
    assert walk["positionTicks"] == [{"line": 12, "ticks": 1}, {"line": 14, "ticks": 1}]


@pytest.mark.parametrize("name", ["cpu_runs", "cpu_callbacks", "cpu_quiet", "cpu_none"])
def test_real_captures_keep_their_time_both_ways(name: str) -> None:
    profile = build([golden(name)], CONTEXT, 0, 10**9, 1000).profile
    again = read(json.dumps(written(profile)).encode())
    assert by_function(again) == pytest.approx(
        by_function(profile), abs=len(profile.samples) * 1000
    )


def by_function(profile: Profile) -> dict[str, int]:
    names = {one.id: one.name for one in profile.functions}
    places = {one.id: names[one.lines[0].function_id] for one in profile.locations}
    sums: dict[str, int] = {}
    for sample in profile.samples:
        name = places[sample.location_ids[0]]
        sums[name] = sums.get(name, 0) + sample.values[1]
    return {name: value for name, value in sums.items() if value}
