from __future__ import annotations

import pytest
from hypothesis import given

from pprof.build_cpu import profile as build
from pprof.build_heap import profile as build_heap
from pprof.check import ProfileInvalid
from pprof.model import Profile, total
from pprof.top import shown, top
from tests.unit.pprof.made import CONTEXT, cpu, frame, golden, node
from tests.unit.pprof.profiles import profiles

MAIN = "main.js"


def recursive() -> Profile:
    """Main calls walk, which calls itself twice; walk is hot on lines 12 (3 ms) and 14 (1 ms)."""
    walk = frame("walk", 9, 0, MAIN)
    nodes = [
        node(1, frame("(root)"), [2]),
        node(2, frame("main", 0, 0, MAIN), [3], [(5, 1)]),
        node(3, walk, [4]),
        node(4, walk, [5]),
        node(5, walk, [], [(12, 3), (14, 1)]),
    ]
    return build([cpu(nodes, [2, 5, 5, 5, 5, 2], [0] + [1000] * 5)], CONTEXT, 0, 1, 1000).profile


def test_rows_by_self_with_recursion_counted_once() -> None:
    table = top(recursive())
    assert (table.sample_type, table.unit, table.total) == ("cpu", "nanoseconds", 5_000_000)
    walk, main = table.rows
    assert (walk.name, walk.place, walk.start_line) == ("walk", "main.js:12", 10)
    assert (walk.self_value, walk.total_value, walk.samples) == (4_000_000, 4_000_000, 4)
    assert (walk.self_percent, walk.total_percent) == (80.0, 80.0)
    assert (main.name, main.line) == ("main", 5)
    assert (main.self_value, main.total_value, main.samples) == (1_000_000, 5_000_000, 1)
    assert (main.self_percent, main.total_percent) == (20.0, 100.0)


def test_another_sample_type_and_a_limit() -> None:
    table = top(recursive(), "samples", limit=1)
    assert (table.unit, table.total, [row.self_value for row in table.rows]) == ("count", 5, [4])
    with pytest.raises(ProfileInvalid, match="wall"):
        top(recursive(), "wall")


def test_a_function_that_cost_nothing_itself_stands_where_it_starts() -> None:
    rows = {row.name: row for row in top(build_heap_profile()).rows}
    assert (rows["fetch"].self_value, rows["fetch"].place) == (0, "hot.js:35")
    assert rows["texts"].place == "hot.js:59"
    assert rows["texts"].samples > 10_000


def build_heap_profile() -> Profile:
    return build_heap(golden("heap_objects"), CONTEXT, 0, 1, 524_288, None).profile


def test_an_empty_profile_is_an_empty_table() -> None:
    table = top(build([golden("cpu_none")], CONTEXT, 0, 1, 1000).profile)
    assert (table.total, table.rows) == (0, ())


@given(profiles())
def test_self_values_add_up_to_the_whole(profile: Profile) -> None:
    table = top(profile, "cpu")
    assert sum(row.self_value for row in table.rows) == table.total == total(profile, 1)
    assert all(row.self_value <= row.total_value <= table.total for row in table.rows)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "nanoseconds", "0ns"),
        (999, "nanoseconds", "999ns"),
        (1_500, "nanoseconds", "1.50µs"),
        (2_180_000, "nanoseconds", "2.18ms"),
        (7_850_000_000, "nanoseconds", "7.85s"),
        (1_023, "bytes", "1023B"),
        (524_288, "bytes", "512.00KiB"),
        (49_953_512, "bytes", "47.64MiB"),
        (2**31, "bytes", "2.00GiB"),
        (128_642, "count", "128642"),
    ],
)
def test_values_for_people(value: int, unit: str, text: str) -> None:
    assert shown(value, unit) == text
