"""Turns raw slices into pprof bytes in a process of its own, one per capture.

Building holds the interpreter's lock for as long as it runs: in a thread it would stop the event
loop from answering, in a lasting pool its memory would stay with the agent for good, and neither
can be ended. So a process is started with each capture, has loaded everything by the time the
slices come, and ends with its one answer. It reads its order from a pipe: an agent that dies closes
the pipe, and the kernel kills what is still at work.
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from contract.faults import Fault, Reason

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from contract.messages import ProfileType
    from pprof.comments import Context

ROOT = Path(__file__).resolve().parents[1]
PROCESS = "edge_agent.build_process"
LINE_BYTES = 1 << 20
# Soon enough to have loaded before the shortest capture ends.
BEGIN_AFTER_S = 0.2


@dataclass(frozen=True, kw_only=True)
class BuildOrder:
    """What was taken, and how.

    Args:
        slices: the runtime's own JSON, one per slice.
        intervals: of each slice; microseconds for CPU, bytes for heap.
    """

    profile_type: ProfileType
    slices: tuple[bytes, ...]
    intervals: tuple[int, ...]
    started_at_ns: int
    window_ns: int
    backing_store_bytes: int
    context: Context


@dataclass(frozen=True, kw_only=True)
class Built:
    """A finished profile: gzipped pprof, how many samples stand behind it, what was cut off."""

    data: bytes
    samples: int
    truncated: str


Build: TypeAlias = "Callable[[BuildOrder], Awaitable[Built]]"


@asynccontextmanager
async def builder() -> AsyncIterator[Build]:
    """A process that loads while the capture is being taken, and is gone afterwards.

    Yields:
        What builds the profile, once. It raises ``Fault``: profile_invalid, profile_too_large,
        internal when the process could not start or died.
    """
    starting: asyncio.Task[asyncio.subprocess.Process] | None = None

    def begin() -> asyncio.Task[asyncio.subprocess.Process]:
        nonlocal starting
        if starting is None:
            starting = asyncio.create_task(_start())
        return starting

    # Not at once: a process that starts would compete with the profiler's own start for the core.
    later = asyncio.get_running_loop().call_later(BEGIN_AFTER_S, begin)

    async def build(order: BuildOrder) -> Built:
        try:
            return await _asked(await asyncio.shield(begin()), order)
        except (OSError, ValueError, RuntimeError, asyncio.IncompleteReadError):
            # RuntimeError: uvloop's word for a pipe whose other end is gone.
            raise Fault(Reason.INTERNAL, "the process that builds the profile ended") from None

    try:
        yield build
    finally:
        later.cancel()
        if starting is not None:
            with suppress(OSError):
                await _end(await starting)


async def _start() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        PROCESS,
        cwd=ROOT,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        # What it has to say is in its answer; the agent's own stderr is for log lines.
        stderr=asyncio.subprocess.DEVNULL,
        # A Ctrl-C is for the agent, which decides what becomes of its captures.
        start_new_session=True,
        limit=LINE_BYTES,
    )


async def _asked(process: asyncio.subprocess.Process, order: BuildOrder) -> Built:
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None and stdout is not None  # noqa: S101, PT018 - asked for above
    # The process writes nothing before it has read everything, so neither waits for the other.
    stdin.write(header(order))
    stdin.writelines(order.slices)
    await stdin.drain()
    stdin.close()
    answer: dict[str, Any] = json.loads(await stdout.readline())
    if "reason" in answer:
        raise Fault(Reason(answer["reason"]), answer["message"])
    data = await stdout.readexactly(answer["size_bytes"])
    return Built(data=data, samples=answer["samples"], truncated=answer["truncated"])


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        # Normally it is past its last line; otherwise it has nothing to clean up.
        with suppress(ProcessLookupError):
            process.kill()
    # Not wait(): the pipes must be read to their end, or their transports outlive them.
    await process.communicate()


def header(order: BuildOrder) -> bytes:
    """The line before the slices: everything but their bytes."""
    told = {
        "profile_type": order.profile_type,
        "sizes": [len(data) for data in order.slices],
        "intervals": order.intervals,
        "started_at_ns": order.started_at_ns,
        "window_ns": order.window_ns,
        "backing_store_bytes": order.backing_store_bytes,
        "context": asdict(order.context),
    }
    return json.dumps(told).encode() + b"\n"


def parse_header(line: bytes) -> tuple[dict[str, Any], Sequence[int]]:
    """What the line says, and the size of each slice that follows it."""
    told = json.loads(line)
    return told, told.pop("sizes")
