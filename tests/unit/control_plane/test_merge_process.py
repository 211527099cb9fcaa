from __future__ import annotations

import io

import pytest

from control_plane.merge_process import _answered, header, merged
from pprof import codec
from pprof.check import ProfileInvalid
from pprof.comments import read
from pprof.model import Profile, total
from tests.unit.pprof.test_merge import one


def sent(*parts: bytes) -> tuple[bytes, io.BytesIO]:
    told = [
        (len(data), {"isolate": f"i{n}", "metal": "m1", "datacenter": "d1"})
        for n, data in enumerate(parts)
    ]
    return header(told, ["isolates_asked=3"]), io.BytesIO(b"".join(parts))


def packed(profile: Profile) -> bytes:
    return codec.encode(profile)


def test_what_is_sent_is_merged_and_labelled() -> None:
    found = merged(*sent(packed(one("f", 2)), packed(one("g", 3))))
    whole = codec.decode(found.data)
    assert total(whole, 0) == 5
    assert {tuple(label.text for label in s.labels) for s in whole.samples} == {
        ("d1", "i0", "m1"),
        ("d1", "i1", "m1"),
    }
    assert read(whole.comments)["isolates_asked"] == ("3",)


def test_the_line_is_one_line_whatever_the_labels_hold() -> None:
    line = header([(1, {"isolate": 'a\n"b'})], ["c\nd"])
    assert line.count(b"\n") == 1


def test_parts_that_break_off_are_no_answer() -> None:
    line, rest = sent(packed(one("f", 2)), packed(one("g", 3)))
    with pytest.raises(EOFError):
        merged(line, io.BytesIO(rest.read()[:-1]))


def test_what_is_no_profile_is_refused_by_name() -> None:
    answer, data = _answered(*sent(packed(one("f", 2)), b"no profile"))
    assert (answer["large"], data) == (False, b"")
    assert answer["refused"]
    with pytest.raises(ProfileInvalid):
        merged(*sent(b"no profile"))
