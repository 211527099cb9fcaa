"""Source maps written by hand: segments in, version 3 JSON out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
Segment = tuple[int, int, int, int] | tuple[int, int, int, int, int]


def number(value: int) -> str:
    left = (-value << 1) | 1 if value < 0 else value << 1
    text = ""
    while True:
        digit, left = left & 31, left >> 5
        text += DIGITS[digit | 32 if left else digit]
        if not left:
            return text


def mappings(lines: Iterable[Sequence[Segment]]) -> str:
    """Segments are (generated column, source, source line, source column[, name]), from 0."""
    before = [0, 0, 0, 0, 0]
    written = []
    for line in lines:
        before[0] = 0
        segments = []
        for segment in line:
            segments.append("".join(number(value - before[at]) for at, value in enumerate(segment)))
            before[: len(segment)] = segment
        written.append(",".join(segments))
    return ";".join(written)


def source_map(
    lines: Iterable[Sequence[Segment]],
    *,
    sources: Sequence[str | None] = ("src/a.ts",),
    names: Sequence[str] = (),
    contents: Sequence[str | None] | None = None,
) -> bytes:
    found = {
        "version": 3,
        "sources": list(sources),
        "names": list(names),
        "mappings": mappings(lines),
    }
    if contents is not None:
        found["sourcesContent"] = list(contents)
    return json.dumps(found).encode()
