"""Bytes from anybody: read or refused with a reason, in bounded memory; never a crash.

``make test`` tries a few hundred of each, ``make fuzz`` many thousands.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pprof import build_cpu, build_heap, codec, cpuprofile
from pprof.check import Bounds, ProfileInvalid, ProfileTooLarge, check
from pprof.formats import FORMATS, Options, render
from pprof.merge import merge
from pprof.model import total
from protos.pprof.v1 import profile_pb2
from tests.unit.pprof.made import CONTEXT, called, cpu, frame, golden, node
from tests.unit.pprof.profiles import profiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from pprof.model import Profile

MIB = 1024 * 1024
SMALL = Bounds(max_bytes=MIB, max_nodes=1000, max_samples=1000, max_frames=5000, max_depth=100)
CAPTURES = tuple(golden(name) for name in ("cpu_runs", "cpu_callbacks", "heap_objects"))


def survives(profile: Profile) -> None:
    """What was let in is valid, and every view and a merge take it."""
    check(profile)
    for name in FORMATS:
        try:
            assert isinstance(render(profile, name, Options()), bytes)
        except ProfileInvalid:
            # A form may need what this profile has not; it says so.
            assert name == "cpuprofile"
    if all(2 * total(profile, at) < 2**63 for at in range(len(profile.sample_types))):
        twice = merge([profile, profile])
        for at in range(len(profile.sample_types)):
            assert total(twice, at) == 2 * total(profile, at)
        assert codec.decode(codec.encode(twice)) == twice


def read_or_refused(read: Callable[[bytes], Profile], data: bytes) -> None:
    profile = None
    with contextlib.suppress(ProfileInvalid):
        profile = read(data)
    if profile is not None:
        survives(profile)


def heap_of(data: bytes) -> Profile:
    return build_heap.profile(data, CONTEXT, 0, 1, 524_288, None, SMALL).profile


def cpu_of(data: bytes) -> Profile:
    return build_cpu.profile([data], CONTEXT, 0, 1, 1000, SMALL).profile


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 12)
IDS = st.integers(0, 2**64 - 1) | st.integers(0, 5)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A pprof message with everything where it may stand, and any number in it."""
    message = profile_pb2.Profile(
        string_table=["", *draw(st.lists(st.text(max_size=6), max_size=6))],
        time_nanos=draw(NUMBERS),
        duration_nanos=draw(NUMBERS),
        period=draw(NUMBERS),
        comment=draw(st.lists(NUMBERS, max_size=2)),
        default_sample_type=draw(NUMBERS),
    )
    for _ in range(draw(st.integers(0, 2))):
        message.sample_type.add(type=draw(NUMBERS), unit=draw(NUMBERS))
    for _ in range(draw(st.integers(0, 3))):
        message.function.add(
            id=draw(IDS), name=draw(NUMBERS), filename=draw(NUMBERS), start_line=draw(NUMBERS)
        )
    for _ in range(draw(st.integers(0, 3))):
        place = message.location.add(id=draw(IDS), mapping_id=draw(IDS), address=draw(IDS))
        for _ in range(draw(st.integers(0, 2))):
            place.line.add(function_id=draw(IDS), line=draw(NUMBERS), column=draw(NUMBERS))
    for _ in range(draw(st.integers(0, 3))):
        kept = message.sample.add(
            location_id=draw(st.lists(IDS, max_size=4)), value=draw(st.lists(NUMBERS, max_size=3))
        )
        if draw(st.booleans()):
            kept.label.add(key=draw(NUMBERS), str=draw(NUMBERS), num=draw(NUMBERS))
    return message.SerializeToString()


