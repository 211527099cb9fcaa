"""When a caller may be sent gzip."""

from __future__ import annotations

import gzip

import pytest

from control_plane.api import encoding


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("", False),
        ("gzip", True),
        ("GZIP", True),
        ("gzip, deflate, br", True),
        ("deflate;q=1, gzip;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.0, *", False),
        ("*", True),
        ("*;q=0", False),
        ("identity", False),
        ("gzip;q=x", False),
    ],
)
def test_accept_encoding(header: str, *, accepted: bool) -> None:
    assert encoding.accepts_gzip(header) is accepted


@pytest.mark.parametrize("size", [10, 1_000_000])
async def test_gunzipped(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    packed = gzip.compress(data, 0)
    assert await encoding.gunzipped(packed) == data
