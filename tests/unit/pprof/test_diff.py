from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from pprof.build_cpu import profile as build
from pprof.check import ProfileInvalid
from pprof.diff import Normalize, Status, diff
from pprof.diff_forms import flamegraph, table
from pprof.frames import Frame
from pprof.markdown import compared
from pprof.model import ALLOC_TYPES, Profile, total
from pprof.pairing import paired
from tests.unit.pprof.made import CONTEXT, cpu, frame, node
from tests.unit.pprof.profiles import profiles

if TYPE_CHECKING:
    from pprof.diff import Change, Diff


def one(parts: dict[str, int], *, shift: int = 10, window_ns: int = 10**9) -> Profile:
    """Main calls each part for as many milliseconds; parts stand 20 lines apart, from ``shift``."""
    nodes = [node(1, frame("(root)"), [2]), node(2, frame("main", 0, 0, "a.js"), [])]
    hits = [2]
    for at, (name, count) in enumerate(parts.items()):
        nodes.append(node(3 + at, frame(name, shift + 20 * at, 0, "a.js"), [], [(20 * at + 2, 1)]))
        nodes[1]["children"].append(3 + at)
        hits += [3 + at] * count
    data = cpu(nodes, hits, [0] + [1000] * (len(hits) - 1))
    return build([data], CONTEXT, 0, window_ns, 1000).profile


def row(found: Diff, name: str) -> Change:
    return next(one for one in found.rows if one.name == name)


def test_new_gone_changed_and_same_by_share() -> None:
    # 800 ms before, 400 ms after: 400 of kept are 50 %, as are 200; grown goes from 25 to 40 %.
    before = one({"kept": 400, "grown": 200, "left": 200})
    after = one({"kept": 200, "grown": 160, "came": 40})
    found = diff(before, after)
    assert (found.scale, found.base.total, found.new.total) == (0.5, 800_000_000, 400_000_000)
    assert [(each.name, each.status.value, each.self_change) for each in found.rows] == [
        ("left", "gone", -100_000_000),
        ("grown", "changed", 60_000_000),
        ("came", "new", 40_000_000),
        ("kept", "same", 0),
        ("main", "same", 0),
    ]
    grown = row(found, "grown")
    assert (grown.base_self, grown.self_value) == (200_000_000, 160_000_000)
    assert (row(found, "main").base_total, row(found, "main").total_value) == (
        800_000_000,
        400_000_000,
    )


def test_per_second_of_window_and_as_measured() -> None:
    before, after = one({"f": 100}, window_ns=10**9), one({"f": 150}, window_ns=3 * 10**9)
    by_window = diff(before, after, Normalize.WINDOW)
    assert (by_window.scale, row(by_window, "f").self_change) == (3.0, -150_000_000)
    plain = diff(before, after, Normalize.NONE)
    assert (plain.scale, row(plain, "f").self_change) == (1.0, 50_000_000)
    with pytest.raises(ProfileInvalid, match="how long its window was"):
        diff(before, replace(after, duration_ns=0), Normalize.WINDOW)


def test_noise_is_told_from_change() -> None:
    # 100 and 110 samples differ by chance; 100 and 200 do not.
    small = row(diff(one({"f": 100}), one({"f": 110}), Normalize.NONE), "f")
    large = row(diff(one({"f": 100}), one({"f": 200}), Normalize.NONE), "f")
    assert (small.self_noise, large.self_noise) == (True, False)


def test_nothing_on_one_side_is_all_new_or_all_gone() -> None:
    empty, full = build([b""], CONTEXT, 0, 10**9, 1000).profile, one({"f": 5})
    assert {each.status for each in diff(empty, full).rows} == {Status.NEW}
    assert {each.status for each in diff(full, empty).rows} == {Status.GONE}
    assert diff(empty, empty).rows == ()


def test_code_that_moved_is_the_same_function() -> None:
    found = diff(one({"f": 100, "g": 100}), one({"f": 100, "g": 100}, shift=17))
    assert {each.status for each in found.rows} == {Status.SAME}
    assert (row(found, "g").base_line, row(found, "g").line) == (31, 38)


