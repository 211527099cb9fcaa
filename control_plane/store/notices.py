"""Waking up: Postgres tells every replica what changed; polling covers what it could not."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING

import asyncpg
import structlog

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from control_plane.store.database import Database

CHANNEL = "isoprof"
# The payloads that say: there is an order to send, or a stop. Any other payload is a session id.
DISPATCH = "dispatch"
STOPS = "stops"
_RECONNECT_S = 0.5
# InternalClientError: the driver's, when the connection is cut while it sends a statement.
LOST = (
    OSError,
    TimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
)
_CHECK_S = 5.0

log = structlog.get_logger(__name__)


class Watch:
    """One waiter. Made before the state is read, it misses nothing that changes after."""

    def __init__(self) -> None:
        self._told = asyncio.Event()

    def tell(self) -> None:
        """Wake the waiter, now or at its next wait."""
        self._told.set()

    async def wait(self, timeout_s: float) -> bool:
        """Return True at a notice, False after ``timeout_s``; read the state again either way."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._told.wait()
        except TimeoutError:
            return False
        self._told.clear()
        return True


class Notices:
    """The one listening connection of a process. Lost, it is opened anew and every waiter woken."""

    def __init__(self, db: Database) -> None:
        self._url = db.url
        self._watches: dict[str, set[Watch]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, db: Database) -> AsyncIterator[Notices]:
        """Listen until the block ends. Works, by polling alone, while the database is away."""
        notices = cls(db)
        listening = asyncio.create_task(notices._listen())
        try:
            yield notices
        finally:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening

    @contextmanager
    def watch(self, what: str) -> Iterator[Watch]:
        """Watch a session, by its id, or ``DISPATCH``, or ``STOPS``."""
        watch = Watch()
        self._watches.setdefault(what, set()).add(watch)
        try:
            yield watch
        finally:
            watching = self._watches[what]
            watching.discard(watch)
            if not watching:
                del self._watches[what]

    def _hear(self, _conn: object, _pid: int, _channel: str, payload: object) -> None:
        for watch in self._watches.get(str(payload), ()):
            watch.tell()

    def _wake_all(self) -> None:
        for watching in self._watches.values():
            for watch in watching:
                watch.tell()

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except LOST as error:
                log.warning("notices_lost", error=type(error).__name__)
            self._wake_all()
            await asyncio.sleep(_RECONNECT_S)

    async def _listen_once(self) -> None:
        conn = await asyncpg.connect(self._url, timeout=5)
        closed = asyncio.Event()
        try:
            conn.add_termination_listener(lambda _conn: closed.set())
            await conn.add_listener(CHANNEL, self._hear)
            # What changed before the listener stood was told to nobody.
            self._wake_all()
            while not closed.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_S):
                        await closed.wait()
                # A half-open connection says nothing for ever: ask.
                await conn.execute("SELECT 1", timeout=_CHECK_S)
        finally:
            conn.terminate()
