from __future__ import annotations

from hypothesis import given

from pprof.frames import Frame
from pprof.lines import listings
from pprof.model import Profile, total
from pprof.peek import peek
from tests.unit.pprof.made import called
from tests.unit.pprof.profiles import profiles

SOURCE = tuple(f"line {number}" for number in range(1, 14))


def test_callers_and_callees_of_a_recursive_function() -> None:
    found = peek(called(), lambda frame: frame.name == "walk")
    assert found.total == 8_000_000
    (walk,) = found.functions
    assert (walk.self_value, walk.total_value) == (4_000_000, 4_000_000)
    assert [(one.frame and one.frame.name, one.value) for one in walk.callers] == [
        ("main", 4_000_000),
        ("walk", 2_000_000),
    ]
    assert [(one.frame and one.frame.name, one.value) for one in walk.callees] == [
        ("walk", 2_000_000)
    ]


def test_the_root_has_no_caller_and_many_callees() -> None:
    (main,) = peek(called(), lambda frame: frame.name == "main").functions
    assert [(one.frame, one.value) for one in main.callers] == [(None, 7_000_000)]
    assert [(one.frame and one.frame.name, one.value) for one in main.callees] == [
        ("walk", 4_000_000),
        ("pad", 2_000_000),
    ]
    assert peek(called(), lambda frame: frame.name == "nobody").functions == ()


@given(profiles())
def test_self_values_add_up(profile: Profile) -> None:
    found = peek(profile, lambda _: True, "cpu")
    assert sum(one.self_value for one in found.functions) == found.total == total(profile, 1)
    for one in found.functions:
        assert one.self_value <= one.total_value <= found.total
        assert sum(caller.value for caller in one.callers) >= one.total_value


def test_lines_with_their_text_and_the_lines_around() -> None:
    files = {"main.js": SOURCE}
    found = listings(called(), lambda frame: frame.name == "walk", files.get)
    (walk,) = found.functions
    assert (walk.frame, walk.self_value) == (
        Frame("walk", "main.js", 10, "main.js:10:1"),
        4_000_000,
    )
    assert [(one.line, one.self_value, one.total_value, one.text) for one in walk.lines] == [
        (7, 0, 0, "line 7"),
        (8, 0, 0, "line 8"),
        (9, 0, 0, "line 9"),
        # The outer of two recursive calls: only where the function starts is known of a caller.
        (10, 0, 2_000_000, "line 10"),
        (11, 0, 0, "line 11"),
        (12, 3_000_000, 3_000_000, "line 12"),
        (13, 0, 0, "line 13"),
        (14, 1_000_000, 1_000_000, None),
    ]


def test_without_source_only_the_lines_that_cost() -> None:
    (walk,) = listings(called(), lambda frame: frame.name == "walk", lambda _: None).functions
    assert [one.line for one in walk.lines] == [10, 12, 14]
    assert {one.text for one in walk.lines} == {None}


@given(profiles())
def test_lines_add_up(profile: Profile) -> None:
    found = listings(profile, lambda _: True, lambda _: ["a"] * 3, "cpu")
    assert sum(one.self_value for one in found.functions) == total(profile, 1)
    for one in found.functions:
        assert sum(line.self_value for line in one.lines) == one.self_value
