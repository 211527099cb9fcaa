from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pprof import build_cpu
from pprof.check import Bounds, ProfileInvalid, ProfileTooLarge, check
from pprof.comments import read
from pprof.model import BuiltProfile, total
from tests.unit.pprof.made import CONTEXT, cpu, frame, golden, node, stacks

ROOT = frame("(root)")
MAIN = "main.js"


def built(*slices: bytes, interval_us: int = 1000, bounds: Bounds | None = None) -> BuiltProfile:
    found = build_cpu.profile(
        slices, CONTEXT, 1_700_000_000_000_000_000, 5_000_000_000, interval_us, bounds or Bounds()
    )
    check(found.profile)
    return found


def test_the_header_says_what_was_measured_and_shows_cpu_first() -> None:
    profile = built(cpu([node(1, ROOT)], [], [])).profile
    assert [(t.type, t.unit) for t in profile.sample_types] == [
        ("samples", "count"),
        ("cpu", "nanoseconds"),
    ]
    assert profile.default_sample_type == "cpu"
    assert (profile.period_type.type, profile.period_type.unit) == ("cpu", "nanoseconds")
    assert profile.period == 1_000_000
    assert profile.time_ns == 1_700_000_000_000_000_000
    assert profile.duration_ns == 5_000_000_000


def test_stacks_are_leaf_first_with_hot_line_and_callers_start() -> None:
    nodes = [
        node(1, ROOT, [2]),
        node(2, frame("outer", 4, 2, MAIN), [3]),
        node(3, frame("inner", 9, 0, MAIN), [], [(12, 2), (14, 1)]),
    ]
    found = built(cpu(nodes, [2, 3, 3, 3], [50, 1000, 1000, 1000]))
    assert stacks(found.profile) == {
        ("inner:12", "outer:5"): (2, 2_000_000),
        ("inner:14", "outer:5"): (1, 1_000_000),
    }
    inner = next(f for f in found.profile.functions if f.name == "inner")
    assert (inner.filename, inner.start_line, inner.system_name) == (MAIN, 10, "main.js:10:1")
    mapping = found.profile.mappings[0]
    assert (mapping.filename, mapping.build_id) == (MAIN, "v-1")


def test_native_code_puts_its_line_on_the_javascript_that_called_it() -> None:
    nodes = [
        node(1, ROOT, [2]),
        node(2, frame("fetch", 4, 2, MAIN), [3]),
        node(3, frame("digest"), [], [(7, 1), (8, 1)]),
    ]
    found = built(cpu(nodes, [3, 3, 3], [0, 1000, 1000]))
    assert stacks(found.profile) == {
        ("digest:0", "fetch:7"): (1, 1_000_000),
        ("digest:0", "fetch:8"): (1, 1_000_000),
    }


def test_idle_and_root_are_no_samples_but_program_and_gc_are() -> None:
    nodes = [
        node(1, ROOT, [2, 3, 4]),
        node(2, frame("(idle)")),
        node(3, frame("(program)")),
        node(4, frame("(garbage collector)")),
    ]
    found = built(cpu(nodes, [2, 2, 1, 3, 4], [10, 1000, 1000, 1000, 1000], rest_us=500))
    assert stacks(found.profile) == {
        ("(program):0",): (1, 1_000_000),
        ("(garbage collector):0",): (1, 1_000_000),
    }
    assert found.samples == 2
    assert found.idle_ns == 2_500_000


def test_what_a_gap_swallowed_is_idle_time() -> None:
    nodes = [node(1, ROOT, [2]), node(2, frame("f", 0, 0, MAIN))]
    found = built(cpu(nodes, [2, 2, 2], [9_000_000, 1000, 901_000]))
    assert total(found.profile, 1) == 2_000_000
    assert found.idle_ns == 900_000_000
    assert read(found.profile.comments)["idle_ns"] == ("900000000",)


def test_a_function_called_idle_by_its_author_is_code() -> None:
    nodes = [node(1, ROOT, [2]), node(2, frame("(idle)", 3, 0, MAIN), [], [(4, 1)])]
    assert stacks(built(cpu(nodes, [2, 2], [0, 1000])).profile) == {("(idle):4",): (1, 1_000_000)}


