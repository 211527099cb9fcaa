"""Original files, lines and names; and nothing lost where a map says nothing."""

from __future__ import annotations

import pytest

from pprof import build_cpu, build_heap, check, codec, comments, model
from pprof.sourcemaps import SourceMap
from pprof.symbolize import Symbolized, symbolize
from tests.unit.pprof.made import CONTEXT, cpu, frame, golden, node, stacks
from tests.unit.pprof.written_maps import source_map

URL = "worker.js"


def raw(*frames: dict[str, object], ticks: tuple[tuple[int, int], ...] = ()) -> model.Profile:
    """Each frame is a leaf of its own, hit twice; ``ticks`` are of the first."""
    nodes = [node(1, frame("(root)"), range(2, len(frames) + 2))]
    nodes += [
        node(number, one, ticks=ticks if number == 2 else ())
        for number, one in enumerate(frames, start=2)
    ]
    hits = [number for number in range(2, len(frames) + 2) for _ in range(2)]
    data = cpu(nodes, [2, *hits], [1000] * (len(hits) + 1))
    return build_cpu.profile([data], CONTEXT, 0, 10**9, 1000).profile


def by_system_name(profile: model.Profile) -> dict[str, model.Function]:
    return {function.system_name: function for function in profile.functions}


def told(out: Symbolized) -> dict[str, tuple[str, ...]]:
    return comments.read(out.profile.comments)


def test_function_of_a_bundle_in_one_line_has_its_original_file_line_and_name() -> None:
    # var o=e=>e*2;function t(e){return o(e)}
    text = (
        "export const double = (value: number) => value * 2;\nexport function twice(n: number) {\n"
    )
    bundle = SourceMap(
        source_map(
            [[(0, 0, 0, 7), (4, 0, 0, 13, 0), (6, 0, 0, 23), (13, 0, 1, 7), (22, 0, 1, 16, 1)]],
            names=("double", "twice"),
            contents=(text,),
        )
    )
    profile = raw(frame("o", 0, 6, URL), frame("t", 0, 23, URL), ticks=((1, 2),))
    out = symbolize(profile, {URL: bundle})
    found = by_system_name(out.profile)
    double, twice = found["worker.js:1:7"], found["worker.js:1:24"]
    assert (double.name, double.filename, double.start_line) == ("double", "src/a.ts", 1)
    assert (twice.name, twice.filename, twice.start_line) == ("twice", "src/a.ts", 2)
    assert {stack[0] for stack in stacks(out.profile)} == {"double:1", "twice:2"}
    assert (out.mapped, out.unmapped) == (2, 0)
    check.check(out.profile)


def test_names_come_from_the_map_where_it_carries_no_text() -> None:
    bundle = SourceMap(
        source_map(
            [[(4, 0, 0, 13, 0), (6, 0, 0, 23, 2), (22, 0, 1, 16, 1), (30, 0, 4, 2)]],
            names=("double", "twice", "value"),
        )
    )
    profile = raw(frame("o", 0, 6, URL), frame("t", 0, 23, URL), frame("run", 0, 33, URL))
    names = {
        one.system_name: one.name for one in symbolize(profile, {URL: bundle}).profile.functions
    }
    assert names == {"worker.js:1:7": "double", "worker.js:1:24": "twice", "worker.js:1:34": "run"}


def test_hot_line_is_the_statement_even_of_an_indented_line() -> None:
    # The generated line 3 is indented: V8 says "line 3", which lies before its first token.
    one = SourceMap(source_map([[(0, 0, 0, 0)], [(9, 0, 9, 9)], [(4, 0, 14, 2), (20, 0, 14, 30)]]))
    out = symbolize(raw(frame("run", 1, 12, URL), ticks=((3, 2),)), {URL: one})
    (location,) = out.profile.locations
    assert (location.lines[0].line, location.lines[0].column) == (15, 3)
    assert out.profile.functions[0].start_line == 10


def test_hot_line_that_belongs_to_another_file_falls_back_to_where_the_function_starts() -> None:
    one = SourceMap(source_map([[(0, 0, 4, 0)], [(2, 1, 70, 0)]], sources=("src/a.ts", "src/b.ts")))
    out = symbolize(raw(frame("run", 0, 3, URL), ticks=((2, 2),)), {URL: one})
    (location,) = out.profile.locations
    assert (location.lines[0].line, location.lines[0].column) == (5, 0)


