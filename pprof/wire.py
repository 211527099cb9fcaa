"""What must be known of pprof bytes before parsing: unpacked size, number of parts, strings."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from pprof.check import Bounds, ProfileInvalid, within

if TYPE_CHECKING:
    from collections.abc import Iterator

GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 31
_SAMPLE, _LOCATION, _STRING = 2, 4, 6
_COUNTED_ABOVE_BYTES = 4 * 1024 * 1024


def unpacked(data: bytes, bounds: Bounds) -> bytes:
    """The bytes without gzip, if they had any; several members are joined.

    Raises:
        ProfileInvalid: broken or cut gzip data.
        ProfileTooLarge: ``max_bytes``, before more than that is held.
    """
    within(len(data), "max_bytes", bounds.max_bytes)
    if not data.startswith(GZIP_MAGIC):
        return data
    parts: list[bytes] = []
    size = 0
    while data:
        member = zlib.decompressobj(_GZIP)
        try:
            parts.append(member.decompress(data, bounds.max_bytes - size + 1))
        except zlib.error:
            raise ProfileInvalid("the gzip data is broken") from None
        size += len(parts[-1])
        within(size, "max_bytes", bounds.max_bytes)
        if not member.eof:
            raise ProfileInvalid("the gzip data is cut off")
        data = member.unused_data
        if not data.startswith(GZIP_MAGIC):
            break
    return b"".join(parts)


def check_parts(data: bytes, bounds: Bounds) -> None:
    """Refuse many tiny parts, which take many times their size once parsed."""
    # Little data can not hold enough of them to matter, and counting costs.
    if len(data) <= _COUNTED_ABOVE_BYTES:
        return
    samples = parts = 0
    for field, _, start, end in _fields(data, 0, len(data)):
        if field == _SAMPLE:
            samples += 1
            within(samples, "max_samples", bounds.max_samples)
        else:
            parts += 1
        if field in (_SAMPLE, _LOCATION):
            parts += sum(1 for _ in _fields(data, start, end))
        # Locations, functions, mappings, strings, lines and labels: a profile at all its bounds has
        # fewer.
        within(parts, "max_nodes", 8 * bounds.max_nodes)


def repaired(data: bytes) -> tuple[bytes, int]:
    """The same message with every string made valid UTF-8, and how many were not."""
    out = bytearray()
    count = 0
    copied = 0
    for field, begin, start, end in _fields(data, 0, len(data)):
        if field != _STRING:
            continue
        raw = data[start:end]
        text = raw.decode("utf-8", "replace").encode()
        if text != raw:
            count += 1
            out += data[copied:begin]
            out += _varint_of(_STRING << 3 | 2) + _varint_of(len(text)) + text
            copied = end
    out += data[copied:]
    return bytes(out), count


def _fields(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Each field's number, where it begins, and where its bytes start and end."""
    while at < end:
        begin = at
        tag, at = _varint(data, at, end)
        field, kind = tag >> 3, tag & 7
        start = at
        if kind == 0:
            _, at = _varint(data, at, end)
            start = at
        elif kind == 1:
            start = at = at + 8
        elif kind == 5:
            start = at = at + 4
        elif kind == 2:
            length, start = _varint(data, at, end)
            at = start + length
        else:
            raise ProfileInvalid("not a pprof message")
        if at > end:
            raise ProfileInvalid("the pprof message is cut off")
        yield field, begin, start, at


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ProfileInvalid("the pprof message is cut off")


def _varint_of(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
