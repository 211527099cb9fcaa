from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pprof import build_heap
from pprof.check import Bounds, ProfileInvalid, ProfileTooLarge, check
from pprof.comments import read
from pprof.model import BuiltProfile, total
from tests.unit.pprof.made import CONTEXT, frame, golden, stacks

MAIN = "main.js"
INTERVAL = 524_288


def alloc(
    id_: int, call_frame: dict[str, Any], self_size: int, *children: dict[str, Any]
) -> dict[str, Any]:
    return {"id": id_, "callFrame": call_frame, "selfSize": self_size, "children": list(children)}


def heap(head: dict[str, Any], samples: dict[int, list[int]] | None = None) -> bytes:
    flat = [
        {"size": size, "nodeId": id_, "ordinal": 1}
        for id_, sizes in (samples or {}).items()
        for size in sizes
    ]
    return json.dumps({"head": head, "samples": flat}).encode()


def built(
    data: bytes, *, backing_store_bytes: int | None = None, bounds: Bounds | None = None
) -> BuiltProfile:
    found = build_heap.profile(
        data,
        CONTEXT,
        1_700_000_000_000_000_000,
        1_000_000_000,
        INTERVAL,
        backing_store_bytes,
        bounds or Bounds(),
    )
    check(found.profile)
    return found


ROOT = frame("(root)")


def test_the_header_says_what_was_measured_and_shows_bytes_first() -> None:
    profile = built(heap(alloc(1, ROOT, 0))).profile
    assert [(t.type, t.unit) for t in profile.sample_types] == [
        ("alloc_objects", "count"),
        ("alloc_space", "bytes"),
    ]
    assert profile.default_sample_type == "alloc_space"
    assert (profile.period_type.type, profile.period_type.unit) == ("space", "bytes")
    assert profile.period == INTERVAL


def test_bytes_are_v8_s_own_and_objects_are_worked_out() -> None:
    # 1 MiB objects are always sampled: what V8 reports is their size, three of them are three.
    outer = alloc(2, frame("outer", 4, 2, MAIN), 0, alloc(3, frame("inner", 9, 0, MAIN), 3 * 2**21))
    found = built(heap(alloc(1, ROOT, 0, outer), {3: [2**21] * 3}))
    assert stacks(found.profile) == {("inner:10", "outer:5"): (3, 3 * 2**21)}
    assert found.samples == 3


def test_workerd_s_known_allocations() -> None:
    # 20 requests, each with 20,000 objects of 20 bytes and their array, and 5,000 arrays of about
    # 424 bytes: 0.4 M objects in 9.6 MB, 0.1 M in 42 MB. 21 and 74 samples: within a third.
    profile = built(golden("heap_objects")).profile
    raw = json.loads(golden("heap_objects"))["result"]["profile"]
    fetch = raw["head"]["children"][0]
    assert total(profile, 1) == sum(child["selfSize"] for child in fetch["children"])
    found = {stack[0].split(":")[0]: values for stack, values in stacks(profile).items()}
    assert found["pairs"][0] == pytest.approx(400_000, rel=0.33)
    assert found["pairs"][1] == pytest.approx(9_600_000, rel=0.33)
    assert found["texts"][0] == pytest.approx(100_000, rel=0.33)
    assert found["texts"][1] == pytest.approx(42_400_000, rel=0.33)


def test_case_11_less_than_one_interval_is_a_profile_that_says_so() -> None:
    for data in (golden("heap_small"), b"", heap(alloc(1, ROOT, 0))):
        found = built(data)
        assert found.profile.samples == ()
        told = read(found.profile.comments)
        assert told["samples"] == ("0",)
        assert "nothing was sampled" in told["note"][0]


def test_case_20_array_buffers_are_named_as_not_covered_and_reported_beside() -> None:
    told = read(built(golden("heap_buffers"), backing_store_bytes=52_428_800).profile.comments)
    assert told["not_covered"] == ("array buffer contents",)
    assert told["backing_store_bytes"] == ("52428800",)
    told = read(built(golden("heap_buffers")).profile.comments)
    assert told["not_covered"] == ("array buffer contents",)
    assert "backing_store_bytes" not in told


def test_allocations_outside_any_frame_stay_with_the_root() -> None:
    found = built(heap(alloc(1, ROOT, 2**21), {1: [2**21]}))
    assert stacks(found.profile) == {("(root):0",): (1, 2**21)}


def test_a_stack_too_deep_keeps_the_leaf_side() -> None:
    tree = alloc(9, frame("f9", 9, 0, MAIN), 2**21)
    for id_ in range(8, 1, -1):
        tree = alloc(id_, frame(f"f{id_}", id_, 0, MAIN), 0, tree)
    found = built(heap(alloc(1, ROOT, 0, tree)), bounds=Bounds(max_depth=3))
    assert list(stacks(found.profile)) == [("f9:10", "f8:9", "(truncated):0")]
    assert found.truncated == "max_depth=3"


NEGATIVE = alloc(1, ROOT, -5)
WRONG = {
    "no json": b"{",
    "a cpu profile": b'{"nodes":[],"samples":[],"timeDeltas":[]}',
    "head forged": b'{"head":1,"samples":[]}',
    "frame forged": b'{"head":{"id":1,"callFrame":3,"selfSize":0},"samples":[]}',
    "size negative": heap(NEGATIVE),
    "sample negative": heap(alloc(1, ROOT, 0), {1: [-1]}),
    "sample forged": b'{"head":%s,"samples":[[1,2]]}' % json.dumps(alloc(1, ROOT, 0)).encode(),
    "size missing": heap({"id": 1, "callFrame": ROOT}),
    "child no node": heap({**alloc(1, ROOT, 0), "children": [5]}),
    "nested without end": b'{"head":' * 20_000,
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_what_is_no_heap_profile_is_refused(data: bytes) -> None:
    with pytest.raises(ProfileInvalid):
        built(data)


def test_every_bound_is_named() -> None:
    one = alloc(2, frame("f", 1, 0, MAIN), 10)
    capture = heap(alloc(1, ROOT, 0, one, alloc(3, frame("g", 2, 0, MAIN), 10)))
    for bounds, limit in (
        (Bounds(max_bytes=10), "max_bytes"),
        (Bounds(max_nodes=2), "max_nodes"),
        (Bounds(max_samples=1), "max_samples"),
        (Bounds(max_frames=1), "max_frames"),
    ):
        with pytest.raises(ProfileTooLarge, match=limit):
            built(capture, bounds=bounds)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.sampled_from(("head", "samples", "id", "callFrame", "selfSize", "children")), JSON)
def test_a_capture_with_any_part_replaced_is_read_or_refused(part: str, value: object) -> None:
    raw = json.loads(golden("heap_objects"))["result"]["profile"]
    (raw if part in raw else raw["head"]["children"][0])[part] = value
    with suppress(ProfileInvalid):
        built(json.dumps(raw).encode())
