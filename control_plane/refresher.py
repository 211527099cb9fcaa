"""Reports that bring nothing new, written together: while one statement is out, the next fills."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from control_plane.store import sightings

if TYPE_CHECKING:
    from contract.messages import Report
    from control_plane.store.database import Database

# Of one statement; a fleet that reports more at once has them written one after the other.
MOST_AT_ONCE = 200

_Waiting = tuple["Report", "asyncio.Future[bool | None]"]


class Refresher:
    """One replica's. A report alone goes out at once; it is never delayed to wait for others."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: list[_Waiting] = []
        self._writing: asyncio.Task[None] | None = None

    async def add(self, report: Report) -> bool | None:
        """Write a report; answered when it is committed.

        Returns:
            as ``sightings.refresh`` tells of its metal; None where it is not there.

        Raises:
            Fault: store_unavailable.
        """
        done: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._waiting.append((report, done))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())
        return await done

    async def _write(self) -> None:
        try:
            while batch := self._next():
                await self._write_one(batch)
        finally:
            self._writing = None
            for _, done in self._waiting:
                done.cancel()
            self._waiting.clear()

    def _next(self) -> dict[str, _Waiting]:
        """Take the oldest that wait, at most one of each metal."""
        batch: dict[str, _Waiting] = {}
        later: list[_Waiting] = []
        for one in self._waiting:
            metal_id = one[0].metal.metal_id
            if metal_id in batch or len(batch) == MOST_AT_ONCE:
                later.append(one)
            else:
                batch[metal_id] = one
        self._waiting = later
        return batch

    async def _write_one(self, batch: dict[str, _Waiting]) -> None:
        try:
            async with self._db.read() as conn:
                found = await sightings.refresh(conn, [report for report, _ in batch.values()])
        except BaseException as error:
            for _, done in batch.values():
                if isinstance(error, Exception) and not done.done():
                    done.set_exception(error)
                else:
                    done.cancel()
            if not isinstance(error, Exception):
                raise
            return
        for metal_id, (_, done) in batch.items():
            if not done.done():
                done.set_result(found.get(metal_id))
