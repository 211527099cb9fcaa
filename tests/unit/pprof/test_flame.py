from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pprof.build_cpu import profile as build
from pprof.build_heap import profile as build_heap
from pprof.check import ProfileInvalid
from pprof.flame import Cut, document, flame
from pprof.frames import KINDS, Frame, Kind
from pprof.model import CPU_PERIOD, CPU_TYPES, Profile, Sample, total
from tests.unit.pprof.made import CONTEXT, MAIN, called, golden
from tests.unit.pprof.profiles import profiles

if TYPE_CHECKING:
    from pprof.flame import Flame


def rows(drawn: Flame) -> list[tuple[int, str, int, int]]:
    names = [one.name for one in drawn.frames]
    return [
        (level, names[at], value, count)
        for level, at, value, count in zip(
            drawn.levels, drawn.at, drawn.selfs, drawn.samples, strict=True
        )
    ]


def test_preorder_heavy_first_lines_laid_together_recursion_kept() -> None:
    assert rows(flame(called())) == [
        (0, "main", 1_000_000, 1),
        (1, "walk", 2_000_000, 2),
        (2, "walk", 2_000_000, 2),
        (1, "pad", 2_000_000, 2),
        (0, "(garbage collector)", 1_000_000, 1),
    ]


def test_the_document_is_columns_with_every_text_once() -> None:
    profile = called()
    told: dict[str, Any] = json.loads(json.dumps(document(profile, flame(profile))))
    assert {key: told[key] for key in ("v", "type", "unit", "samples_type", "total")} == {
        "v": 1,
        "type": "cpu",
        "unit": "nanoseconds",
        "samples_type": "samples",
        "total": 8_000_000,
    }
    assert (told["total_samples"], told["period"], told["duration_ns"]) == (8, 1_000_000, 9_000_000)
    assert told["about"]["metal"] == ["ams1-m1"]
    assert told["cut"] is None
    texts, functions = told["strings"], told["functions"]
    assert len(set(texts)) == len(texts)
    walk = [texts[at] for at in functions["name"]].index("walk")
    assert texts[functions["file"][walk]] == MAIN
    assert functions["line"][walk] == 10
    assert texts[functions["generated"][walk]] == "main.js:10:1"
    kinds = [told["kinds"][kind] for kind in functions["kind"]]
    assert kinds == ["own", "own", "library", "gc"]
    assert {len(column) for column in told["nodes"].values()} == {5}


def test_heap_shows_bytes_and_counts_objects() -> None:
    built = build_heap(golden("heap_objects"), CONTEXT, 0, 1, 524_288, None).profile
    drawn = flame(built)
    assert (drawn.measure.type, drawn.measure.unit) == ("alloc_space", "bytes")
    assert drawn.total == total(built, 1)
    assert drawn.total_samples == total(built, 0)
    assert document(built, drawn)["samples_type"] == "alloc_objects"
    by_objects = flame(built, "alloc_objects")
    assert by_objects.total == by_objects.total_samples == total(built, 0)
    with pytest.raises(ProfileInvalid, match="no wall, only alloc_objects, alloc_space"):
        flame(built, "wall")


def test_what_does_not_fit_is_folded_below_its_caller_and_said() -> None:
    drawn = flame(called(), max_nodes=4)
    assert rows(drawn) == [
        (0, "main", 1_000_000, 1),
        (1, "(cut)", 6_000_000, 6),
        (0, "(cut)", 1_000_000, 1),
    ]
    assert drawn.cut == Cut(nodes=4, value=7_000_000, samples=7, max_nodes=4)
    assert drawn.total == 8_000_000
    told: dict[str, Any] = document(called(), drawn)
    assert told["cut"] == {"nodes": 4, "value": 7_000_000, "samples": 7, "max_nodes": 4}
    assert [KINDS[kind] for kind in told["functions"]["kind"]] == ["own", "mark"]


def test_an_empty_profile_is_an_empty_flame() -> None:
    drawn = flame(build([golden("cpu_none")], CONTEXT, 0, 1, 1000).profile)
    assert (drawn.total, rows(drawn), drawn.cut) == (0, [], None)


def test_what_has_no_frame_still_counts() -> None:
    bare = Profile(
        sample_types=CPU_TYPES,
        samples=(Sample(location_ids=(), values=(1, 5)),),
        locations=(),
        functions=(),
        mappings=(),
        time_ns=0,
        duration_ns=0,
        period_type=CPU_PERIOD,
        period=0,
    )
    assert rows(flame(bare)) == [(0, "(no stack)", 5, 1)]


@pytest.mark.parametrize(
    ("name", "file", "kind"),
    [
        ("run", "src/a.js", Kind.OWN),
        ("run", "file:///srv/node_modules/x/y.js", Kind.LIBRARY),
        ("run", "../node_modules/.pnpm/x/y.js", Kind.LIBRARY),
        ("run", "my_node_modules.js", Kind.OWN),
        ("from", "node:buffer", Kind.RUNTIME),
        ("fetch", "cloudflare-internal:http", Kind.RUNTIME),
        ("node", "node.js", Kind.OWN),
        ("digest", "", Kind.NATIVE),
        ("(program)", "", Kind.PROGRAM),
        ("(garbage collector)", "", Kind.GC),
        ("(idle)", "", Kind.IDLE),
        ("(truncated)", "", Kind.MARK),
        ("(idle)", "src/odd.js", Kind.OWN),
    ],
)
def test_kinds_of_frames(name: str, file: str, kind: Kind) -> None:
    assert Frame(name, file, 1, "").kind is kind
    assert KINDS[kind] == kind.name.lower()


@given(profiles(), st.integers(1, 12))
def test_nothing_is_lost_whatever_is_cut(profile: Profile, max_nodes: int) -> None:
    whole, drawn = flame(profile, "cpu"), flame(profile, "cpu", max_nodes)
    assert sum(drawn.selfs) == drawn.total == whole.total == total(profile, 1)
    assert sum(drawn.samples) == drawn.total_samples == total(profile, 0)
    assert len(drawn.levels) <= max_nodes
    assert (drawn.cut is None) == (len(whole.levels) <= max_nodes)
    before = -1
    for level in drawn.levels:
        assert 0 <= level <= before + 1
        before = level
    if drawn.cut is not None:
        marks = [row for row in rows(drawn) if row[1] == "(cut)"]
        assert sum(row[2] for row in marks) == drawn.cut.value


@given(profiles())
def test_the_order_of_samples_does_not_matter(profile: Profile) -> None:
    turned = replace(profile, samples=profile.samples[::-1])
    assert flame(turned, "cpu") == flame(profile, "cpu")