@st.composite
def changed(draw: st.DrawFn, whole: bytes) -> bytes:
    """The bytes with pieces overwritten, taken out, doubled or cut off."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        end = at + draw(st.integers(0, 12))
        piece = draw(st.binary(max_size=8))
        match draw(st.integers(0, 3)):
            case 0:
                data[at : at + len(piece)] = piece
            case 1:
                del data[at:end]
            case 2:
                data[at:at] = data[at:end]
            case _:
                data[at:at] = piece
    return bytes(data)


@given(messages())
def test_any_message(data: bytes) -> None:
    read_or_refused(codec.decode, data)


@given(profiles().map(lambda one: codec.encode(one, compress=False)).flatmap(changed))
def test_a_profile_with_pieces_changed(data: bytes) -> None:
    read_or_refused(codec.decode, data)


@given(st.binary(max_size=200) | st.binary(max_size=60).map(gzip.compress))
def test_any_bytes(data: bytes) -> None:
    for read in (codec.decode, cpuprofile.read, cpu_of, heap_of):
        read_or_refused(read, data)


@given(st.sampled_from(CAPTURES).flatmap(changed))
def test_a_capture_with_pieces_changed(data: bytes) -> None:
    for read in (cpuprofile.read, cpu_of, heap_of):
        read_or_refused(read, data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
PARTS = st.sampled_from(("nodes", "samples", "timeDeltas", "startTime", "endTime"))


@given(st.dictionaries(PARTS, JSON | st.lists(st.integers(0, 4), max_size=5)))
def test_any_json_with_the_names_of_a_capture(parts: dict[str, Any]) -> None:
    whole = json.loads(
        cpu([node(1, frame("(root)"), [2]), node(2, frame("f", 0, 0, "a"))], [2], [0])
    )
    data = json.dumps(whole | parts).encode()
    for read in (cpuprofile.read, cpu_of):
        read_or_refused(read, data)


def peak_of(read: Callable[[bytes], object], data: bytes, told: str) -> int:
    """Bytes held at most while ``data`` is refused with these words."""
    tracemalloc.start()
    try:
        with pytest.raises(ProfileInvalid, match=told):
            read(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_gzip_bomb_is_not_unpacked() -> None:
    bomb = gzip.compress(bytes(200 * MIB), 9)
    assert len(bomb) < MIB
    assert peak_of(codec.decode, bomb, "max_bytes = 67108864") < 140 * MIB


def test_five_million_samples_are_not_built() -> None:
    sample = b"\x12\x04\x0a\x00\x12\x00"
    assert peak_of(codec.decode, sample * 5_000_000, "max_samples = 200000") < 80 * MIB


def test_a_capture_of_five_million_samples_is_read_in_the_size_of_its_text() -> None:
    head, tail = cpu(
        [node(1, frame("(root)"), [2]), node(2, frame("f", 0, 0, "a"))], [2], [0]
    ).split(b'"samples": [2], "timeDeltas": [0]')
    count = 5_000_000
    hits = b",".join([b"2"] * count)
    data = head + b'"samples": [' + hits + b'], "timeDeltas": [' + hits + b"]" + tail
    profile = cpu_of_any(data)
    assert total(profile, 0) == count - 1


def cpu_of_any(data: bytes) -> Profile:
    return build_cpu.profile([data], CONTEXT, 0, 1, 1000).profile


def test_a_stack_of_100_000_frames() -> None:
    message = profile_pb2.Profile.FromString(codec.encode(called(), compress=False))
    message.sample[0].location_id[:] = [1] * 100_000
    with pytest.raises(ProfileTooLarge, match="max_depth = 2000"):
        codec.decode(message.SerializeToString())
    deep = [
        node(id_, frame("f", id_, 0, "a"), [id_ + 1] if id_ < 100_000 else [])
        for id_ in range(1, 100_001)
    ]
    built = build_cpu.profile([cpu(deep, [100_000] * 2, [0, 1000])], CONTEXT, 0, 1, 1000)
    assert built.truncated == "max_depth=2000"
    assert total(built.profile, 0) == 1


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "the profile is empty"),
        (gzip.compress(b"", mtime=0), "the profile is empty"),
        (gzip.compress(b"x" * 100, mtime=0)[:-9], "cut off|broken"),
        (b"\x32\x00\x0a\x02\x08\x63", "string 99 is not in the string table"),
        (b"\x0a\x00", "string table does not begin with an empty string"),
        (b"\x32\x01a", "string table does not begin with an empty string"),
        (b"\x32\x00", "no sample types"),
    ],
)
def test_why_a_file_is_refused(data: bytes, told: str) -> None:
    with pytest.raises(ProfileInvalid, match=told):
        codec.decode(data)


def test_values_that_overflow_together() -> None:
    message = profile_pb2.Profile.FromString(codec.encode(called(), compress=False))
    for sample in message.sample:
        sample.value[:] = [2**62, 2**62]
    with pytest.raises(ProfileInvalid, match="overflows 64 bits"):
        codec.decode(message.SerializeToString())


def test_a_name_of_nul_is_a_name() -> None:
    message = profile_pb2.Profile.FromString(codec.encode(called(), compress=False))
    message.string_table[list(message.string_table).index("walk")] = "wa\0lk"
    profile = codec.decode(message.SerializeToString())
    assert "wa\0lk" in {one.name for one in profile.functions}
    survives(profile)
