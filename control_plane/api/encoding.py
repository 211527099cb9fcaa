"""Profiles are kept as their agents packed them; callers get them the way they can read them."""

from __future__ import annotations

import asyncio
import gzip

from pprof.check import DEFAULT_BOUNDS
from pprof.wire import GZIP_MAGIC, unpacked

# Above this the event loop would be held for more than about a millisecond.
INLINE_BYTES = 64 * 1024


def accepts_gzip(header: str) -> bool:
    """Read an Accept-Encoding header; an explicit ``gzip`` entry outranks ``*``."""
    weights: dict[str, float] = {}
    for entry in header.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        weights[name] = weight
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def is_gzip(data: bytes) -> bool:
    """Whether these are packed bytes."""
    return data.startswith(GZIP_MAGIC)


async def gunzipped(data: bytes) -> bytes:
    """Unpack, off the event loop when it is big."""
    if len(data) <= INLINE_BYTES:
        return unpacked(data, DEFAULT_BOUNDS)
    return await asyncio.to_thread(unpacked, data, DEFAULT_BOUNDS)


async def gzipped(data: bytes) -> bytes:
    """Pack what is not packed yet, the same bytes each time."""
    if is_gzip(data):
        return data
    return await asyncio.to_thread(gzip.compress, data, 6, mtime=0)
