"""A TCP proxy that can go silent: connections stay open, and nothing passes any more."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


class Proxy:
    """Between clients and one server. ``silent``: what comes from either side is dropped."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._pipes: set[asyncio.Task[None]] = set()
        self.silent = False
        self.address = ""

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[Proxy]:
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()
            for pipe in self._pipes:
                pipe.cancel()
            await asyncio.gather(*self._pipes, return_exceptions=True)

    async def _accepted(
        self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter
    ) -> None:
        host, _, port = self._target.rpartition(":")
        far_in, far_out = await asyncio.open_connection(host, int(port))
        for one in (self._pipe(near_in, far_out), self._pipe(far_in, near_out)):
            task = asyncio.create_task(one)
            self._pipes.add(task)
            task.add_done_callback(self._pipes.discard)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            try:
                while data := await reader.read(65_536):
                    if not self.silent:
                        writer.write(data)
                        await writer.drain()
                while self.silent:  # noqa: ASYNC110 - one side is gone; the other must not learn it
                    await asyncio.sleep(0.1)
            finally:
                writer.close()