def test_two_methods_of_one_name_stay_two_functions_with_their_hot_lines() -> None:
    built = build_cpu.profile([golden("cpu_runs")], CONTEXT, 0, 10**9, 1000).profile
    # As if every line of hot.js had been ten lines further down, in a file of its own.
    shifted = SourceMap(source_map([[(0, 0, line + 10, 0)] for line in range(63)]))
    out = symbolize(built, {"hot.js": shifted}).profile
    runs = {one.id: one.start_line for one in out.functions if one.name == "run"}
    assert sorted(runs.values()) == [16, 27]
    hits: dict[int, dict[int, int]] = {line: {} for line in runs.values()}
    places = {one.id: one.lines[0] for one in out.locations}
    for sample in out.samples:
        leaf = places[sample.location_ids[0]]
        if leaf.function_id in runs:
            lines = hits[runs[leaf.function_id]]
            lines[leaf.line] = lines.get(leaf.line, 0) + sample.values[0]
    assert max(hits[16], key=hits[16].__getitem__) == 21
    assert max(hits[27], key=hits[27].__getitem__) == 32


def test_anonymous_callbacks_are_told_apart_by_where_they_stand() -> None:
    text = "items\n  .map((n) => n + 1)\n  .filter((n) => n > 1)\n  .sort((a, b) => a - b);\n"
    one = SourceMap(source_map([[(10, 0, 1, 7), (20, 0, 2, 10), (30, 0, 3, 8)]], contents=(text,)))
    profile = raw(*(frame(name, 0, at, URL) for name, at in (("", 10), ("n", 20), ("", 30))))
    names = [function.name for function in symbolize(profile, {URL: one}).profile.functions]
    assert names == [
        "(anonymous src/a.ts:2:8)",
        "(anonymous src/a.ts:3:11)",
        "(anonymous src/a.ts:4:9)",
    ]


def test_accessors_and_what_the_engine_makes_keep_their_names() -> None:
    text = "  get value() {\n"
    one = SourceMap(source_map([[(6, 0, 0, 6)]], contents=(text,)))
    profile = raw(
        frame("get value", 0, 11, URL), frame("<instance_members_initializer>", 0, 6, URL)
    )
    names = {function.name for function in symbolize(profile, {URL: one}).profile.functions}
    assert names == {"get value", "<instance_members_initializer>"}


def test_frames_without_a_map_stay_and_are_counted() -> None:
    one = SourceMap(source_map([[(0, 0, 0, 0)]]))
    profile = raw(
        frame("a", 0, 0, URL),
        frame("b", 0, 0, "other.js"),
        frame("c", 7, 0, URL),
        frame("(program)"),
        frame("crypto"),
    )
    out = symbolize(profile, {URL: one}, ["other.js.map: not a source map\nreally"])
    assert (out.mapped, out.unmapped) == (1, 2)
    assert told(out)["unmapped_frames"] == ("2",)
    assert told(out)["mapped_frames"] == ("1",)
    assert told(out)["map_problem"] == (
        "other.js.map: not a source map\N{REPLACEMENT CHARACTER}really",
    )
    before, after = by_system_name(profile), by_system_name(out.profile)
    assert {name for name in before if before[name] != after[name]} == {"worker.js:1:1"}
    assert out.profile.samples == profile.samples
    assert out.profile.mappings == profile.mappings


def test_symbolizing_twice_changes_no_place() -> None:
    one = SourceMap(source_map([[(0, 0, 0, 0)]], sources=("src/worker.js",)))
    once = symbolize(raw(frame("a", 0, 0, URL)), {URL: one}).profile
    twice = symbolize(once, {URL: one, "src/worker.js": one}).profile
    assert twice.functions == once.functions
    assert twice.locations == once.locations


@pytest.mark.parametrize("url", ["file:///bundle/worker.js", "https://host/x/worker.js?v=1", URL])
def test_script_is_found_by_the_file_name_of_its_path(url: str) -> None:
    one = SourceMap(source_map([[(0, 0, 0, 0)]]))
    assert symbolize(raw(frame("a", 0, 0, url)), {"dist/worker.js": one}).mapped == 1


def test_file_name_that_fits_two_maps_fits_none() -> None:
    maps = {f"{folder}/worker.js": SourceMap(source_map([[(0, 0, 0, 0)]])) for folder in ("a", "b")}
    assert symbolize(raw(frame("a", 0, 0, "file:///c/worker.js")), maps).mapped == 0


def test_heap_profiles_are_symbolized_alike() -> None:
    built = build_heap.profile(golden("heap_objects"), CONTEXT, 0, 10**9, 524288, None).profile
    shifted = SourceMap(source_map([[(0, 0, line + 10, 0)] for line in range(63)]))
    out = symbolize(built, {"hot.js": shifted}).profile
    before = {one.name: one.start_line for one in built.functions if one.filename == "hot.js"}
    after = {one.name: one.start_line for one in out.functions if one.filename == "src/a.ts"}
    assert {"pairs", "texts"} <= before.keys()
    assert after == {name: line + 10 for name, line in before.items()}
    assert codec.decode(codec.encode(out)) == out