def test_slices_merge_by_stack_whatever_their_node_ids() -> None:
    def slice_(a: int, b: int) -> bytes:
        nodes = [
            node(1, ROOT, [a]),
            node(a, frame("f", 0, 0, MAIN), [b]),
            node(b, frame("g", 5, 0, MAIN), [], [(7, 1)]),
        ]
        return cpu(nodes, [b, b], [0, 1000])

    found = built(slice_(2, 3), b"", slice_(9, 4))
    assert stacks(found.profile) == {("g:7", "f:1"): (2, 2_000_000)}
    assert read(found.profile.comments)["slices"] == ("3",)


def test_a_protocol_reply_is_read_like_the_profile_in_it() -> None:
    bare = cpu([node(1, ROOT, [2]), node(2, frame("f", 0, 0, MAIN))], [2, 2], [0, 1000])
    reply = json.dumps(
        {"id": 3, "method": "Profiler.stop", "result": {"profile": json.loads(bare)}}
    ).encode()
    assert built(reply) == built(bare)


def test_case_7_one_name_twice_is_two_functions_with_their_hot_lines() -> None:
    profile = built(golden("cpu_runs")).profile
    runs = {f.start_line: f for f in profile.functions if f.name == "run"}
    assert sorted(runs) == [6, 17]
    lines = {location.id: location.lines[0] for location in profile.locations}
    hot: dict[int, tuple[int, int]] = {}
    for sample in profile.samples:
        leaf = lines[sample.location_ids[0]]
        hot[leaf.function_id] = max(
            hot.get(leaf.function_id, (0, 0)), (sample.values[1], leaf.line)
        )
    assert hot[runs[6].id][1] == 11
    assert hot[runs[17].id][1] == 22


def test_case_8_functions_of_a_one_line_bundle_stay_apart_and_have_a_line() -> None:
    nodes = [
        node(1, ROOT, [2, 3]),
        node(2, frame("a", 0, 120, "bundle.js"), [], [(1, 1)]),
        node(3, frame("a", 0, 340, "bundle.js"), [], [(1, 1)]),
    ]
    profile = built(cpu(nodes, [2, 2, 3], [0, 1000, 1000])).profile
    assert [(f.name, f.start_line, f.system_name) for f in profile.functions] == [
        ("a", 1, "bundle.js:1:121"),
        ("a", 1, "bundle.js:1:341"),
    ]
    assert {(place.lines[0].line, place.lines[0].column) for place in profile.locations} == {
        (1, 121),
        (1, 341),
    }


def test_case_9_a_hot_line_keeps_the_statement_s_line_without_a_made_up_column() -> None:
    nodes = [node(1, ROOT, [2]), node(2, frame("f", 0, 4, MAIN), [], [(3, 1)])]
    place = built(cpu(nodes, [2, 2], [0, 1000])).profile.locations[0]
    assert (place.lines[0].line, place.lines[0].column) == (3, 0)


def test_case_10_anonymous_callbacks_can_each_be_located() -> None:
    nodes = [
        node(1, ROOT, [2, 3, 4]),
        *(node(i, frame("", 8 + i, 2, MAIN), [], [(9 + i, 1)]) for i in (2, 3, 4)),
    ]
    profile = built(cpu(nodes, [2, 2, 3, 4], [0, 1000, 1000, 1000])).profile
    assert [f.name for f in profile.functions] == [
        "(anonymous main.js:11:3)",
        "(anonymous main.js:12:3)",
        "(anonymous main.js:13:3)",
    ]


def test_case_10_on_workerd_three_callbacks_are_three_functions() -> None:
    profile = built(golden("cpu_callbacks")).profile
    starts = {f.system_name for f in profile.functions if f.start_line in (28, 29, 30)}
    assert starts == {"hot.js:28:3", "hot.js:29:3", "hot.js:30:3"}
    assert "(anonymous hot.js:30:3)" in {f.name for f in profile.functions}


def test_case_1_and_11_a_quiet_worker_costs_its_samples_not_its_pauses() -> None:
    # Deltas 3426, 3730, 4920945 and 702792 us over four samples, the last of them idle: two
    # samples of an effective interval each, since no delta is an ordinary one.
    found = built(golden("cpu_quiet"))
    assert (found.samples, total(found.profile, 1)) == (2, 2_180_000)
    assert found.idle_ns == (3730 + 4_920_945 + 702_792 + 122) * 1000 - 2_180_000
    assert read(found.profile.comments)["confidence"] == ("inconclusive",)


