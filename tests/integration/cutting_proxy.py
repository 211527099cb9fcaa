"""A proxy before Postgres that lets a COMMIT through and then cuts the connection."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SOCKET = ".s.PGSQL.5432"


class CuttingProxy:
    """``cuts``: so many of the next commits are applied and not answered."""

    def __init__(self, database_url: str) -> None:
        parts = urlsplit(database_url)
        self._socket = parse_qs(parts.query).get("host", [""])[0]
        self._address = (parts.hostname or "", parts.port or 5432)
        self._user = parts.netloc.rpartition("@")[0]
        self._database = parts.path
        self._port = 0
        self._pipes: set[asyncio.Task[None]] = set()
        self.cuts = 0

    @property
    def url(self) -> str:
        return f"postgresql://{self._user}@127.0.0.1:{self._port}{self._database}"

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[CuttingProxy]:
        server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
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
        far_in, far_out = await (
            asyncio.open_unix_connection(f"{self._socket}/{SOCKET}")
            if self._socket
            else asyncio.open_connection(*self._address)
        )
        cutting = asyncio.Event()
        for one in (
            self._asks(near_in, far_out, cutting),
            self._answers(far_in, near_out, far_out, cutting),
        ):
            task = asyncio.create_task(one)
            self._pipes.add(task)
            task.add_done_callback(self._pipes.discard)

    async def _asks(
        self, near_in: asyncio.StreamReader, far_out: asyncio.StreamWriter, cutting: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            try:
                while data := await near_in.read(65_536):
                    if self.cuts and b"COMMIT" in data:
                        self.cuts -= 1
                        cutting.set()
                    far_out.write(data)
                    await far_out.drain()
            finally:
                far_out.close()

    async def _answers(
        self,
        far_in: asyncio.StreamReader,
        near_out: asyncio.StreamWriter,
        far_out: asyncio.StreamWriter,
        cutting: asyncio.Event,
    ) -> None:
        with contextlib.suppress(OSError):
            try:
                # The server has answered: what was to be committed is.
                while (data := await far_in.read(65_536)) and not cutting.is_set():
                    near_out.write(data)
                    await near_out.drain()
            finally:
                near_out.close()
                far_out.close()
