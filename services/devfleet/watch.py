"""Looks after processes that should live as long as whoever started them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from services.devfleet.faults import ChildFailed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from services.devfleet.processes import Child


async def first_end(children: Iterable[Child]) -> None:
    """Wait until one of them ends; cancelled when nobody waits for that any more.

    Raises:
        ChildFailed: one did; the message names it, its status and its log.
    """
    ends = {asyncio.create_task(child.ended()): child for child in children}
    try:
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
    gone = [ends[end] for end in done]
    told = (f"{one.name} (status {one.returncode}, see {one.log})" for one in gone)
    raise ChildFailed(f"ended by itself: {', '.join(told)}")
