"""What the building process makes of an order; run here, without the process."""

from __future__ import annotations

import json

import pytest

from contract.messages import ProfileType
from edge_agent.build_process import build
from edge_agent.builder import BuildOrder, header, parse_header
from pprof import codec
from pprof.check import ProfileInvalid
from pprof.comments import Context

CONTEXT = Context(
    isoprof="test",
    session="0b9d7f6e-1d2c-4a3b-9c4d-5e6f70819203",
    capture=1,
    worker="checkout",
    version="11111111-2222-4333-8444-555555555555",
    datacenter="ams1",
    metal="ams1-m1",
    isolate="wd1/checkout",
    gaps_ns=77,
)


def _slice(interval_us: int, samples: int) -> bytes:
    frame = {"functionName": "", "scriptId": "1", "url": "", "lineNumber": 0, "columnNumber": 0}
    root = {"id": 1, "callFrame": frame | {"functionName": "(root)"}, "children": [2]}
    hot = frame | {"functionName": "hot", "url": "worker.js", "lineNumber": 3}
    leaf = {"id": 2, "callFrame": hot, "positionTicks": [{"line": 5, "ticks": samples}]}
    told = {
        "nodes": [root, leaf],
        "startTime": 1_000,
        "endTime": 1_000 + interval_us * (samples + 1),
        # The first sample is never billed.
        "samples": [2] * (samples + 1),
        "timeDeltas": [interval_us] * (samples + 1),
    }
    return json.dumps({"id": 4, "result": {"profile": told}}).encode()


def _order(*slices: bytes, intervals: tuple[int, ...]) -> BuildOrder:
    return BuildOrder(
        profile_type=ProfileType.CPU,
        slices=slices,
        intervals=intervals,
        started_at_ns=1_700_000_000_000_000_000,
        window_ns=2_000_000_000,
        backing_store_bytes=0,
        context=CONTEXT,
    )


@pytest.mark.parametrize(
    ("intervals", "samples"), [((1_000, 1_000), (40, 60)), ((1_000, 5_000), (40, 10))]
)
def test_each_slice_is_billed_by_its_own_interval(
    intervals: tuple[int, int], samples: tuple[int, int]
) -> None:
    slices = [_slice(one, count) for one, count in zip(intervals, samples, strict=True)]
    built = build(_order(*slices, intervals=intervals))
    profile = codec.decode(built.data)
    assert built.samples == sum(samples)
    expected_us = sum(one * count for one, count in zip(intervals, samples, strict=True))
    assert sum(sample.values[1] for sample in profile.samples) == expected_us * 1_000
    assert profile.duration_ns == 2_000_000_000
    # Told once, however many profiles it took.
    assert "gaps_ns=77" in profile.comments


def test_what_is_no_profile_is_invalid() -> None:
    with pytest.raises(ProfileInvalid):
        build(_order(b"not JSON", intervals=(1_000,)))


def test_the_line_before_the_slices_names_their_sizes() -> None:
    order = _order(b"12345", b"1", intervals=(1_000, 2_000))
    told, sizes = parse_header(header(order))
    assert list(sizes) == [5, 1]
    assert told["intervals"] == [1_000, 2_000]
    assert Context(**told["context"]) == CONTEXT