def test_pairs_are_no_guesses() -> None:
    def at(name: str, line: int, column: int = 1) -> Frame:
        return Frame(name, "a.js", line, f"a.js:{line}:{column}")

    exact, twin, moved = at("f", 1), at("f", 1, 9), at("f", 5)
    assert paired([exact, twin], [twin, exact]) == ((exact, exact), (twin, twin))
    assert paired([exact, twin], [at("f", 1, 3), at("f", 1, 30)]) == (
        (exact, at("f", 1, 3)),
        (twin, at("f", 1, 30)),
    )
    assert paired([exact], [moved]) == ((exact, moved),)
    assert paired([exact], [moved, at("f", 9)]) == (
        (exact, None),
        (None, moved),
        (None, at("f", 9)),
    )
    first, second = at("(anonymous a.js:3:5)", 3, 5), at("(anonymous a.js:4:5)", 4, 5)
    assert paired([first], [second]) == ((first, second),)
    assert paired([first], [replace(second, file="b.js")]) == (
        (first, None),
        (None, replace(second, file="b.js")),
    )


def test_what_counts_other_things_is_refused() -> None:
    heap = replace(one({"f": 1}), sample_types=ALLOC_TYPES, default_sample_type="alloc_space")
    with pytest.raises(ProfileInvalid, match="cpu in nanoseconds, alloc_space in bytes"):
        diff(one({"f": 1}), heap)


def test_the_flame_graph_has_both_sides() -> None:
    before, after = one({"kept": 4, "left": 2}), one({"kept": 2, "came": 1})
    found = diff(before, after)
    told: dict[str, Any] = json.loads(json.dumps(flamegraph(found, before, after, 100)))
    names = [told["strings"][at] for at in told["functions"]["name"]]
    nodes = list(
        zip(
            told["nodes"]["level"],
            [names[at] for at in told["nodes"]["fn"]],
            told["nodes"]["self"],
            told["nodes"]["base_self"],
            told["nodes"]["base_samples"],
            strict=True,
        )
    )
    assert nodes == [
        (0, "main", 0, 0, 0),
        (1, "kept", 2_000_000, 4_000_000, 4),
        (1, "left", 0, 2_000_000, 2),
        (1, "came", 1_000_000, 0, 0),
    ]
    assert dict(zip(names, told["functions"]["status"], strict=True)) == {
        "main": "same",
        "kept": "same",
        "left": "gone",
        "came": "new",
    }
    assert (told["total"], told["base_total"]) == (3_000_000, 6_000_000)
    assert told["diff"] == {"normalize": "total", "scale": 0.5}


def test_markdown_tells_the_changes() -> None:
    told = compared(diff(one({"f": 400, "g": 400}), one({"f": 800})), "before | after")
    assert told.startswith("# before \\| after\n")
    assert "1 gone" in told
    assert "| -400.00ms | 400.00ms | 0ns | -400.00ms | gone | `g` | `a.js:31` |" in told
    same = compared(diff(one({"f": 4}), one({"f": 4})), "same")
    assert "Nothing changed." in same


@given(profiles(), profiles())
def test_sums_are_those_of_the_two(base: Profile, new: Profile) -> None:
    found = diff(base, new, sample_type="cpu", max_nodes=7)
    assert sum(each.self_value for each in found.rows) == found.new.total == total(new, 1)
    assert sum(each.base_self for each in found.rows) == found.base.total == total(base, 1)
    assert sum(found.tree.columns[0]) == total(new, 1)
    assert sum(found.tree.columns[2]) == total(base, 1)
    assert len(found.tree.at) <= 7
    assert table(found)["scale"] == found.scale


@given(profiles())
def test_a_profile_is_the_same_as_itself(profile: Profile) -> None:
    found = diff(profile, profile, sample_type="cpu")
    assert {each.status for each in found.rows} <= {Status.SAME}