def test_case_11_an_empty_capture_is_a_profile_that_says_so() -> None:
    for found in (built(golden("cpu_none")), built(b""), built()):
        assert found.profile.samples == ()
        told = read(found.profile.comments)
        assert told["samples"] == ("0",)
        assert told["note"] == ("nothing was sampled in the window",)


def test_case_19_deltas_that_run_backwards_are_put_in_order() -> None:
    # Taken at 10, 1010, 510 and 2010: in order 10, 510, 1010, 2010, whose span is 2 ms.
    nodes = [
        node(1, ROOT, [2, 3]),
        node(2, frame("f", 0, 0, MAIN)),
        node(3, frame("g", 5, 0, MAIN)),
    ]
    found = built(cpu(nodes, [2, 2, 3, 2], [10, 1000, -500, 1500]))
    assert stacks(found.profile) == {("f:1",): (2, 1_500_000), ("g:6",): (1, 500_000)}


def test_case_19_a_first_delta_of_seconds_is_not_billed() -> None:
    nodes = [node(1, ROOT, [2]), node(2, frame("f", 0, 0, MAIN))]
    found = built(cpu(nodes, [2, 2], [8_000_000, 1000]))
    assert (total(found.profile, 1), found.idle_ns) == (1_000_000, 0)


def test_case_21_what_a_reader_shows_first_is_cpu_time() -> None:
    assert built(golden("cpu_runs")).profile.default_sample_type == "cpu"


def test_a_stack_too_deep_keeps_the_leaf_side_under_truncated() -> None:
    nodes = [node(1, ROOT, [2])]
    nodes += [
        node(i, frame(f"f{i}", i, 0, MAIN), [i + 1] if i < 9 else [], [(50, 1)])
        for i in range(2, 10)
    ]
    capture = cpu(nodes, [9, 9], [0, 1000])
    found = built(capture, bounds=Bounds(max_depth=4))
    assert list(stacks(found.profile)) == [("f9:50", "f8:9", "f7:8", "(truncated):0")]
    assert found.truncated == "max_depth=4"
    assert read(found.profile.comments)["truncated"] == ("max_depth=4",)
    assert built(capture, bounds=Bounds(max_depth=8)).truncated == ""


def test_the_sampler_s_truncation_is_kept_beside_the_builder_s() -> None:
    stopped = replace(CONTEXT, truncated="stopped_early")
    found = build_cpu.profile([b""], stopped, 0, 0, 1000)
    assert found.truncated == "stopped_early"


def test_half_surrogates_and_broken_bytes_in_names_are_repaired_and_counted() -> None:
    capture = cpu([node(1, ROOT, [2]), node(2, frame("f\ud800", 0, 0, MAIN))], [2, 2], [0, 1000])
    assert b"\\ud800" in capture
    for data in (capture, capture.replace(b"\\ud800", b"\xff")):
        found = built(data)
        assert found.profile.functions[0].name == "f?"
        assert read(found.profile.comments)["repaired_strings"] == ("1",)


def test_a_name_can_not_write_a_comment_of_its_own() -> None:
    found = build_cpu.profile([b""], replace(CONTEXT, worker="w\nidle_ns=1"), 0, 0, 1000)
    assert "worker=w\N{REPLACEMENT CHARACTER}idle_ns=1" in found.profile.comments


def test_golden_totals_are_those_of_the_capture() -> None:
    for name in ("cpu_runs", "cpu_callbacks"):
        raw = json.loads(golden(name))["result"]["profile"]
        idle = {n["id"] for n in raw["nodes"] if n["callFrame"]["functionName"] == "(idle)"}
        expected = sum(1 for id_ in raw["samples"][1:] if id_ not in idle)
        found = built(golden(name))
        assert found.samples == expected == total(found.profile, 0)
        window_ns = (raw["endTime"] - raw["startTime"] - raw["timeDeltas"][0]) * 1000
        assert total(found.profile, 1) + found.idle_ns == window_ns


