"""Read the few numbers the sampler needs out of a profile's text without parsing it.

A quoted key cannot stand inside a JSON string, where its quotes would be escaped: so finding one
    finds the key.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

# Above this the scan is worth a thread of its own: the event loop must not wait for it.
INLINE_BYTES = 1 << 22
NUMBER = re.compile(rb"\s*(-?\d{1,18})")


@dataclass(frozen=True, kw_only=True)
class CpuMarks:
    """Microseconds on the runtime's clock; ``first_delta_us``: from start to first sample."""

    started_us: int
    ended_us: int
    first_delta_us: int
    samples: int
    nodes: int


@dataclass(frozen=True, kw_only=True)
class HeapMarks:
    """Sizes of a sampling-heap profile."""

    samples: int
    nodes: int


def holds_profile(data: bytes) -> bool:
    """Whether a stop's reply hands over a profile; of nothing, workerd echoes the command."""
    return data.find(b'"profile":', 0, 256) >= 0


async def cpu_marks(data: bytes) -> CpuMarks:
    """The marks of a CPU profile, scanned here when small and in a thread when not."""
    return _cpu(data) if len(data) <= INLINE_BYTES else await asyncio.to_thread(_cpu, data)


async def heap_marks(data: bytes) -> HeapMarks:
    """The same for a heap profile."""
    return _heap(data) if len(data) <= INLINE_BYTES else await asyncio.to_thread(_heap, data)


def _cpu(data: bytes) -> CpuMarks:
    samples = data.rfind(b'"samples":[')
    return CpuMarks(
        started_us=_after(data, b'"startTime":'),
        ended_us=_after(data, b'"endTime":'),
        first_delta_us=max(0, _after(data, b'"timeDeltas":[')),
        samples=_items(data, samples + len(b'"samples":[')) if samples >= 0 else 0,
        nodes=data.count(b'"callFrame":'),
    )


def _heap(data: bytes) -> HeapMarks:
    return HeapMarks(samples=data.count(b'"ordinal":'), nodes=data.count(b'"callFrame":'))


def _after(data: bytes, key: bytes) -> int:
    at = data.rfind(key)
    found = NUMBER.match(data, at + len(key)) if at >= 0 else None
    return int(found[1]) if found else 0


def _items(data: bytes, start: int) -> int:
    end = data.find(b"]", start)
    return data.count(b",", start, end) + 1 if end > start else 0
