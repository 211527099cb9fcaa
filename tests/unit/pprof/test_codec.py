from __future__ import annotations

import gzip
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pprof.build_cpu import profile as build
from pprof.check import Bounds, ProfileInvalid, ProfileTooLarge
from pprof.codec import decode, encode
from tests.unit.pprof.made import CONTEXT, golden
from tests.unit.pprof.profiles import profiles

if TYPE_CHECKING:
    from pprof.model import Profile


def golden_profile() -> Profile:
    return build([golden("cpu_runs")], CONTEXT, 1, 2, 1000).profile


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def message(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def strings(*texts: bytes) -> bytes:
    return b"".join(message(6, text) for text in texts)


CPU_NANOS = message(1, bytes([8, 1, 16, 2]))
"""ValueType {type: string 1, unit: string 2}."""


@given(profiles(), st.booleans())
def test_decoding_gives_back_what_was_encoded(profile: Profile, compress: bool) -> None:
    assert decode(encode(profile, compress=compress)) == profile


def test_bytes_written_by_hand_are_read() -> None:
    raw = (
        CPU_NANOS
        # Sample {location_id: [1], value: [7]}; Location {id: 1, line {function_id: 1, line: 3}};
        # Function {id: 1, name: string 3}.
        + message(2, bytes([10, 1, 1, 18, 1, 7]))
        + message(4, bytes([8, 1, 34, 4, 8, 1, 16, 3]))
        + message(5, bytes([8, 1, 16, 3]))
        + strings(b"", b"cpu", b"nanoseconds", b"spin")
    )
    profile = decode(raw)
    assert [(t.type, t.unit) for t in profile.sample_types] == [("cpu", "nanoseconds")]
    assert (profile.samples[0].location_ids, profile.samples[0].values) == ((1,), (7,))
    assert (profile.locations[0].lines[0].line, profile.functions[0].name) == (3, "spin")


def test_the_same_profile_gives_the_same_bytes() -> None:
    assert encode(golden_profile()) == encode(golden_profile())
    assert encode(golden_profile()).startswith(b"\x1f\x8b")


def test_several_gzip_members_are_one_profile() -> None:
    raw = encode(golden_profile(), compress=False)
    assert decode(gzip.compress(raw[:100]) + gzip.compress(raw[100:])) == golden_profile()


def test_names_that_are_no_utf_8_are_repaired_and_counted() -> None:
    raw = encode(golden_profile(), compress=False)
    # "fetch" and "Response" lose their first letter to a byte no UTF-8 text has.
    broken = raw.replace(b"fetch", b"\xffetch").replace(b"Response", b"\xffesponse")
    profile = decode(broken)
    names = {function.name for function in profile.functions}
    assert {"\N{REPLACEMENT CHARACTER}etch", "\N{REPLACEMENT CHARACTER}esponse"} <= names
    assert profile.comments[-1] == "repaired_strings=2"
    assert [s.values for s in profile.samples] == [s.values for s in golden_profile().samples]


def test_a_gzip_bomb_is_refused_by_name() -> None:
    bomb = gzip.compress(bytes(2_000_000))
    with pytest.raises(ProfileTooLarge, match="max_bytes") as raised:
        decode(bomb, Bounds(max_bytes=1_000_000))
    assert (raised.value.limit, raised.value.allowed) == ("max_bytes", 1_000_000)


def test_a_bomb_of_tiny_parts_is_refused_before_it_is_parsed() -> None:
    samples = message(2, b"") * 2_500_000
    with pytest.raises(ProfileTooLarge, match="max_samples"):
        decode(samples)
    lines = message(4, message(4, b"") * 2_500_000)
    with pytest.raises(ProfileTooLarge, match="max_nodes"):
        decode(lines, Bounds(max_nodes=100_000))


WRONG = {
    "empty": b"",
    "empty gzip": gzip.compress(b""),
    "no gzip": b"\x1f\x8b but no gzip",
    "cut gzip": gzip.compress(bytes(100))[:-9],
    "text": b"hello, this is no profile",
    "cut message": CPU_NANOS[:-1],
    "no strings": CPU_NANOS,
    "first string not empty": CPU_NANOS + strings(b"x", b"cpu", b"nanoseconds"),
    "string beyond the table": CPU_NANOS + strings(b"", b"cpu"),
    "string before the table": message(1, b"\x08" + b"\xff" * 9 + b"\x01") + strings(b""),
    "no sample types": strings(b""),
    "location missing": CPU_NANOS
    + message(2, bytes([10, 1, 9, 18, 1, 7]))
    + strings(b"", b"cpu", b"nanoseconds"),
    "values missing": CPU_NANOS + message(2, b"") + strings(b"", b"cpu", b"nanoseconds"),
}


@pytest.mark.parametrize("data", WRONG.values(), ids=WRONG.keys())
def test_what_is_no_profile_is_refused(data: bytes) -> None:
    with pytest.raises(ProfileInvalid):
        decode(data)


def test_only_a_valid_profile_is_encoded() -> None:
    with pytest.raises(ProfileInvalid):
        encode(replace(golden_profile(), locations=()))
    with pytest.raises(ProfileTooLarge, match="max_bytes"):
        encode(golden_profile(), bounds=Bounds(max_bytes=100))


@given(st.binary(max_size=300))
def test_garbage_never_crashes(data: bytes) -> None:
    with suppress(ProfileInvalid):
        decode(data)
    with suppress(ProfileInvalid):
        decode(gzip.compress(data))


@given(st.data())
def test_a_profile_with_bytes_changed_is_read_or_refused(data: st.DataObject) -> None:
    raw = bytearray(encode(golden_profile(), compress=False))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with suppress(ProfileInvalid):
        decode(bytes(raw))