F = frame("f", 0, 0, MAIN)
WRONG = {
    "no json": b"{",
    "a list": b"[]",
    "no profile": b'{"id":1,"result":{}}',
    "an error reply": b'{"id":1,"error":{"message":"x"}}',
    "nested without end": b"[" * 100_000,
    "child missing": cpu([node(1, ROOT, [2])], [], []),
    "id twice": cpu([node(1, ROOT), node(1, F)], [], []),
    "two parents": cpu([node(1, ROOT, [2, 3]), node(2, F, [3]), node(3, F)], [], []),
    "child twice": cpu([node(1, ROOT, [2, 2]), node(2, F)], [], []),
    "cycle": cpu([node(1, ROOT), node(2, F, [3]), node(3, F, [2])], [], []),
    "only a cycle": cpu([node(2, F, [3]), node(3, F, [2])], [], []),
    "own child": cpu([node(1, ROOT, [1])], [], []),
    "two roots": cpu([node(1, ROOT), node(2, F)], [], []),
    "sample missing": cpu([node(1, ROOT)], [7], [0]),
    "deltas missing": cpu([node(1, ROOT)], [1, 1], [0]),
    "frame forged": b'{"nodes":[{"id":1,"callFrame":7}],"samples":[],"timeDeltas":[]}',
    "node no object": b'{"nodes":[1],"samples":[],"timeDeltas":[]}',
    "tick forged": cpu([{**node(1, ROOT), "positionTicks": [[1, 2]]}], [], []),
    "tick negative": cpu([node(1, ROOT, [], [(-1, 1)])], [], []),
    "id no number": cpu([{**node(1, ROOT), "id": "1"}], [], []),
    "children no list": cpu([{**node(1, ROOT), "children": "2"}], [], []),
    "name no text": cpu([node(1, {**F, "functionName": 5})], [], []),
    "line beyond": cpu([node(1, {**F, "lineNumber": 2**40})], [], []),
    "delta no number": b'{"nodes":[],"samples":[],"timeDeltas":["x"]}',
    "delta nan": cpu([node(1, ROOT)], [1], [0]).replace(
        b'"timeDeltas": [0]', b'"timeDeltas": [NaN]'
    ),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_what_is_no_cpu_profile_is_refused(data: bytes) -> None:
    with pytest.raises(ProfileInvalid):
        built(data)


def test_huge_deltas_are_bounded() -> None:
    nodes = [node(1, ROOT, [2]), node(2, frame("f", 0, 0, MAIN))]
    found = built(cpu(nodes, [2, 2, 2], [0, 10**400, -(10**400)]))
    assert 0 <= total(found.profile, 1) <= 2 * 3_000_000


def test_every_bound_is_named() -> None:
    nodes = [node(1, ROOT, [2, 3]), node(2, F), node(3, frame("g", 5, 0, MAIN))]
    capture = cpu(nodes, [2, 2, 3], [0, 1000, 1000])
    for bounds, limit in (
        (Bounds(max_bytes=10), "max_bytes"),
        (Bounds(max_nodes=2), "max_nodes"),
        (Bounds(max_samples=1), "max_samples"),
        (Bounds(max_frames=1), "max_frames"),
    ):
        with pytest.raises(ProfileTooLarge, match=limit) as raised:
            built(capture, bounds=bounds)
        assert raised.value.limit == limit


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_garbage_never_crashes(data: bytes) -> None:
    if data:
        with pytest.raises(ProfileInvalid):
            built(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.data())
def test_a_capture_with_any_part_replaced_is_read_or_refused(data: st.DataObject) -> None:
    raw = json.loads(golden("cpu_quiet"))["result"]["profile"]
    part = data.draw(st.sampled_from((*raw, "node", "frame")))
    value = data.draw(JSON)
    if part == "node":
        raw["nodes"][1][data.draw(st.sampled_from(tuple(raw["nodes"][1])))] = value
    elif part == "frame":
        raw["nodes"][1]["callFrame"][data.draw(st.sampled_from(tuple(F)))] = value
    else:
        raw[part] = value
    with suppress(ProfileInvalid):
        built(json.dumps(raw).encode())


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=6),
    st.integers(1, 10**6),
    st.integers(0, 10**15),
)
def test_sharing_out_over_lines_loses_nothing(hits: list[int], count: int, cpu_ns: int) -> None:
    ticks = dict(enumerate(hits, 1))
    parts = list(build_cpu.shared_out(count, cpu_ns, ticks))
    assert sum(part for _, part, _ in parts) == count
    assert sum(part_ns for *_, part_ns in parts) == cpu_ns
