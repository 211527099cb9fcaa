"""Parts that run until their process is told to stop, for every process alike."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine, Sequence


class StepEnded(Exception):  # noqa: N818 - what happened
    """A part that runs for ever came to its end; its cause is why."""


@asynccontextmanager
async def step(
    name: str, work: Coroutine[object, object, None]
) -> AsyncIterator[asyncio.Task[None]]:
    """Run a part beside the block; it is cancelled, and waited for, when the block ends."""
    task = asyncio.create_task(work, name=name)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await task


async def until(stop: asyncio.Event, steps: Sequence[asyncio.Task[None]]) -> None:
    """Return when told to stop.

    Raises:
        StepEnded: a part ended first. A process that limps is worse than one started anew.
    """
    told = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({told, *steps}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
    for one in steps:
        if one.done():
            raise StepEnded(one.get_name()) from one.exception()
