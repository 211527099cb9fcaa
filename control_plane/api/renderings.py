"""Profiles in other forms than their own: made off the event loop, kept packed for the next one."""

from __future__ import annotations

import asyncio
import gzip
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from aiohttp import web

from control_plane.api import encoding

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

MAX_KEPT_BYTES = 64 * 1024 * 1024
# Few at once: each takes a core and a multiple of its profile in memory.
WORKERS = 2


class Renderings:
    """What one replica has rendered lately, gzipped, the least used forgotten first."""

    def __init__(self, max_bytes: int = MAX_KEPT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._threads = ThreadPoolExecutor(WORKERS, thread_name_prefix="render")
        self._under_way: dict[str, asyncio.Lock] = {}

    def known(self, name: str) -> bytes | None:
        """What is kept under a name."""
        found = self._kept.get(name)
        if found is not None:
            self._kept.move_to_end(name)
        return found

    async def made(self, name: str, make: Callable[[], Awaitable[Callable[[], bytes]]]) -> bytes:
        """What is kept under a name, or made now; callers who ask at once wait for one making.

        Args:
            make: fetches what is needed, and returns the work for a thread.

        Returns:
            Gzipped bytes.
        """
        lock = self._under_way.setdefault(name, asyncio.Lock())
        try:
            async with lock:
                found = self.known(name)
                if found is None:
                    work = await make()
                    loop = asyncio.get_running_loop()
                    found = await loop.run_in_executor(self._threads, lambda: _packed(work()))
                    self._keep(name, found)
                return found
        finally:
            # Whoever still waits finds what was kept; a later caller may use another lock.
            if not lock.locked():
                self._under_way.pop(name, None)

    def _keep(self, name: str, data: bytes) -> None:
        if len(data) > self._max_bytes // 4:
            return
        self._kept[name] = data
        self._bytes += len(data)
        while self._bytes > self._max_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= len(dropped)

    def close(self) -> None:
        """Stop the threads; work that has begun ends on its own."""
        self._threads.shutdown(wait=False, cancel_futures=True)


RENDERINGS: web.AppKey[Renderings] = web.AppKey("renderings", Renderings)


async def answer(
    request: web.Request, data: bytes, content_type: str, headers: dict[str, str]
) -> web.Response:
    """Gzipped bytes as an answer, unpacked for a caller who can't."""
    headers = headers | {"Vary": "Accept-Encoding"}
    if encoding.accepts_gzip(request.headers.get("Accept-Encoding", "")):
        headers["Content-Encoding"] = "gzip"
    else:
        data = await asyncio.to_thread(gzip.decompress, data)
    charset = "utf-8" if content_type.startswith("text/") else None
    return web.Response(body=data, content_type=content_type, charset=charset, headers=headers)


def has_it(request: web.Request, tag: str) -> bool:
    """Whether the caller holds this version already."""
    return any(one.value in {tag, "*"} for one in request.if_none_match or ())


def _packed(data: bytes) -> bytes:
    return gzip.compress(data, 6, mtime=0)
