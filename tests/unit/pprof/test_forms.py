"""Folded stacks, speedscope, Markdown: the same profile said for other readers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given

from pprof.build_cpu import profile as build
from pprof.build_heap import profile as build_heap
from pprof.check import ProfileInvalid
from pprof.folded import folded
from pprof.formats import DIFF_FORMATS, FORMATS, Options, compare, render
from pprof.markdown import code, markdown
from pprof.model import Function, Profile, total
from pprof.speedscope import speedscope
from tests.unit.pprof.made import CONTEXT, called, cpu, frame, golden, node
from tests.unit.pprof.profiles import profiles


def renamed(name: str) -> Profile:
    profile = called()
    changed = tuple(
        replace(one, name=name) if one.name == "walk" else one for one in profile.functions
    )
    return replace(profile, functions=changed)


def heap() -> Profile:
    return build_heap(golden("heap_objects"), CONTEXT, 0, 1, 524_288, None).profile


def test_folded_lines() -> None:
    assert folded(called(), "samples").splitlines() == [
        "(garbage collector) 1",
        "main (main.js:1) 1",
        "main (main.js:1);pad (node_modules/pad/index.js:2) 2",
        "main (main.js:1);walk (main.js:10) 2",
        "main (main.js:1);walk (main.js:10);walk (main.js:10) 2",
    ]


def test_a_name_can_not_break_a_folded_line() -> None:
    lines = folded(renamed("a;b\nc"), "samples").splitlines()
    assert "main (main.js:1);a:b\N{REPLACEMENT CHARACTER}c (main.js:10) 2" in lines
    assert len(lines) == 5


@given(profiles())
def test_folded_values_add_up(profile: Profile) -> None:
    lines = [line for line in folded(profile, "cpu").split("\n") if line]
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == total(profile, 1)


def test_speedscope_has_every_sample_type_and_frame() -> None:
    told: dict[str, Any] = speedscope(called(), "replacer")
    names = [(one["name"], one["unit"], one["endValue"]) for one in told["profiles"]]
    assert names == [
        ("replacer: samples", "none", 8),
        ("replacer: cpu", "nanoseconds", 8_000_000),
    ]
    assert told["activeProfileIndex"] == 1
    frames = told["shared"]["frames"]
    assert {"name": "walk", "file": "main.js", "line": 10} in frames
    assert {"name": "(garbage collector)"} in frames
    cpu_part = told["profiles"][1]
    paths = {
        tuple(frames[at]["name"] for at in stack): weight
        for stack, weight in zip(cpu_part["samples"], cpu_part["weights"], strict=True)
    }
    assert paths["main", "walk", "walk"] == 2_000_000


@given(profiles())
def test_speedscope_weights_add_up(profile: Profile) -> None:
    told: Any = speedscope(profile, "any")
    for index, one in enumerate(told["profiles"]):
        assert sum(one["weights"]) == one["endValue"] == total(profile, index)
        assert len(one["weights"]) == len(one["samples"])


def test_markdown_says_what_where_and_how_sure() -> None:
    told = markdown(called(), "replacer")
    assert told.startswith("# replacer\n")
    assert "- total: 8.00ms\n- busy: 88.9 % of the window\n- window: 9.00ms" in told
    assert "| 4.00ms | 50.0 | 4.00ms | 50.0 | 4 | `walk` | `main.js:12` |" in told
    assert "  - `walk` `main.js:10`\n    - `walk` `main.js:10`" in told
    assert "8 samples: times are right to about 71 %. That is inconclusive" in told
    assert "(garbage collector): 12.5 % of the profile." in told
    assert "idle time is in no number above" in told


def test_markdown_of_a_heap_names_what_is_not_covered() -> None:
    told = markdown(heap(), "heap")
    assert "- measured: alloc\\_space" in told or "- measured: alloc_space" in told
    assert "Not covered: array buffer contents." in told
    assert "busy" not in told


def test_markdown_of_nothing_says_so() -> None:
    told = markdown(build([golden("cpu_none")], CONTEXT, 0, 1, 1000).profile, "none")
    assert "Nothing was sampled." in told
    assert "Note: nothing was sampled in the window." in told


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("plain", "`plain`"),
        ("", "-"),
        ("a|b", "`a\N{BROKEN BAR}b`"),
        ("a\nb", "`a\N{REPLACEMENT CHARACTER}b`"),
        ("`<img>`", "`` `<img>` ``"),
        ("```", "```` ``` ````"),
    ],
)
def test_no_name_is_markup(name: str, shown: str) -> None:
    assert code(name) == shown


def test_deep_stacks_leave_out_their_middle() -> None:
    nodes = [node(1, frame("(root)"), [2])] + [
        node(id_, frame(f"f{id_}", id_, 0, "deep.js"), [id_ + 1] if id_ < 31 else [])
        for id_ in range(2, 32)
    ]
    deep = build([cpu(nodes, [31, 31], [0, 1000])], CONTEXT, 0, 1, 1000).profile
    told = markdown(deep, "deep")
    assert "(18 more frames)" in told
    assert "`f2`" in told
    assert "`f31`" in told


def test_a_profile_of_bytes_is_no_cpuprofile() -> None:
    with pytest.raises(ProfileInvalid, match=r"holds CPU time, this profile only alloc_objects"):
        render(heap(), "cpuprofile", Options())


@pytest.mark.parametrize("name", FORMATS)
@given(profile=profiles())
def test_every_form_takes_any_profile(name: str, profile: Profile) -> None:
    data = render(profile, name, Options(title="any | `title`"))
    assert data.decode() is not None
    if FORMATS[name].content_type == "application/json":
        json.loads(data)


@pytest.mark.parametrize("name", DIFF_FORMATS)
@given(base=profiles(), new=profiles())
def test_every_comparison_takes_any_profiles(name: str, base: Profile, new: Profile) -> None:
    data = compare(base, new, name, Options(sample_type="cpu"))
    if DIFF_FORMATS[name].content_type == "application/json":
        json.loads(data)


def test_functions_keep_their_place_under_one_name() -> None:
    profile = called()
    twin = Function(id=99, name="walk", system_name="b", filename="other.js", start_line=3)
    assert "walk (other.js:3)" not in folded(replace(profile, functions=(*profile.functions, twin)))
